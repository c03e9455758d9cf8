"""Classes of programs, and the normal form that every target's templates for a class start from.

A family knows programs only: no target, no hardware, no element types that one of them lacks. What a target's
template cannot compute of its family it refuses itself (:attr:`~tilewright.kernels.templates.base.Template.family`).
"""
