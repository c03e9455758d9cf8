"""Every code block of README.md and docs/ runs, or is read as far as a machine like this one can."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from blocks import ROOT, all_blocks, blocks_of, pages, spans, summary
from pages import Page, check_syntax, refused, tilewright_commands

RUN = [p.relative_to(ROOT).as_posix() for p in pages() if any(b.fate == "run" for b in blocks_of(p))]


def test_each_block_is_run_or_says_why_not() -> None:
    blocks = all_blocks()
    print(summary(blocks))
    unknown = [f"{b.name}: {b.language}" for b in blocks if not b.kind]
    assert not unknown, "decide in tests/docs/blocks.py what becomes of these languages"
    assert not [b.name for b in blocks if b.kind in ("data", "text") and b.mark("not run")]
    for b in blocks:
        check_syntax(b)
    # What is not run needs a GPU, a server or root. More of it than this is a way around the tests.
    code = [b for b in blocks if b.kind in ("python", "shell", "c")]
    frameworks = [
        b for b in code if b.page in ("docs/pytorch.md", "docs/jax.md") or "tests/frameworks" in b.mark("not run")
    ]
    left = [b for b in code if b.fate == "not run" and b not in frameworks]
    assert len(left) <= 0.22 * len(code), summary(blocks)


def test_documented_commands_exist() -> None:
    problems, count = [], 0
    for page in pages():
        for block in blocks_of(page):
            for line, _ in block.commands():
                for words in tilewright_commands(line):
                    count += 1
                    if why := refused(words):
                        problems.append(f"{block.name}: {line}: {why}")
        for span in spans(page):
            why = refused(shlex.split(span))
            # Running text names commands without what they are about.
            if why and not re.match(r"Missing|Option .* requires", why):
                problems.append(f"{page.name}: tilewright {span}: {why}")
    assert not problems, "\n".join(problems)
    assert count > 100


@pytest.mark.parametrize("name", RUN)
def test_every_block_of_a_page_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Page(tmp_path, monkeypatch, capsys) as page:
        for block in blocks_of(ROOT / name):
            if block.fate == "run" or block.mark("file"):
                page.run(block)
