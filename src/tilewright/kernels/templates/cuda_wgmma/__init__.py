"""Products on Hopper: TMA bulk copies, a ring of mbarriers, and warp groups that multiply from shared memory
(WGMMA)."""
