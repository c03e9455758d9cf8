"""Bundles that are whole and make no sense: their hashes are right, and what they say is not. One line, no crash."""

from __future__ import annotations

import json
import random as stdlib_random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from test_bundle_store import bundled

from tilewright.bundles.contents import code_of, kernels, source_of, task_of
from tilewright.core import DatabaseError, TilewrightError, canonical_json, digest
from tilewright.runtime import Library
from tilewright.runtime.bundle import layout
from tilewright.runtime.bundle.layout import HEADER, Header, Index, pack_index, unpack_header
from tilewright.runtime.bundle.reader import Bundle
from tilewright.runtime.bundle.store import BundleStore

OPS = ("matmul", "sqdist", "scale", "nothing")
JUNK: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 1.5, float("inf"), float("nan"), 10**30, -(10**400), "", "x", "nan", [], {}, [1],
    {"a": 1}, "\ud800", "\0", [[]], "{}", "[]", "null", "[1]", '{"a":1}', "e" * 64, "Z" * 64,
)  # fmt: skip
TEXTS = ("params", "defaults", "param_names", "inputs", "output", "target", "schedule", "launch_program", "flags")
"""Columns that hold JSON as text."""


@dataclass
class Parts:
    """What a bundle is made of: the index's own facts, rows, keys with their rows, and blobs by hash."""

    meta: Any
    rows: list[Any]
    keys: list[tuple[bytes, int]]
    blobs: dict[bytes, bytes]
    programs: list[bytes]

    @classmethod
    def of(cls, data: bytes) -> Parts:
        header = unpack_header(data[:HEADER], len(data), "")
        raw = data[HEADER : HEADER + header.index]
        index = Index(raw, "", len(data))
        keys = [layout._KEY.unpack_from(raw, at) for at in range(index._keys, index._rows, layout._KEY.size)]
        blobs = {d: data[at : at + length] for d, at, length in index.every_blob()}
        rows: list[Any] = [index.row(n) for n in range(index.rows)]
        programs = [blobs[bytes.fromhex(row["program_sha256"])] for row in rows]
        return cls(json.loads(raw[index._meta : index._keys]), rows, keys, blobs, programs)

    def copy(self) -> Parts:
        meta, rows = json.loads(json.dumps([self.meta, self.rows]))
        return Parts(meta, rows, self.keys, dict(self.blobs), self.programs)

    def bundle(self) -> bytes:
        """An unsigned bundle of them, its hashes right."""
        index, order = pack_index(self.meta, self.rows, self.keys, {d: len(b) for d, b in self.blobs.items()})
        body = index + b"".join(self.blobs[d] for d in order)
        return Header(HEADER + len(body), len(index), sha256(index).digest()).pack() + body


