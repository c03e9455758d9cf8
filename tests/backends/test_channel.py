from __future__ import annotations

import fcntl
import json
import resource
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from tilewright.backends.channel import LIMIT, Channel, ChannelClosed


@pytest.fixture
def pair() -> Iterator[tuple[Channel, socket.socket]]:
    a, b = socket.socketpair()
    with a, b:
        yield Channel(a), b


def test_messages_arrive_in_order_whatever_their_size(pair: tuple[Channel, socket.socket]) -> None:
    a, b = pair[0], Channel(pair[1])
    sent = [{"n": n, "text": "x" * (n * 70_000)} for n in range(4)]
    writer = threading.Thread(target=lambda: [a.send(m) for m in sent])
    writer.start()
    assert [b.receive(10) for _ in sent] == sent
    writer.join()


def test_a_timeout_in_mid_message_loses_nothing(pair: tuple[Channel, socket.socket]) -> None:
    channel, raw = pair
    data = json.dumps({"a": [1, 2]}).encode()
    wire = struct.pack("!I", len(data)) + data
    for cut in (2, 7):
        raw.sendall(wire[:cut])
        with pytest.raises(TimeoutError):
            channel.receive(0.02)
        raw.sendall(wire[cut:])
        assert channel.receive(5) == {"a": [1, 2]}


@pytest.mark.parametrize(
    "wire",
    [
        struct.pack("!I", LIMIT + 1),
        struct.pack("!I", 3) + b"\x80\x04N",  # a pickle is no message
        struct.pack("!I", 4) + b"[12]",
    ],
)
def test_what_is_no_message_closes(pair: tuple[Channel, socket.socket], wire: bytes) -> None:
    channel, raw = pair
    raw.sendall(wire)
    with pytest.raises(ChannelClosed):
        channel.receive(5)


def test_a_peer_that_left(pair: tuple[Channel, socket.socket]) -> None:
    channel, raw = pair
    raw.sendall(b"\0\0")
    raw.close()
    with pytest.raises(ChannelClosed):
        channel.receive(5)
    with pytest.raises(ChannelClosed):
        channel.send({"x": "y" * 10_000_000})


def test_a_process_with_thousands_of_open_files_receives() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2100
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"this process may open {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        a, b = socket.socketpair()
        with a, b, socket.socket(fileno=fcntl.fcntl(a, fcntl.F_DUPFD_CLOEXEC, wanted - 100)) as high:
            assert high.fileno() > 1024
            Channel(b).send({"n": 1})
            assert Channel(high).receive(10) == {"n": 1}
            with pytest.raises(TimeoutError):
                Channel(high).receive(0.001)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
