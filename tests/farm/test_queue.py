"""The scheduler's decisions: windows, fairness, retries, quarantine, whatever comes in whatever order."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.farm.queue import AHEAD, ATTEMPTS, STRIKES, Job, Queue

GPU, OTHER = "h200-141g-700w", "a100-40g-400w"


def queue(*workers: str, lanes: int = 1, place: str = GPU) -> Queue:
    q = Queue()
    for name in workers:
        q.join(name, [place], lanes, 0.0)
    return q


def submit(q: Queue, *ids: str, client: str = "c", place: str = GPU, now: float = 0.0) -> None:
    for n in ids:
        assert q.submit(Job(n, client, place, {}), now)


def given_out(q: Queue, now: float = 0.0) -> list[tuple[str, str]]:
    return [(w.name, j.id) for w, j in q.assign(now)]


def test_each_worker_gets_one_job_to_run_and_one_to_begin_next() -> None:
    q = queue("a", "b")
    submit(q, *(f"j{n}" for n in range(6)))
    assert given_out(q) == [("a", "j0"), ("b", "j1"), ("a", "j2"), ("b", "j3")]
    assert q.waiting(GPU) == 2
    assert all(len(w.jobs) == w.lanes + AHEAD for w in q.workers.values())
    assert q.finish("a", "j0", 1.0, 1.0) is not None
    assert given_out(q) == [("a", "j4")]


def test_idle_workers_come_before_a_second_job_for_busy_ones() -> None:
    q = queue("a", "b", "c")
    submit(q, "j0")
    assert given_out(q) == [("a", "j0")]
    submit(q, "j1", "j2")
    assert sorted(w for w, _ in given_out(q)) == ["b", "c"]


def test_a_builder_runs_as_many_as_it_has_lanes() -> None:
    q = queue("b", lanes=3, place="build:cpu")
    submit(q, *(f"j{n}" for n in range(5)), place="build:cpu")
    assert len(given_out(q)) == 3 + AHEAD


def test_a_job_goes_to_its_own_place_only() -> None:
    q = queue("a")
    q.join("o", [OTHER], 1, 0.0)
    submit(q, "x", place=OTHER)
    submit(q, "y")
    assert sorted(given_out(q)) == [("a", "y"), ("o", "x")]


def test_clients_share_by_the_seconds_that_their_jobs_took() -> None:
    q = queue("a")
    submit(q, *(f"slow{n}" for n in range(20)), client="slow")
    submit(q, *(f"quick{n}" for n in range(60)), client="quick")
    now, took = 0.0, {"slow": 0.0, "quick": 0.0}
    running: list[str] = []
    while now < 24:
        running += [j for _, j in given_out(q, now)]
        job = running.pop(0)
        who = job.rstrip("0123456789")
        seconds = 3.0 if who == "slow" else 1.0
        now += seconds
        took[who] += seconds
        q.finish("a", job, seconds, now)
    assert 0.6 < took["slow"] / took["quick"] < 1.6


def test_a_newcomer_has_no_claim_on_the_past() -> None:
    q = queue("a")
    submit(q, *(f"old{n}" for n in range(50)), client="old")
    now = 0.0
    running: list[str] = []
    for _ in range(20):
        running += [j for _, j in given_out(q, now)]
        now += 1.0
        q.finish("a", running.pop(0), 1.0, now)
    submit(q, *(f"new{n}" for n in range(50)), client="new", now=now)
    got: list[str] = []
    for _ in range(20):
        running += [j for _, j in given_out(q, now)]
        now += 1.0
        got.append(running[0])
        q.finish("a", running.pop(0), 1.0, now)
    assert 8 <= sum(j.startswith("new") for j in got) <= 12


def test_a_lost_worker_is_blamed_for_what_it_ran_and_not_for_what_waited() -> None:
    q = queue("a")
    submit(q, "j0", "j1")
    given_out(q)
    assert q.leave("a", 1.0, "killed") == []
    assert q.jobs["j0"].lost == ["a"]
    assert q.jobs["j1"].lost == []
    assert q.records["a"].strikes == 1
    assert q.waiting(GPU) == 2


def test_a_job_goes_to_another_worker_than_the_one_that_it_cost() -> None:
    q = queue("a", "b")
    submit(q, "j0")
    given_out(q)
    q.leave("a", 1.0, "killed")
    q.join("a", [GPU], 1, 2.0)
    assert given_out(q) == [("b", "j0")]


def test_alone_a_worker_gets_the_job_again() -> None:
    q = queue("a")
    submit(q, "j0")
    given_out(q)
    q.leave("a", 1.0, "killed")
    q.join("a", [GPU], 1, 2.0)
    assert given_out(q) == [("a", "j0")]


def test_a_job_that_costs_too_many_workers_is_given_up() -> None:
    q = Queue()
    submit(q, "j0")
    for n in range(ATTEMPTS):
        q.join(f"w{n}", [GPU], 1, float(n))
        assert given_out(q) == [(f"w{n}", "j0")]
        hopeless = q.leave(f"w{n}", float(n), "killed")
    assert [j.id for j in hopeless] == ["j0"]
    assert len(hopeless[0].lost) == ATTEMPTS
    assert not q.jobs


def test_draining_takes_no_blame() -> None:
    q = queue("a")
    submit(q, "j0")
    given_out(q)
    q.workers["a"].draining = True
    assert q.leave("a", 1.0, "stopped") == []
    assert q.jobs["j0"].lost == []
    assert q.records["a"].strikes == 0


def test_a_flaky_device_is_quarantined_and_released_by_command() -> None:
    q = queue("a", "b")
    submit(q, "j0", "j1", "j2", "j3")
    given_out(q)
    for _ in range(STRIKES):
        q.strike("a", "an ECC error", 1.0)
    assert "an ECC error" in q.records["a"].quarantine
    assert q.workers["a"].jobs == ["j0"]  # what it runs may end; what waited there went back
    q.finish("a", "j0", 1.0, 2.0)
    q.finish("b", "j1", 1.0, 2.0)
    assert {w for w, _ in given_out(q)} == {"b"}
    q.leave("a", 3.0, "gone")
    q.join("a", [GPU], 1, 4.0)
    submit(q, *(f"k{n}" for n in range(4)))
    assert {w for w, _ in given_out(q)} <= {"b"}  # a new connection is no pardon
    assert q.release("a")
    assert not q.release("a")
    assert "a" in {w for w, _ in given_out(q)}


def test_success_wipes_strikes_out() -> None:
    q = queue("a")
    for _ in range(3 * STRIKES):
        q.strike("a", "x", 0.0)
        q.cleared("a")
    assert not q.records["a"].quarantine


def test_a_job_sent_twice_is_one_job() -> None:
    q = queue("a")
    submit(q, "j0")
    assert not q.submit(Job("j0", "c", GPU, {}), 0.0)
    assert given_out(q) == [("a", "j0")]
    assert not q.submit(Job("j0", "c", GPU, {}), 0.0)
    assert given_out(q) == []


def test_a_result_nobody_waits_for_is_stale() -> None:
    q = queue("a")
    submit(q, "j0", "j1", "j2")
    given_out(q)
    q.cancel(["j0", "j2"], "c")
    assert q.finish("a", "j0", 1.0, 1.0) is None  # it had begun
    assert "j2" not in q.jobs
    assert q.finish("a", "unheard of", 1.0, 1.0) is None
    assert q.finish("a", "j1", 1.0, 2.0) is not None


def test_others_jobs_cannot_be_cancelled() -> None:
    q = queue("a")
    submit(q, "j0", "j1", "j2")
    q.cancel(["j2"], "someone else")
    assert "j2" in q.jobs


def test_a_worker_that_was_cut_off_keeps_what_it_holds() -> None:
    q = queue("a", "b")
    submit(q, "j0", "j1")
    given_out(q)
    q.workers["a"].draining = True
    q.leave("a", 1.0, "cut off")
    q.join("a", [GPU], 1, 2.0)
    q.adopt("a", ["j0", "unknown"], 2.0)
    assert q.workers["a"].jobs == ["j0"]
    assert q.waiting(GPU) == 0
    assert q.finish("a", "j0", 1.0, 3.0) is not None


def test_jobs_without_a_worker_are_given_up_in_time() -> None:
    q = queue("a")
    submit(q, "j0", place=OTHER, now=10.0)
    submit(q, "j1")
    assert q.hopeless(500.0, 600.0) == []
    q.join("o", [OTHER], 1, 505.0)
    q.leave("o", 510.0, "left")
    assert q.hopeless(900.0, 600.0) == []
    assert [j.id for j in q.hopeless(1111.0, 600.0)] == ["j0"]
    assert "j1" in q.jobs


def test_what_is_given_back_comes_first_again() -> None:
    q = queue("a")
    submit(q, "j0", "j1", "j2")
    given_out(q)
    q.give_back("a", ["j1"])
    q.finish("a", "j0", 1.0, 1.0)
    assert given_out(q)[0] == ("a", "j1")


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_whatever_happens_every_job_ends_once_or_is_still_there(data: Any) -> None:
    """Workers come, go, finish, give back, are quarantined and released; clients cancel: no job is lost or doubled."""
    q, now, names, sent = Queue(), 0.0, ["a", "b", "c"], 0
    ended: list[str] = []
    for _ in range(data.draw(st.integers(5, 60))):
        now += 1.0
        what = data.draw(
            st.sampled_from(["join", "leave", "submit", "finish", "give_back", "strike", "release", "cancel", "assign"])
        )
        name = data.draw(st.sampled_from(names))
        worker = q.workers.get(name)
        if what == "join" and worker is None:
            q.join(name, [GPU], data.draw(st.integers(1, 2)), now)
        elif what == "leave":
            ended += [j.id for j in q.leave(name, now, "lost")]
        elif what == "submit":
            submit(q, f"j{sent}", client=data.draw(st.sampled_from("xy")), now=now)
            sent += 1
        elif what == "finish" and worker and worker.jobs:
            job = q.finish(name, worker.jobs[0], 1.0, now)
            ended += [job.id] if job else []
        elif what == "give_back" and worker:
            q.give_back(name, worker.jobs[worker.lanes :])
        elif what == "strike":
            q.strike(name, "flaky", now)
        elif what == "release":
            q.release(name)
        elif what == "cancel" and q.jobs:
            chosen = q.jobs[data.draw(st.sampled_from(sorted(q.jobs)))]
            if chosen.client:
                ended.append(chosen.id)
                q.cancel([chosen.id], chosen.client)
        list(q.assign(now))
        in_hand = [j for w in q.workers.values() for j in w.jobs]
        assert len(in_hand) == len(set(in_hand))
        assert set(in_hand) <= set(q.jobs)
        assert all(len(w.jobs) <= w.lanes + AHEAD for w in q.workers.values())
        waiting = {n for clients in q._waiting.values() for ids in clients.values() for n in ids}
        assert not waiting & set(in_hand)
        assert waiting | set(in_hand) == set(q.jobs)
        alive = {n for n, j in q.jobs.items() if j.client}
        assert not alive & set(ended)
        assert alive | set(ended) == {f"j{n}" for n in range(sent)}
    assert len(ended) == len(set(ended))
