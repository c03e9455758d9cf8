"""The documentation's site builds without a warning, and holds every command, option, table and result."""

from __future__ import annotations

import html
import inspect
import re
from pathlib import Path
from types import ModuleType

import click
import pytest
from blocks import ROOT

import tilewright
from tilewright import nn, te
from tilewright.cli.app import app


def text_of(page: Path) -> str:
    body = page.read_text(encoding="utf-8")
    article = body[body.index("<article") : body.index("</article>")]
    return html.unescape(re.sub(r"<[^>]+>", "", article))


def test_every_command_and_option_is_there(site: Path) -> None:
    pages = [text_of(page) for page in (site / "cli").glob("*.html")]
    parts = [re.split(r"^\s*(tilewright[\w -]*)¶\n", page, flags=re.MULTILINE) for page in pages]
    found = [pair for p in parts for pair in zip(p[1::2], p[2::2], strict=True)]
    (_, command), *commands = _commands("tilewright", app)
    assert sorted(path for path, _ in found) == sorted(path for path, _ in commands)
    sections = dict(found) | {"tilewright": text_of(site / "cli.html")}
    commands.append(("tilewright", command))
    missing = [
        f"{path} {o}"
        for path, command in commands
        for p in command.params
        if isinstance(p, click.Option) and not p.hidden
        for o in p.opts
        if o not in sections[path]
    ]
    assert not missing


def _commands(path: str, command: click.Command) -> list[tuple[str, click.Command]]:
    out = [(path, command)]
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            assert child is not None
            out += _commands(f"{path} {name}", child)
    return out


def test_the_schema_is_there(site: Path) -> None:
    from tilewright.database.schema import metadata

    text = text_of(site / "database_schema.html")
    for table in metadata.sorted_tables:
        for column in table.columns:
            assert column.name in text, f"{table.name}.{column.name}"
        for index in table.indexes:
            assert str(index.name) in text


def test_every_budget_of_a_farm_is_there(site: Path) -> None:
    from tilewright.farm.budgets import BUDGETS

    text = text_of(site / "farm_reference.html")
    for budget in BUDGETS:
        assert re.search(rf"{budget.name}\s+{re.escape(budget.of)}\s+[\d.,]+", text), budget.name


def test_every_result_has_its_machine_and_date(site: Path) -> None:
    pages = [p.read_text(encoding="utf-8") for p in sorted((site / "benchmarks").glob("*.html"))]
    found = [
        s for page in pages for s in re.findall(r"<h2>(.*?)<a.*?</h2>(.*?)(?=<section|</article>)", page, re.DOTALL)
    ]
    assert len(found) == len({p.stem for p in (ROOT / "benchmarks" / "results").iterdir()})
    undated = [title for title, body in found if not re.search(r"2\d{3}-\d\d-\d\d|Python 3", body)]
    assert not undated
    figures = [page.count("-dark.svg") for page in pages]
    assert figures == [page.count("-light.svg") for page in pages]
    assert sum(figures) > 5


def test_signatures_can_be_read(site: Path) -> None:
    text = "".join(text_of(page) for page in (site / "api").glob("*.html"))
    assert "tilewright.tune(" in text
    assert not re.findall(r"=\s*<|at 0x|Annotated\[", text)


def test_every_public_name_is_there(site: Path) -> None:
    text = "".join(text_of(page) for page in [site / "api.html", *(site / "api").glob("*.html")])
    assert not [name for name in tilewright.__all__ if f"tilewright.{name}" not in text]


@pytest.mark.parametrize("module", [te, nn], ids=["te", "nn"])
def test_every_function_of_te_and_nn_has_a_signature_and_a_description(site: Path, module: ModuleType) -> None:
    name = module.__name__.rpartition(".")[2]
    pages = [text_of(page) for page in (site / "api").glob(f"{name}*.html")]
    found = dict(re.findall(rf"tilewright\.{name}\.(\w+)\(.*?¶\s+(\S.*)", "\n".join(pages)))
    assert set(found) == {n for n in module.__all__ if callable(getattr(module, n)) and n not in ("Ints", "Shape")}
    undescribed = [n for n, text in found.items() if len(text.split()) < 3 or text.startswith("tilewright.")]
    assert not undescribed


@pytest.mark.parametrize("module", [te, nn], ids=["te", "nn"])
def test_functions_of_te_and_nn_name_their_arguments_and_their_errors(module: ModuleType) -> None:
    """The first line is one sentence; a function of tensors that checks its arguments says what it raises."""
    functions = {n: f for n in module.__all__ if inspect.isfunction(f := getattr(module, n))}
    assert len(functions) > 30
    lines = {n: inspect.getdoc(f).split("\n") for n, f in functions.items()}  # type: ignore[union-attr]
    assert not [n for n, text in lines.items() if text[0][-1] != "." or (len(text) > 1 and text[1])]
    silent = {n for n, text in lines.items() if "Raises ``" not in " ".join(text)}
    # These take one tensor of any shape, or nothing that could be wrong.
    assert silent <= {"relu", "silu", "sigmoid", "tanh", "default_dtype", "left", "right", "scalar"}


def test_guides_and_reference_stand_apart(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    captions = re.findall(r'<span class="caption-text">(.*?)</span>', page)
    assert [c.partition(":")[0] for c in captions] == sorted(c.partition(":")[0] for c in captions)
    assert {"Guides", "Reference"} == {c.partition(":")[0] for c in captions}
    for task in ("Tune an operator", "Serve it", "Bring a model", "Bring a PyTorch module", "Bring a kernel", "Run a farm",
                 "Look at results", "Extend Tilewright"):  # fmt: skip
        assert f"Guides: {task}" in captions


def test_every_page_is_three_steps_from_the_landing_page_at_most(site: Path) -> None:
    """By the links of texts, without the sidebar."""
    reached, steps = {site / "index.html"}, [site / "index.html"]
    for _ in range(3):
        links = {(page.parent / url).resolve() for page in steps for url in _links(page)}
        steps = [page for page in links - reached if page.suffix == ".html"]
        reached |= links
    made = {"search.html", "genindex.html"}
    assert not [page for page in site.rglob("*.html") if page.resolve() not in reached and page.name not in made]


def _links(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(r'<a\b[^>]*?href="([^"#:]+)(?:#[^"]*)?"', text[text.index("<article") : text.index("</article>")])


def test_code_can_be_copied_and_the_icon_is_the_dashboards(site: Path) -> None:
    page = (site / "quickstart.html").read_text(encoding="utf-8")
    assert "copybutton.js" in page
    icon = re.search(r'<link rel="[^"]*icon"[^>]* href="([^"]+)"', page)
    assert icon is not None
    own = ROOT / "src" / "tilewright" / "dashboard" / "static" / "icon.svg"
    assert (site / icon[1].partition("?")[0]).read_bytes() == own.read_bytes()


def test_nothing_is_fetched(site: Path) -> None:
    """The pages ask no other host for anything, and links lead to pages that exist."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|link|iframe)\b[^>]*?(?:src|href)="([^"]+)"', text)
        assert not [url for url in loaded if re.match(r"(?:https?:)?//", url)], page
        for url in re.findall(r'<a\b[^>]*?href="([^"#:]+)(?:#[^"]*)?"', text):
            assert (page.parent / url).exists(), f"{page.name}: {url}"


def test_comments_for_tests_do_not_reach_the_site(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not re.search(r"<!--\s*(run|not run|before|file|generated):", page.read_text(encoding="utf-8")), page
