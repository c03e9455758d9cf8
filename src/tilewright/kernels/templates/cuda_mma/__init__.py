"""Products on Tensor Cores through ``mma.sync`` (sm_80 and later).

``match`` recognises programs, ``space`` spans the schedules, ``default`` chooses a schedule without tuning.
``geometry`` holds the resulting sizes and shared-memory layouts. ``loads``, ``fragments``, ``store`` and ``pack`` print
parts of the kernel, and ``lower`` assembles them.
"""
