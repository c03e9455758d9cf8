"""Families: classes of programs, each with a normal form from which every target's templates start.

A family depends on programs only, not on a target, hardware, or the element types that a target supports. A template
itself refuses programs of its family that its target cannot compute
(:attr:`~tilewright.kernels.templates.base.Template.family`).
"""
