"""Whether a result is right: inputs, float64 references, and how far an honest kernel may lie from them."""
