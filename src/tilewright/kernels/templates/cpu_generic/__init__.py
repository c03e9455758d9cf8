"""The generic template (CPU): a loop nest for every stage of every program."""
