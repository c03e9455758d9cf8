"""The CPU template of scatters: one pass over the sources, into the result or into private copies of the result."""
