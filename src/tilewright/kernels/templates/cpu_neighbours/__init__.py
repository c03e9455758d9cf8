"""The CPU template of fused stencil chains: overlapped tiling, which recomputes the halos of tiles."""
