"""Charts as picture files, drawn with Matplotlib: ``draw(chart, "best.svg")``."""

from tilewright.plots.draw import SUFFIXES, PlotError, check_path, draw

__all__ = ["SUFFIXES", "PlotError", "check_path", "draw"]
