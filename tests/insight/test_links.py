"""Names of any kind in addresses."""

from __future__ import annotations

from urllib.parse import unquote, urljoin, urlsplit

from hypothesis import example, given
from hypothesis import strategies as st

from tilewright.insight.links import operator_link, segment, unsegment


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("")
@example(".")
@example("..")
@example("../../etc")
@example("~e~s~t~d")
@example("a\\b%2f?x#y")
def test_a_name_survives_the_address(name: str) -> None:
    address = operator_link(name)
    whole = urljoin("http://host/there", address)
    path = urlsplit(whole).path
    assert urlsplit(whole).netloc == "host"
    assert path.count("/") == 2
    assert unsegment(unquote(path.rsplit("/", 1)[1])) == name
    assert segment(name)
