"""The CPU backend: C++ compiled by the system's compiler and loaded into this process."""
