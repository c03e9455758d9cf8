"""The CPU: C++ through the system's compiler, loaded into this process."""
