"""Read-only web pages about runs, kernels and the farm, with metrics; needs the extra ``dashboard``."""
