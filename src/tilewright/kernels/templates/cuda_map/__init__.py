"""Programs without reductions (CUDA): vectors of elements, and transposition of tiles through shared memory."""
