"""The catalogue of knobs: every knob of every template has a label and a sentence, and no idea has two labels."""

from __future__ import annotations

import re

import pytest
from golden_sources import GOLDENS, ROOT, Golden

from tilewright.kernels.templates import TEMPLATES, get_template
from tilewright.search_space import Knob, knob
from tilewright.search_space.catalogue import ideas

PAGE = ROOT / "docs" / "knobs.md"
RIDDLES = re.compile(r"\b(so many|such|these|those|thing|stuff)\b", re.IGNORECASE)


def knobs_of(golden: Golden) -> list[Knob]:
    space = get_template(golden.template).space(golden.task)
    return [knob(golden.template, k.name) for k in space.knobs]


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_knob_of_the_template_has_a_label_and_a_sentence(template: str) -> None:
    found = {k.name: k for g in GOLDENS.values() if g.template == template for k in knobs_of(g)}
    assert found
    assert [name for name, k in found.items() if not k.sentence] == []


def test_labels_and_sentences_are_plain_english() -> None:
    for label, (sentence, _) in ideas().items():
        assert 2 <= len(label) <= 34, label
        assert re.fullmatch(r"[A-Z][^.]*(?:;[^.]*)?\.", sentence), sentence
        assert len(sentence.split()) <= 25, sentence
        assert not RIDDLES.search(sentence), sentence


def test_no_idea_has_two_labels() -> None:
    names = [name for _, knobs in ideas().values() for name in knobs]
    assert len(set(names)) == len(names)
    sentences = [sentence for sentence, _ in ideas().values()]
    assert len(set(sentences)) == len(sentences)


def test_the_catalogue_names_no_knob_that_no_template_has() -> None:
    used = {k.label for g in GOLDENS.values() for k in knobs_of(g)}
    assert set(ideas()) - used == set()


@pytest.mark.parametrize(
    ("template", "name", "label"),
    [
        ("cpu_contraction", "TM", "tasks along m"),
        ("cuda_simt", "TM", "thread tile, rows"),
        ("cpu_partition", "p0.TK", "split-K"),
        ("cpu_generic", "y_tile_rows", "loop tile, rows"),
        ("cpu_generic", "y_vector", "vector axis"),
        ("cuda_map", "vector", "vector width"),
        ("cpu_neighbours", "tile_i1", "result tile"),
    ],
)
def test_a_knob_means_what_its_template_says(template: str, name: str, label: str) -> None:
    assert knob(template, name).label == label


def test_a_knob_of_a_users_kernel_is_its_own_label() -> None:
    assert str(knob("user:mm", "BM")) == "BM"


def test_the_page_of_knobs_is_that_of_the_catalogue(update_golden: bool) -> None:
    rows = [
        f"| {label} | {', '.join(f'`{name}`' for name in names)} | {sentence} |"
        for label, (sentence, names) in sorted(ideas().items(), key=lambda idea: idea[0].lower())
    ]
    head, _, _ = PAGE.read_text().partition("| label |")
    text = "\n".join([f"{head}| label | stored as | what a value says |", "|---|---|---|", *rows, ""])
    if update_golden:
        PAGE.write_text(text)
    assert PAGE.read_text() == text
