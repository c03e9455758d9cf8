"""``tilewright cache``: shows and shrinks the artifact cache."""

from __future__ import annotations

import click

from tilewright.cli.declare import declared, option
from tilewright.cli.output import report


@click.group("cache")
def command() -> None:
    """Show or shrink the artifact cache: compiled kernels, in $TILEWRIGHT_CACHE, else in the user's cache directory.

    \b
    Examples:
      tilewright cache stats
      tilewright cache gc --limit 100
    """


@declared("stats", command)
def stats() -> None:
    """Show the number of entries of the cache, and their size.

    \b
    Examples:
      tilewright cache stats
    """
    from tilewright.backends.cache import ArtifactCache

    cache = ArtifactCache()
    s = cache.stats()
    data = {"path": str(cache.root), "entries": s.entries, "bytes": s.bytes, "limit_bytes": s.limit_bytes}
    sizes = f"{s.bytes / 1e6:.1f} of {s.limit_bytes / 1e6:.0f} MB"
    report(data, f"{cache.root}: {s.entries} entries, {sizes}")


@declared("gc", command)
def gc(
    limit: int | None = option(low=0, metavar="MB", help="Size that the cache may keep. [default: the cache's limit]"),
) -> None:
    """Remove the least recently used entries until the cache fits its limit.

    \b
    Examples:
      tilewright cache gc --limit 100
    """
    from tilewright.backends.cache import ArtifactCache

    cache = ArtifactCache()
    before = cache.stats()
    cache.gc(None if limit is None else limit * 1_000_000)
    after = cache.stats()
    removed, freed = before.entries - after.entries, before.bytes - after.bytes
    report(
        {"removed": removed, "freed_bytes": freed, "bytes": after.bytes},
        f"removed {removed} entries, {freed / 1e6:.1f} MB; {after.bytes / 1e6:.1f} MB left",
    )
