"""Messages that wait: equal time for each sender, its messages in their order, and no more than there is room for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from tilewright.farm.budgets import ASK, WAITING, WAITING_EACH, WRAPPING, OverBudget
from tilewright.farm.inbox import Inbox, sender
from tilewright.farm.log import Log


@dataclass
class Message:
    subject: str
    data: bytes = b""


@dataclass
class Desk:
    """An inbox whose messages wait until it is opened. ``later``: what a message's handling leaves for beside others."""

    handled: list[tuple[str, bytes]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    later: dict[bytes, asyncio.Event] = field(default_factory=dict)
    clock: float = 0.0

    async def handle(self, message: Message) -> Coroutine[Any, Any, Any] | None:
        self.handled.append((sender(message.subject), message.data[:9]))
        self.clock += 10.0 if message.data.startswith(b"costly") else 1.0
        if message.data == b"raise":
            raise RuntimeError("a handler's mistake")
        event = self.later.get(message.data)
        return event.wait() if event is not None else None

    async def over(self, _message: Message, error: OverBudget) -> None:
        self.refused.append(error.budget.name)

    def inbox(self) -> Inbox:
        return Inbox(self.handle, self.over, lambda: self.clock)


async def opened(inbox: Inbox) -> asyncio.Task[None]:
    """Let it hand out all that waits."""
    task = asyncio.create_task(inbox.run())
    while inbox._waiting:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    return task


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


def test_a_sender_is_a_role_and_a_name_and_a_client_whatever_its_session() -> None:
    assert sender("ask.runner.gpu-1") == "runner.gpu-1"
    assert sender("tell.administrator.x") == "administrator.x"
    assert sender("cancel.eve.1") == sender("cancel.eve.2") == sender("ask.client.eve") == "client.eve"


def heard(*messages: tuple[str, bytes]) -> list[tuple[str, bytes]]:
    async def go() -> Desk:
        desk = Desk()
        inbox = desk.inbox()
        for who, data in messages:
            await inbox.put(Message(f"ask.{who}", data))
        await ended(await opened(inbox))
        return desk

    return asyncio.run(go()).handled


def test_senders_are_heard_in_turn_and_each_in_its_order() -> None:
    flood, calm = [("runner.flood", b"%d" % n) for n in range(1000)], [("reader.calm", b"%d" % n) for n in range(2)]
    handled = heard(*flood, *calm)
    assert [i for i, (who, _) in enumerate(handled) if who == "reader.calm"] == [1, 3]
    assert [m for m in handled if m in flood] == flood


def test_who_takes_long_is_heard_less_often() -> None:
    handled = heard(*[("client.heavy", b"costly")] * 20, *[("runner.light", b"x")] * 60)
    assert [who for who, _ in handled[:66]].count("client.heavy") in (6, 7)


def test_who_comes_later_has_no_claim_on_the_past() -> None:
    async def go() -> Desk:
        desk = Desk()
        inbox = desk.inbox()
        for _ in range(100):
            await inbox.put(Message("ask.runner.first", b"x"))
        task = asyncio.create_task(inbox.run())
        while len(desk.handled) < 50:
            await asyncio.sleep(0)
        for _ in range(100):
            await inbox.put(Message("ask.runner.second", b"x"))
        while inbox._waiting:
            await asyncio.sleep(0)
        await ended(task)
        return desk

    second = [i for i, (who, _) in enumerate(asyncio.run(go()).handled) if who == "runner.second"]
    assert second[10] - second[0] == 20


def test_a_flood_is_refused_when_it_has_no_room_and_a_calm_sender_never() -> None:
    async def go() -> tuple[Desk, int]:
        desk = Desk()
        inbox = desk.inbox()
        for n in range(4):
            for _ in range(200):
                await inbox.put(Message(f"ask.runner.flood-{n}", bytes(ASK.most)))
        held = inbox._total
        assert {*desk.refused} == {"WAITING_EACH", "WAITING"}
        desk.refused.clear()
        await inbox.put(Message("ask.reader.calm", bytes(1000)))
        assert not desk.refused
        await ended(await opened(inbox))
        assert inbox._total == 0
        assert not inbox._bytes
        await inbox.put(Message("ask.runner.flood-0", bytes(ASK.most)))  # there is room again
        assert not desk.refused
        return desk, held

    desk, held = asyncio.run(go())
    assert WAITING.most - (1 << 17) < held <= WAITING.most + (1 << 18)
    assert WAITING_EACH.most < WAITING.most
    assert ("reader.calm", bytes(9)) in desk.handled


def test_what_is_too_long_for_its_subject_does_not_wait() -> None:
    async def go() -> Desk:
        desk = Desk()
        inbox = desk.inbox()
        for size in (ASK.most + WRAPPING.most, ASK.most + WRAPPING.most + 1):
            await inbox.put(Message("ask.runner.x", bytes(size)))
            await inbox.put(Message("cancel.eve.1", bytes(size)))
        assert inbox._total < 4 * ASK.most
        return desk

    assert asyncio.run(go()).refused == ["ASK", "CANCEL"]


def test_what_takes_long_goes_on_beside_others_and_counts_until_it_ends() -> None:
    async def go() -> None:
        event = asyncio.Event()
        desk = Desk(later={b"slow": event})
        inbox = desk.inbox()
        await inbox.put(Message("ask.runner.x", b"slow"))
        await inbox.put(Message("ask.runner.x", b"quick"))
        task = await opened(inbox)
        assert [d for _, d in desk.handled] == [b"slow", b"quick"]
        assert inbox._bytes["runner.x"] == len(b"slow") + 1024
        event.set()
        while inbox._going_on:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not inbox._bytes
        await ended(task)

    asyncio.run(go())


def test_a_mistake_of_a_handler_costs_one_message(caplog: Any) -> None:
    async def go() -> Desk:
        desk = Desk()
        inbox = desk.inbox()
        for data in (b"raise", b"next"):
            await inbox.put(Message("ask.runner.x", data))
        await ended(await opened(inbox))
        assert not inbox._bytes
        return desk

    assert [d for _, d in asyncio.run(go()).handled] == [b"raise", b"next"]
    assert "a handler's mistake" in caplog.text


# --------------------------------------------------------------------------- the log


def test_a_line_about_a_peer_comes_once_an_hour() -> None:
    said: list[str] = []
    clock = [0.0]
    log = Log(said.append, lambda: clock[0])
    assert log.about("eve", "eve sent 5", "too much")
    assert not log.about("eve", "eve sent 6", "too much")
    assert log.about("bob", "bob sent 5", "too much")
    assert log.about("eve", "something else")
    clock[0] = 3601.0
    assert log.about("eve", "eve sent 7", "too much")
    assert said == ["eve sent 5", "bob sent 5", "something else", "eve sent 7"]


def test_lines_about_one_peer_end_with_one_that_says_so() -> None:
    said: list[str] = []
    log = Log(said.append, lambda: 0.0)
    for n in range(3000):
        log.about("eve", f"line {n}")
        log.again("bob", "the same")
    log("about nobody")
    assert [s for s in said if s.startswith("line")] == [f"line {n}" for n in range(1000)]
    assert said.count("the same") == 1000
    assert [s for s in said if "left out" in s] == [
        f"further lines about {who} are left out for an hour: over the limit of 1,000 "
        "(LINES in tilewright/farm/budgets.py)" for who in ("eve", "bob")
    ]  # fmt: skip
    assert said[-1] == "about nobody"


def test_a_log_takes_bounded_memory_and_long_lines_are_cut() -> None:
    said: list[str] = []
    log = Log(said.append, lambda: 0.0)
    for n in range(5000):
        log.about(f"peer-{n}", f"{n}" + "x" * 1000)
    assert len(log._peers) <= 1025
    assert len(said) == 1024 + 1000 + 1
    assert max(map(len, said)) == 500
