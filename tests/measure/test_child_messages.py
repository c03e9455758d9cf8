"""Messages between the tuning process and a measuring child, over a real socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tilewright.backends.channel import Channel, ChannelClosed
from tilewright.core import Failure, FailureKind, LaunchProgram, Measurement
from tilewright.launch import Launch
from tilewright.measure.messages import (
    At,
    Compare,
    Done,
    Error,
    KernelFile,
    Measure,
    Ready,
    Told,
    Verify,
    receive,
    send,
)
from tilewright.measure.timing import PairedComparison
from tilewright.serialization import Json

PROGRAM = LaunchProgram((Launch("f", ("TM",)),), workspace=["*", "TM", 4], align=16, rounding=2.0)
ONE = KernelFile("key", "binary", "/kernels/one.so", "ab" * 32, PROGRAM, {"TM": 2, "TN": 3}, 0.25)
MESSAGES = [
    Measure(program="p", constants_passed=8, items=((4, ONE), (0, ONE)), incumbent=ONE, pairs=3),
    Measure(program="p", items=()),
    Verify(program="p", item=ONE, turn=2),
    Compare(program="p", challenger=ONE, champion=ONE, sessions=5),
    Ready({"memory": True, "network": "not asked for"}),
    At(),
    At(3),
    At(incumbent=True),
    Told(1, Failure(FailureKind.CRASH, "killed by SIGSEGV")),
    Told(2, Measurement(1e-3, 0.1, 15, 0.5, environment=(("driver", "570"),))),
    Done(),
    Done(failure=Failure(FailureKind.WRONG_RESULT, "first wrong element: 3"), leaving=True),
    Done(comparison=PairedComparison((0.5, 0.75), (1.0, 1.25), (1e-3, 2e-3))),
    Error("TypeError: no"),
]


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    one, other = map(Channel, socket.socketpair())
    yield one, other
    one.close()
    other.close()


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_a_message_arrives_as_it_was_sent(ends: tuple[Channel, Channel], message: Json) -> None:
    send(ends[0], message)
    assert receive(ends[1], 60) == message


@pytest.mark.parametrize(
    "nonsense",
    [{}, {"Told": {"item": 1}}, {"Told": []}, {"Dance": {}}, {"At": {}, "Done": {}}, {"Done": {"leaving": 1, "x": 2}}],
)
def test_a_child_that_sends_nonsense_is_taken_for_gone(
    ends: tuple[Channel, Channel], nonsense: dict[str, object]
) -> None:
    ends[0].send(nonsense)
    with pytest.raises(ChannelClosed, match="not a message"):
        receive(ends[1], 60)
