"""Single spaces: exact size, uniform samples, closed moves, clear refusals."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Mapping

import pytest
import scipy  # its parts are imported when they are used
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.core import IllegalSchedule, Schedule, UsageError, Value
from tilewright.search_space import Choice, Constraint, SearchSpace, UnionSpace, graph, rule
from tilewright.testing.space import SpaceContract


def blocking() -> SearchSpace:
    return SearchSpace(
        "blocking",
        3,
        (
            Choice("rows", (1, 2, 4, 6, 8)),
            Choice("order", ("ij", "ji", "blocked"), ordered=False),
            Choice("columns", (1, 2, 3, 4)),
            Choice("pack", (False, True)),
            Choice("depth", (16, 32, 64, 128), "launch"),
            Choice("scale", (0.5, 1.0)),
            Choice("height", (12, 24, 48), "launch"),
        ),
        (
            Constraint(("rows", "columns"), lambda v: v["rows"] * v["columns"] <= 12, "too many registers"),
            Constraint(("rows", "height"), lambda v: v["height"] % v["rows"] == 0, "height is not a multiple of rows"),
            Constraint(("pack", "depth"), lambda v: v["pack"] or v["depth"] <= 64, "deep blocks need packing"),
        ),
    )


def factors() -> SearchSpace:
    """Splits of 64: a change of one knob alone is never legal."""
    names = ("a", "b", "c")
    powers = tuple(2**i for i in range(7))
    return SearchSpace(
        "factors",
        1,
        tuple(Choice(n, powers, "launch") for n in names),
        (Constraint(names, lambda v: v["a"] * v["b"] * v["c"] == 64, "product must be 64"),),
    )


def brute_force(space: SearchSpace) -> list[Schedule]:
    """The legal schedules by definition, in lexicographic order."""
    out = []
    for values in itertools.product(*(k.values for k in space.knobs)):
        named = {k.name: v for k, v in zip(space.knobs, values, strict=True)}
        if all(c.holds({n: named[n] for n in c.reads}) for c in space.constraints):
            halves = [
                tuple((k.name, named[k.name]) for k in space.knobs if k.half == half)
                for half in ("structure", "launch")
            ]
            out.append(Schedule(space.template, space.version, *halves))
    return out


def table_rule(reads: tuple[str, ...], forbidden: frozenset[tuple[Value, ...]]) -> Constraint:
    return Constraint(reads, lambda v: tuple(v[n] for n in reads) not in forbidden, "in the table")


@st.composite
def spaces(draw: st.DrawFn) -> SearchSpace:
    count = draw(st.integers(1, 5))
    knobs = []
    for i in range(count):
        width = draw(st.integers(1, 4))
        kind = draw(st.sampled_from(["int", "word", "bool"]))
        values: tuple[Value, ...] = tuple(3 * v for v in range(width))
        if kind == "word":
            values = tuple("pqrs"[:width])
        elif kind == "bool":
            values = (False, True)
        half = draw(st.sampled_from(["structure", "launch"])) if kind == "int" else "structure"
        knobs.append(Choice(f"k{i}", values, half, draw(st.booleans())))
    rules = []
    for _ in range(draw(st.integers(0, 3))):
        reads = tuple(draw(st.permutations([k.name for k in knobs]))[: draw(st.integers(1, count))])
        domain = [next(k for k in knobs if k.name == n).values for n in reads]
        combos = list(itertools.product(*domain))
        rules.append(table_rule(reads, frozenset(draw(st.lists(st.sampled_from(combos), max_size=len(combos))))))
    return SearchSpace("drawn", 1, tuple(knobs), tuple(rules))


@given(spaces(), st.data())
def test_some_knobs_are_allowed_where_no_rule_about_them_forbids_them(space: SearchSpace, data: st.DataObject) -> None:
    names = data.draw(st.sets(st.sampled_from([k.name for k in space.knobs]), min_size=1))
    knobs = tuple(k for k in space.knobs if k.name in names)
    told = SearchSpace("told", 1, knobs, tuple(c for c in space.constraints if names.issuperset(c.reads)))
    legal = [dict(s.values) for s in brute_force(told)]
    for values in itertools.product(*(k.values for k in knobs)):
        named = {k.name: v for k, v in zip(knobs, values, strict=True)}
        assert space.allows(named) == (named in legal)


def test_the_first_legal_candidate_is_taken_and_any_legal_schedule_where_there_is_none() -> None:
    space = factors()
    wanted: list[dict[str, Value]] = [{"a": 1, "b": 1, "c": 1}, {"a": 2, "b": 4, "c": 8}, {"a": 64, "b": 1, "c": 1}]
    assert space.first(wanted) == wanted[1]
    assert space.allows(space.first(wanted[:1]))


class TestBlocking(SpaceContract):
    @pytest.fixture
    def space(self) -> SearchSpace:
        return blocking()


class TestFactors(SpaceContract):
    @pytest.fixture
    def space(self) -> SearchSpace:
        return factors()


class TestAlone(SpaceContract):
    @pytest.fixture
    def space(self) -> SearchSpace:
        return SearchSpace("alone", 1, (Choice("a", (1,)), Choice("b", ("x",))))


class TestNoKnobs(SpaceContract):
    @pytest.fixture
    def space(self) -> SearchSpace:
        return SearchSpace("fixed", 1, ())


class TestWide(SpaceContract):
    """The same contract where the graph is given up and rejection takes over."""

    @pytest.fixture
    def space(self, monkeypatch: pytest.MonkeyPatch) -> SearchSpace:
        monkeypatch.setattr(graph, "EDGE_LIMIT", 1)
        space = blocking()
        assert all(isinstance(part, graph.Wide) for part in space._parts)
        return space


class TestUnion(SpaceContract):
    @pytest.fixture
    def space(self) -> UnionSpace:
        return UnionSpace((blocking(), factors(), SearchSpace("alone", 1, (Choice("a", (1,)),))))


@pytest.mark.parametrize("make", [blocking, factors])
@pytest.mark.parametrize("limit", [1, graph.EDGE_LIMIT])
def test_size_and_iteration_match_the_definition(
    make: Callable[[], SearchSpace], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "EDGE_LIMIT", limit)
    space = make()
    assert list(space) == brute_force(space)
    assert space.size == len(brute_force(space))


@given(spaces(), st.integers(0, 2**32))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_space_is_exact_and_closed(space: SearchSpace, seed: int) -> None:
    legal = brute_force(space)
    assert list(space) == legal
    assert space.size == len(legal)
    assert space.some == min(2, len(legal))
    if not legal:
        with pytest.raises(IllegalSchedule, match="in the table"):
            space.sample(random.Random(seed))
        return
    rng = random.Random(seed)
    members = set(legal)
    for _ in range(5):
        a, b = space.sample(rng), space.sample(rng)
        mutant, child = space.mutate(rng, a), space.crossover(rng, a, b)
        assert {a, b, mutant, child} <= members
        assert (mutant != a) == (len(legal) > 1)
    rows = {tuple(space.encode(s)) for s in legal}
    assert len(rows) == len(legal)


def kept_close(space: SearchSpace, legal: list[Schedule], wanted: list[int], found: Schedule) -> bool:
    """Whether every knob of ``found`` is, given the ones before it, as close to ``wanted`` as a legal one can be."""
    rows = [space.indices(s) for s in legal]
    for place, (knob, want, at) in enumerate(zip(space.knobs, wanted, space.indices(found), strict=True)):
        options = {row[place] for row in rows}
        if want in options and at != want:
            return False
        if knob.ordered and abs(at - want) != min(abs(o - want) for o in options):
            return False
        rows = [row for row in rows if row[place] == at]
    return bool(rows)


@given(spaces(), st.integers(0, 2**32), st.lists(st.integers(-1, 4), min_size=5, max_size=5))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_indices_have_a_nearest_legal_schedule(space: SearchSpace, seed: int, drawn: list[int]) -> None:
    legal = list(space)
    wanted = drawn[: len(space.knobs)]
    rng = random.Random(seed)
    if not legal:
        with pytest.raises(IllegalSchedule, match="in the table"):
            space.nearest(rng, wanted)
        return
    for schedule in legal:
        indices = space.indices(schedule)
        assert {k.name: k.values[i] for k, i in zip(space.knobs, indices, strict=True)} == schedule.values
        assert space.nearest(rng, indices) == schedule
    assert kept_close(space, legal, wanted, space.nearest(rng, wanted))


@pytest.mark.parametrize("make", [blocking, factors])
@pytest.mark.parametrize("limit", [1, graph.EDGE_LIMIT])
def test_the_nearest_is_near_however_a_space_is_prepared(
    make: Callable[[], SearchSpace], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "EDGE_LIMIT", limit)
    space = make()
    legal = list(space)
    rng = random.Random(8)
    for _ in range(10):
        wanted = [rng.randrange(len(k.values)) for k in space.knobs]
        seed = rng.random()
        found = space.nearest(random.Random(seed), wanted)
        assert found == space.nearest(random.Random(seed), wanted)
        assert kept_close(space, legal, wanted, found)
        space.check(found)


def test_indices_of_another_space_are_refused() -> None:
    space = factors()
    schedule = space.schedule({"a": 4, "b": 4, "c": 4})
    assert space.indices(schedule) == [2, 2, 2]
    with pytest.raises(IllegalSchedule, match="not in the space of 'factors'"):
        space.indices(Schedule("factors", 2, schedule.structure, schedule.launch))
    with pytest.raises(IllegalSchedule, match="3 is not a value of knob 'a'"):
        space.indices(Schedule("factors", 1, (), (("a", 3), ("b", 4), ("c", 4))))
    with pytest.raises(UsageError, match="2 indices are given for the 3 knobs"):
        space.nearest(random.Random(0), [2, 2])


@pytest.mark.parametrize("make", [blocking, factors])
@pytest.mark.parametrize("limit", [1, graph.EDGE_LIMIT])
def test_samples_are_uniform(make: Callable[[], SearchSpace], limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "EDGE_LIMIT", limit)
    space = make()
    legal = list(space)
    rng = random.Random(11)
    counts = Counter(space.sample(rng) for _ in range(20 * len(legal)))
    assert scipy.stats.chisquare([counts[s] for s in legal]).pvalue > 1e-3


def test_a_union_draws_templates_evenly() -> None:
    union = UnionSpace((blocking(), factors()))
    rng = random.Random(5)
    counts = Counter(union.sample(rng).template for _ in range(4000))
    assert scipy.stats.chisquare([counts["blocking"], counts["factors"]]).pvalue > 1e-3


def tiles(name: str, rows: tuple[int, ...], *more: Choice) -> SearchSpace:
    return SearchSpace(
        name, 1, (Choice("rows", rows), Choice("order", ("ij", "ji"), ordered=False), *more),
        (Constraint(("rows", "order"), lambda v: v["order"] == "ij" or v["rows"] < 64, "no"),),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "rows", "order"),
    [
        ({"rows": 32, "order": "ji", "other": 7}, 32, "ji"),
        ({"rows": 20, "order": "ij"}, 16, "ij"),
        ({"rows": 1000, "order": "kj"}, 128, "ij"),  # an order that there is not here: as in the other schedule
        ({"rows": 100, "order": "ji"}, 128, "ij"),  # the first knob has its way, the second what that allows
        ({"rows": True}, 4, "ij"),
    ],
)
def test_what_carries_over_to_another_space(given: dict[str, Value], rows: int, order: str) -> None:
    space = tiles("to", (4, 16, 32, 128), Choice("depth", (1, 2, 3)))
    schedule = Schedule("from", 2, tuple(given.items()))
    otherwise = space.schedule({"rows": 4, "order": "ij", "depth": 2})
    found = space.carried(random.Random(0), schedule, otherwise)
    space.check(found)
    assert found.values == {"rows": rows, "order": order, "depth": 2}


def test_mutants_cross_templates_where_names_carry_over() -> None:
    union = UnionSpace((tiles("one", (4, 16, 64)), tiles("two", (4, 16, 32), Choice("pack", (False, True)))))
    start = union.schedule({"rows": 16, "order": "ji"}, "one")
    rng = random.Random(3)
    children = [union.mutate(rng, start) for _ in range(400)]
    across = [c for c in children if c.template == "two"]
    assert 0.05 < len(across) / len(children) < 0.2
    assert {(c.values["rows"], c.values["order"]) for c in across} == {(16, "ji")}
    assert {c.values["pack"] for c in across} == {False, True}


def test_crossover_takes_values_from_its_parents_where_nothing_links_them() -> None:
    space = SearchSpace("free", 1, tuple(Choice(f"k{i}", tuple(range(9))) for i in range(8)))
    rng = random.Random(4)
    a, b = space.sample(rng), space.sample(rng)
    children = [space.crossover(rng, a, b) for _ in range(50)]
    assert all(v in (a.values[n], b.values[n]) for c in children for n, v in c.values.items())
    assert len(set(children)) > 10


def test_mutants_reach_the_whole_space_and_stay_near() -> None:
    space = blocking()
    rng = random.Random(6)
    reached = {space.sample(rng)}
    for _ in range(60):
        reached |= {space.mutate(rng, s) for s in list(reached)[:200]}
    start = space.sample(rng)
    changed = [sum(start.values[n] != v for n, v in space.mutate(rng, start).values.items()) for _ in range(200)]
    assert len(reached) > space.size // 2
    assert sum(changed) / len(changed) < 2


def test_halves_and_order_follow_the_knobs() -> None:
    space = blocking()
    values = {
        "height": 24, "scale": 1.0, "depth": 64, "pack": False, "columns": 2, "order": "ji", "rows": 4,
    }  # fmt: skip
    schedule = space.schedule(values)
    assert [n for n, _ in schedule.structure] == ["rows", "order", "columns", "pack", "scale"]
    assert [n for n, _ in schedule.launch] == ["depth", "height"]
    assert schedule.values == values
    space.check(schedule)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"rows": 3}, "3 is not a value of knob 'rows'"),
        ({"rows": True}, "True is not a value of knob 'rows'"),
        ({"rows": 8}, "too many registers"),
        ({"rows": 8, "columns": 1, "height": 12}, "height is not a multiple of rows"),
        ({"depth": 128}, "deep blocks need packing"),
        ({"nope": 1}, "no knob 'nope'"),
        ({"order": None}, "no value"),
    ],
)
def test_an_illegal_schedule_says_why(change: Mapping[str, Value | None], named: str) -> None:
    values: dict[str, Value] = {
        "rows": 4, "order": "ij", "columns": 2, "pack": False, "depth": 16, "scale": 0.5, "height": 12,
    }  # fmt: skip
    blocking().schedule(values)
    values = {k: v for k, v in {**values, **change}.items() if v is not None}
    with pytest.raises(IllegalSchedule, match=named):
        blocking().schedule(values)


def test_check_refuses_another_order_or_half() -> None:
    schedule = next(iter(blocking()))
    shuffled = Schedule(schedule.template, schedule.version, schedule.structure[::-1], schedule.launch)
    moved = Schedule(schedule.template, schedule.version, schedule.structure + schedule.launch)
    for wrong in (shuffled, moved):
        with pytest.raises(IllegalSchedule, match="another order or half"):
            blocking().check(wrong)


def test_an_impossible_space_says_which_rules_clash() -> None:
    space = SearchSpace(
        "clash",
        1,
        (Choice("a", (1, 2)), Choice("b", (1, 2)), Choice("c", (1, 2))),
        (
            Constraint(("a", "b"), lambda v: v["a"] > v["b"], "a must exceed b"),
            Constraint(("b", "a"), lambda v: v["b"] > v["a"], "b must exceed a"),
        ),
    )
    assert space.size == space.some == 0
    assert list(space) == []
    with pytest.raises(
        IllegalSchedule, match=r"no legal schedule: no values of a, b .*a must exceed b; b must exceed a"
    ):
        space.sample(random.Random(0))
    with pytest.raises(IllegalSchedule, match="no legal schedule"):
        UnionSpace((space,)).sample(random.Random(0))


def test_a_rule_without_knobs_can_forbid_everything() -> None:
    space = SearchSpace("never", 1, (Choice("a", (1, 2)),), (Constraint((), lambda v: False, "too small a task"),))
    assert space.size == 0
    assert list(space) == []
    with pytest.raises(IllegalSchedule, match="too small a task"):
        space.sample(random.Random(0))


def test_an_impossible_member_of_a_union_is_left_out() -> None:
    never = SearchSpace("never", 1, (Choice("a", (1, 2)),), (Constraint((), lambda v: False, "no"),))
    union = UnionSpace((never, factors()))
    rng = random.Random(0)
    assert {union.sample(rng).template for _ in range(20)} == {"factors"}
    assert union.size == factors().size


def test_a_rule_reads_the_knobs_that_its_function_names() -> None:
    made = rule("too many registers", lambda rows, columns: rows * columns <= 12)
    assert (made.reads, made.reason) == (("rows", "columns"), "too many registers")
    assert made.holds({"rows": 4, "columns": 3})
    assert not made.holds({"rows": 4, "columns": 4})


def test_a_rule_sees_only_what_it_reads() -> None:
    space = SearchSpace(
        "sees", 1, (Choice("a", (1, 2)), Choice("b", (1, 2))), (Constraint(("a",), lambda v: v["b"] > 0, "b"),)
    )
    with pytest.raises(KeyError):
        space.sample(random.Random(0))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Choice("a", ()), "no values"),
        (lambda: Choice("a", (1, 1)), "repeats"),
        (lambda: Choice("a", (1, "x")), "mixes types"),
        (lambda: Choice("a", (1,), "middle"), "half"),
        (lambda: Choice("a", ("x",), "launch"), "not integers"),
        (lambda: Choice("a", (True,), "launch"), "not integers"),
        (lambda: SearchSpace("s", 1, (Choice("a", (1,)), Choice("a", (2,)))), "repeats a knob"),
        (lambda: SearchSpace("s", 1, (), (Constraint(("z",), bool, "why"),)), "reads 'z'"),
        (lambda: UnionSpace(()), "at least one"),
        (lambda: UnionSpace((factors(), factors())), "twice"),
    ],
)
def test_malformed_definitions_are_usage_errors(make: Callable[[], object], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        make()


def test_a_union_of_one_behaves_as_that_space() -> None:
    space, union = blocking(), UnionSpace((blocking(),))
    assert union.size == space.size
    assert union.feature_names == space.feature_names
    assert list(union) == list(space)
    a, b = random.Random(3), random.Random(3)
    for _ in range(20):
        x, y = space.sample(a), union.sample(b)
        assert x == y
        assert space.encode(x) == union.encode(y)
        assert space.mutate(a, x) == union.mutate(b, y)
        assert space.crossover(a, x, space.sample(a)) == union.crossover(b, y, union.sample(b))
    values = dict(x.values)
    assert union.schedule(values) == space.schedule(values)


def test_a_union_finds_the_template_of_values() -> None:
    union = UnionSpace((blocking(), factors()))
    schedule = union.schedule({"a": 4, "b": 4, "c": 4})
    assert schedule.template == "factors"
    assert union.schedule(schedule.values, template="factors") == schedule
    with pytest.raises(IllegalSchedule, match="not in this space"):
        union.schedule({}, template="nope")


def test_knobs_survive_json() -> None:
    for knob in blocking().knobs:
        assert Choice.from_json(knob.to_json()) == knob


def test_large_spaces_are_prepared_without_listing_them() -> None:
    wide = SearchSpace(
        "large",
        1,
        tuple(Choice(f"k{i}", tuple(range(1, 11))) for i in range(12)),
        tuple(Constraint((f"k{i}", f"k{i + 1}"), lambda v: sum(v.values()) % 3 != 0, "sum") for i in range(11)),
    )
    assert all(isinstance(part, graph.Counted) for part in wide._parts)
    # Count by transfer matrix, independently of the graph.
    ways = dict.fromkeys(range(1, 11), 1)
    for _ in range(11):
        ways = {v: sum(n for u, n in ways.items() if (u + v) % 3) for v in range(1, 11)}
    assert wide.size == sum(ways.values())


def test_a_wide_component_with_nothing_legal_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "EDGE_LIMIT", 1)
    space = SearchSpace(
        "never", 1, (Choice("a", (1, 2)), Choice("b", (1, 2))), (Constraint(("a", "b"), lambda v: False, "no"),)
    )
    with pytest.raises(IllegalSchedule, match="no legal schedule"):
        space.sample(random.Random(0))
