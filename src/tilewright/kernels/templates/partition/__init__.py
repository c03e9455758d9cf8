"""Programs in pieces: contiguous runs of stages, each computed by another template's kernel."""