@pytest.fixture(scope="module")
def parts(filled_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Parts:
    data = bundled(filled_database, tmp_path_factory.mktemp("malformed") / "k.twb").read_bytes()
    found = Parts.of(data)
    assert found.bundle() == data
    return found


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where there is something in a JSON value."""
    yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*at, key))


def mutated(value: Any, source: stdlib_random.Random) -> Any:
    """A JSON value with something taken out, put in, renamed or replaced."""
    where = source.choice(list(places(value)))
    if not where:
        return source.choice(JUNK)
    holder = value
    for key in where[:-1]:
        holder = holder[key]
    kind = source.random()
    if kind < 0.2:
        del holder[where[-1]]
    elif kind < 0.3 and isinstance(holder, dict):
        holder[source.choice(("", "op", "\ud800"))] = holder.pop(where[-1])
    elif kind < 0.4 and isinstance(holder, list):
        holder.append(source.choice(JUNK))
    else:
        holder[where[-1]] = source.choice(JUNK)
    return value


def spoil(parts: Parts, source: stdlib_random.Random) -> None:
    """One thing of a bundle: its facts, a row, JSON within a row, or a program."""
    number = source.randrange(len(parts.rows))
    row, kind = parts.rows[number], source.random()
    if kind < 0.1:
        parts.meta = mutated(parts.meta, source)
    elif kind < 0.4 or not isinstance(row, dict):
        parts.rows[number] = mutated(row, source)
    elif kind < 0.8:
        column = source.choice(TEXTS)
        value = row.get(column)
        if isinstance(value, str) and value[:1] in ("{", "["):
            row[column] = json.dumps(mutated(json.loads(value), source))
    elif isinstance(row.get("program_sha256"), str):
        some = source.choice((b"", b"x", b"\xff", b"[]", b"null", b"7", b"[" * 5000))
        program = json.loads(source.choice(parts.programs))
        new = some if source.random() < 0.3 else canonical_json(mutated(program, source)).encode()
        parts.blobs[sha256(new).digest()] = new
        row["program_sha256"] = sha256(new).hexdigest()
        if source.random() < 0.5:  # as its author would
            row["workload_key"] = digest([new.decode(errors="replace"), row.get("precision")])


def uses(path: Path) -> Iterator[Callable[[], object]]:
    """Everything that reads a bundle and runs none of its code."""
    store, bundle = BundleStore(path, trust=True), Bundle(path, True)
    yield from (bundle.check, store.every, store.ranges, store.names, store.choices)
    for op in OPS:
        yield lambda op=op: (store.entries(op), store.samples(op))  # type: ignore[misc]
        yield lambda op=op: store.entries(op, params={"m": 4, "n": 4, "k": 4})  # type: ignore[misc]
        yield lambda op=op: store.entries(op, shapes=((4, 4), (4, 4)))  # type: ignore[misc]
        yield lambda op=op: [store.code(e.sha256) for e in store.entries(op)]  # type: ignore[misc]
        yield lambda op=op: [store.entries_of(e.workload_key, op) for e in store.entries(op)]  # type: ignore[misc]
        yield lambda op=op: [w.key for w in store.workloads(op)]  # type: ignore[misc]
    for read in (
        lambda k: k.to_json(),
        lambda k: task_of(bundle, k).key,
        *(lambda k, f=f: f(bundle, k) for f in (source_of, code_of)),
    ):
        yield lambda read=read: [read(k) for k in kernels(bundle)]  # type: ignore[misc]
    for check in (False, True):
        library = Library(path, trust=True, watch=False, count_misses=False, check=check)
        yield library.operators
        yield library.refresh
        for op, sizes in (("matmul", (4, 4, 4)), ("matmul", (3, 5, 7)), ("sqdist", (4, 3, 5)), ("sqdist", (9, 9, 9))):
            named = dict(zip("mnk", sizes, strict=True))
            yield lambda op=op, named=named, library=library: library.plan(op, **named)  # type: ignore[misc]
            yield lambda op=op, named=named, library=library: library.explain(op, **named)  # type: ignore[misc]
        yield lambda library=library: library.resolver.near("matmul", [(4, 4), (4, 4)], {})  # type: ignore[misc]


def use(path: Path) -> int:
    """Every use; how many are refused. Whatever else is raised comes through."""
    said = []
    try:
        for one in uses(path):
            try:
                one()
            except TilewrightError as e:
                said.append(e.message)
    except TilewrightError as e:  # it is not even opened
        said.append(e.message)
    assert not any("\n" in message for message in said)
    return len(said)


def test_a_bundle_that_is_right_is_used(parts: Parts, tmp_path: Path) -> None:
    path = tmp_path / "k.twb"
    path.write_bytes(parts.bundle())
    assert use(path) <= 6  # of `nothing`, and of sizes that were not tuned


@pytest.mark.parametrize("count", [80, pytest.param(3000, marks=pytest.mark.nightly)])
def test_whatever_a_whole_bundle_says_raises_nothing_but_errors_of_one_line(
    count: int, parts: Parts, tmp_path: Path
) -> None:
    source, path, refused = stdlib_random.Random(count), tmp_path / "k.twb", 0
    for _ in range(count):
        some = parts.copy()
        for _ in range(source.choice((1, 1, 3))):
            spoil(some, source)
        path.write_bytes(some.bundle())
        refused += use(path) > 6
    assert refused > count // 3


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("op", ["matmul"]),
        ("op", None),
        ("flops", "many"),
        ("seconds", "soon"),
        ("seconds", None),
        ("updated", {}),
        ("artifact_sha256", 7),
        ("program_sha256", "not a hash"),
        ("program_sha256", 10**30),
        ("peak_fraction", "half"),
        ("versions", "{"),
        ("flags", "-O3"),
        ("flags", ""),
        ("source_parts", [7]),
        ("source_parts", "text"),
        ("compiler", []),
        ("params", '{"m":[4]}'),
        ("param_names", '["m","x"]'),
        ("inputs", '[["a",[4,-4],"float32"]]'),
        ("inputs", '[["a",[4,"4"],"float32"]]'),
        ("inputs", '[["a",[4,4],"float128"]]'),
        ("inputs", '[["a",[4,4],["float32"]]]'),
        ("output", "[]"),
        ("target", "{}"),
        ("schedule", '{"template":[],"version":1,"structure":[],"launch":[]}'),
        ("launch_program", '{"launches":[""]}'),
        ("launch_program", '{"launches":[[7,["m"]]]}'),
        ("launch_program", "[" * 100_000),
    ],
)
def test_a_column_that_makes_no_sense_is_named(column: str, value: Any, parts: Parts, tmp_path: Path) -> None:
    some = parts.copy()
    for row in some.rows:
        row[column] = value
    path = tmp_path / "k.twb"
    path.write_bytes(some.bundle())
    bundle, store = Bundle(path, True), BundleStore(path, trust=True)
    for read in (lambda: store.workloads("matmul"), lambda: [task_of(bundle, k) for k in kernels(bundle)]):
        with pytest.raises(DatabaseError, match=r"the bundle .* is damaged: ") as e:
            read()
        assert len(str(e.value)) < 600


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ({"workspace": [[], 1, 2]}, "is invalid"),
        ({"workspace": ["+"]}, "is invalid"),
        ({"workspace": ["//", 1, 0]}, "is invalid"),
        ({"workspace": "unknown"}, "launch argument 'unknown' has no value"),
        ({"workspace": 1 << 60}, "no memory for a workspace of"),
        ({"align": 0}, "begin at multiples of 0 bytes"),
        ({"align": 24}, "begin at multiples of 24 bytes"),
        ({"launches": [["\0", []]]}, "symbol may not be str"),
        ({"launches": [["\ud800", []]]}, "symbol may not be str"),
        ({"launches": [["no such function", []]]}, "has no kernel no such function"),
    ],
)
def test_a_launch_program_that_makes_no_sense_is_refused_before_it_is_called(
    program: dict[str, Any], said: str, parts: Parts, tmp_path: Path
) -> None:
    some = parts.copy()
    for row in some.rows:
        row["launch_program"] = json.dumps({**json.loads(row["launch_program"]), **program})
    path = tmp_path / "k.twb"
    path.write_bytes(some.bundle())
    with pytest.raises(DatabaseError, match=said):
        Library(path, trust=True, watch=False).plan("matmul", m=4, n=4, k=4)
