"""Products on Hopper: copies by the copy engine (TMA), a ring of barriers, groups that multiply from shared memory."""
