"""Products on Tensor Cores through ``mma.sync`` (sm_80 and later).

``match`` says which programs, ``space`` which schedules, ``default`` which one untuned; ``geometry`` holds
the sizes and shared-memory layouts that follow, ``loads``, ``fragments``, ``store`` and ``pack`` print the
parts of the kernel and ``lower`` puts them together.
"""
