"""Who is there: what is counted as workers come and go is what a look at all of them would count."""

from __future__ import annotations

import random
from typing import Any

from tilewright.farm.roster import Member, Roster, Session


def member(rng: random.Random, name: str, now: float) -> Member:
    said: dict[str, Any] = {
        "name": name, "places": rng.sample(["a", "b", "c", "d"], rng.randrange(1, 4)), "lanes": rng.randrange(1, 4),
        "running": 0, "queued": 0, "done": 0, "draining": rng.random() < 0.2, "strikes": 0, "note": "x" * rng.randrange(99),
        "quarantine": "it rattles" * (rng.random() < 0.2), "device": {}, "offers": {}, "instance": "1", "busy": 0.0,
    }  # fmt: skip
    return Member(name, "runner", rng.choice(["one", "two", ""]), None, said, now, now)


def test_counts_by_place_and_owner_are_those_of_all_members() -> None:
    rng, roster = random.Random(1), Roster()
    for step in range(2000):
        name, now = f"w{rng.randrange(12)}", float(step)
        if rng.random() < 0.3 and name in roster.members:
            roster.leave(name)
        else:
            new = member(rng, name, now)
            roster.admit(new, now)
            roster.join(new)
        if rng.random() < 0.3:
            key = f"s{rng.randrange(4)}"
            if key in roster.sessions and rng.random() < 0.5:
                roster.shut(key)
            else:
                roster.open(key, Session("x" * rng.randrange(9), "eve", now, {"a": (1, 0, 0, 0.0)}))
        everyone = [*roster.members.values(), *roster.sessions.values()]
        assert roster._taken.total() == sum(m.size for m in everyone)
        for owner in ("runner one", "runner two", "runner local", "client eve"):
            assert roster._taken[owner] == sum(m.size for m in everyone if m.owner == owner)
        there = {p: [m for m in roster.members.values() if p in m.said["places"]] for p in "abcd"}
        assert set(roster.places()) == {p for p, workers in there.items() if workers}
        for place, workers in there.items():
            assert sorted(m.name for m in roster.at(place)) == sorted(m.name for m in workers)
            able = [m.said["lanes"] for m in workers if m.takes]
            assert roster.able(place) == (len(able), sum(able))
