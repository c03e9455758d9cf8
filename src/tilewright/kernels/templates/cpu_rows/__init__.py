"""The CPU template of row reductions: softmax, norms, and reductions over trailing axes."""
