"""Programs without reductions (CUDA): vectors of elements, and tiles through shared memory where axes change places."""
