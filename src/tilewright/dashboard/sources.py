"""Sources of kernels: the stored source of a kernel, or the source that a trial's template generates now,
highlighted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from markupsafe import Markup

from tilewright.core import Candidate, Schedule, TilewrightError
from tilewright.dashboard.site import Site
from tilewright.database import StoredRun
from tilewright.kernels.codegen.prelude import without_prelude

KEPT_SECONDS = 300.0
LONGEST_MARKED = 200_000
"""Characters beyond which a source is shown without highlighting, which would take seconds."""


@dataclass(frozen=True)
class Source:
    """A source for a page. ``text`` is empty if it is missing; ``note`` says where it comes from, or why it is
    missing."""

    text: str
    note: str


def printed(site: Site, run: StoredRun, schedule: Schedule) -> Source:
    """The source that a schedule's template generates, also for a user's own kernel. Nothing is compiled or run."""
    key = ("source", run.task.key, schedule.key)
    return site.answers.get(key, KEPT_SECONDS, lambda: _printed(run, Candidate(run.task, schedule)))


def stored(site: Site, artifact: str) -> Source:
    """The source that a stored kernel was compiled from, by its artifact's hash."""
    found = site.answers.get(("artifact", artifact), KEPT_SECONDS, lambda: site.database.artifact(artifact))
    if found is None:
        return Source("", "Its compiled code is no longer stored.")
    text = without_prelude(found.source, found.target)
    after = ", after the common prelude" if text != found.source else ""
    return Source(text, f"As it was compiled{after}, by {found.compiler} {' '.join(found.flags)}.")


def _printed(run: StoredRun, candidate: Candidate) -> Source:
    from tilewright.kernels.templates import lower
    from tilewright.tuner import user_kernel

    try:
        user_kernel.templates_of(user_kernel.of_run(run), run.task)
        text = lower(candidate).source
    except TilewrightError as e:
        return Source("", f"No source: {e.message}.")
    except Exception as e:  # an imported schedule may be invalid in any way; the page must still be shown
        return Source("", f"No source: the template cannot print this schedule ({type(e).__name__}: {e}).")
    return Source(text, "As its template prints it, without the common prelude.")


@lru_cache(maxsize=64)
def highlight(source: str) -> Markup:
    """C++ or CUDA C++ as escaped HTML with classes that start with ``tok-`` and no inline styles."""
    if len(source) > LONGEST_MARKED:
        return Markup.escape(source)
    import pygments
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name

    return Markup(pygments.highlight(source, get_lexer_by_name("cpp"), HtmlFormatter(nowrap=True, classprefix="tok-")))
