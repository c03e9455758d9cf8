"""Chains of stages that read their neighbours (CPU): boxes of the result, from borders computed again."""
