"""The CPU template of programs without reductions: elementwise chains, permutations, index maps, gathers."""
