"""Scans along one axis with what feeds and reads them (CPU): the state stays in registers, or in the first cache."""
