"""Recurrent layers on the CPU: the weights packed, the state read where it was written a step before."""
