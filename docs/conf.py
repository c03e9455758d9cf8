"""The documentation site: ``make docs``. Everything is built from this repository, without the network."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import tilewright  # noqa: E402

# Sphinx keeps all pages to the end. The garbage collector would take a quarter of the build and find nothing.
gc.disable()

project = "Tilewright"
author = "the Tilewright authors"
copyright = author
version = release = tilewright.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "generated"]
exclude_patterns = ["_build", "_ext", "_generated"]
nitpicky = True
# Signatures show types that have no page here.
nitpick_ignore_regex = [("py:.*", r".*")]

myst_enable_extensions = ["attrs_inline", "colon_fence"]
myst_heading_anchors = 3
# Examples are commands, whose quotes and dashes must stay.
smartquotes = False

autodoc_typehints = "signature"
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = f"Tilewright {release}"
html_favicon = "_static/icon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
# The copy button takes what is typed, without the prompt and the output.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_selector = "div:not(.highlight-text) > div.highlight > pre"
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "github-dark"
