"""Programs without reductions (CPU): elementwise chains, permutations, index maps, gathers."""
