"""A race detector for streams of devices: queues of work, happens-before order, and accesses to memory.

Work runs only when something waits for it. Two work items that access the same bytes, at least one of them writing,
must be ordered: by their stream, by events, or by the host, which waited for the first before it queued the second.
Violations are collected as text in ``complaints``. None is raised, so the program continues.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

Clock = dict["Stream", int]
"""A vector clock: number of work items of each stream that happened before a point."""

Touched = Iterable[tuple[int, int, bool]]
"""Accessed bytes: first address, end address, and whether they were written."""


@dataclass(eq=False)
class Stream:
    """A stream: a queue of work on a device."""

    device: int
    number: int
    clock: Clock = field(default_factory=dict)  # work that happens before the next work item
    queue: deque[Work] = field(default_factory=deque)
    count: int = 0  # of all work items ever queued
    done: int = 0
    capture: Capture | None = None

    def __str__(self) -> str:
        return f"stream {self.number} of device {self.device}"


@dataclass(eq=False)
class Work:
    """A work item. ``run`` executes it and returns the accessed bytes.

    ``unwritten``: it may read unwritten memory. ``between``: it may access memory of several devices.
    """

    name: str
    run: Callable[[Work], Touched]
    uses: Sequence[Block] = ()  # blocks that the host passed to it
    unwritten: bool = False
    between: bool = False
    stream: Stream = field(init=False)
    number: int = 0
    clock: Clock = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name} on {self.stream}"

    def after(self, other: Work) -> bool:
        """Whether this work happens after ``other``, on any stream."""
        return self.clock.get(other.stream, 0) >= other.number


@dataclass
class _Access:
    first: int
    end: int
    written: bool
    work: Work


@dataclass(eq=False)
class _Bytes:
    """Accesses to the bytes of an allocation, through all its owners. ``owner``: the block that owns the bytes after
    the work done so far."""

    owner: Block | None = None
    accesses: list[_Access] = field(default_factory=list)
    filled: list[tuple[int, int]] = field(default_factory=list)


@dataclass(eq=False)
class Block:
    """An allocated block of memory. ``live``: the host has not freed it. ``pool``: pool of the captures that the block
    was allocated for, or 0."""

    device: int
    address: int
    size: int
    pool: int
    bytes: _Bytes
    live: bool = True

    @property
    def end(self) -> int:
        return self.address + self.size

    def __str__(self) -> str:
        return f"{self.size} bytes at {self.address:#x} of device {self.device}"


@dataclass(eq=False)
class Capture:
    """A capture, in progress or ended. During it, its streams' clocks count only captured work."""

    number: int
    origin: Stream
    pool: int
    steps: list[Work] = field(default_factory=list)
    streams: dict[Stream, Clock] = field(default_factory=dict)  # with their clocks before the capture
    counts: Clock = field(default_factory=dict)
    ended: bool = False


class Order:
    """Streams, events, memory and captures of all devices. Safe from several threads.

    ``random`` decides whether a query of an event or a stream finds more work done.
    """

    def __init__(self, random: Random | None = None) -> None:
        self.complaints: list[str] = []
        self.lock = threading.RLock()
        self.random = random or Random(0)
        self._streams: dict[tuple[int, int], Stream] = {}
        self._host: Clock = {}
        self._events: dict[int, tuple[Capture | None, Clock]] = {}
        self._blocks: dict[int, Block] = {}  # by address, in the host's order
        self._bytes: dict[int, _Bytes] = {}  # by address, of memory that an allocator caches
        self._captures: dict[int, Capture] = {}
        self._numbers = 0

    def complain(self, text: str) -> None:
        if text not in self.complaints:
            self.complaints.append(text)

    # ------------------------------------------------------------------ streams

    def stream(self, device: int, number: int) -> Stream:
        """Returns a stream. Any number but 0 may be used on one device only."""
        found = self._streams.get((device, number))
        if found is None:
            found = self._streams[device, number] = Stream(device, number)
            owner = next((s for s in self._streams.values() if number and s.number == number and s is not found), None)
            if owner is not None:
                self.complain(f"{owner} is used as one of device {device}")
        return found

    def queue(self, stream: Stream, work: Work) -> Work:
        """Queue work, or capture it if the stream is in a capture."""
        with self.lock:
            for block in work.uses:
                if block.device != stream.device and not work.between:
                    self.complain(f"{work.name} on {stream} takes {block}")
            capture = stream.capture
            if capture is None:
                self._merge(stream.clock, self._host)
                return self._put(stream, work)
            work.stream = stream
            capture.counts[stream] = work.number = capture.counts.get(stream, 0) + 1
            stream.clock[stream] = work.number
            work.clock = dict(stream.clock)
            capture.steps.append(work)
            return work

    def queue_outside(self, stream: Stream, work: Work) -> Work:
        """Queue work outside the capture of a captured stream."""
        with self.lock:
            if stream.capture is None:
                return self.queue(stream, work)
            captured, stream.clock = stream.clock, stream.capture.streams[stream]
            try:
                return self._put(stream, work)
            finally:
                stream.clock = captured

    @staticmethod
    def _put(stream: Stream, work: Work) -> Work:
        stream.count += 1
        work.stream, work.number = stream, stream.count
        stream.clock[stream] = work.number
        work.clock = dict(stream.clock)
        stream.queue.append(work)
        return work

    @staticmethod
    def _merge(clock: Clock, other: Clock) -> None:
        for stream, n in other.items():
            if clock.get(stream, 0) < n:
                clock[stream] = n

    def _do(self, clock: Clock) -> None:
        """Run all work up to a clock, in happens-before order."""
        for stream, n in clock.items():
            while stream.done < n:
                work = stream.queue[0]
                self._do({s: m for s, m in work.clock.items() if s is not stream})
                stream.queue.popleft()
                stream.done += 1
                for first, end, written in work.run(work):
                    self._touch(work, first, end, written)

    def wait(self, stream: Stream) -> None:
        """Let the host wait for a stream."""
        with self.lock:
            self.forbid(f"waiting for {stream}")
            if stream.capture is None:
                self._arrive(stream.clock)

    def wait_device(self, device: int) -> None:
        """Let the host wait for all streams of a device."""
        with self.lock:
            self.forbid(f"waiting for device {device}")
            for stream in list(self._streams.values()):
                if stream.device == device and stream.capture is None:
                    self._arrive(stream.clock)

    def _arrive(self, clock: Clock) -> None:
        self._do(dict(clock))
        self._merge(self._host, clock)

    def forbid(self, what: str) -> None:
        """Complain about ``what`` during a capture."""
        for capture in self._captures.values():
            if not capture.ended:
                self.complain(f"{what} while {capture.origin} is captured")

    def _maybe(self, clock: Clock) -> bool:
        """Whether all work up to a clock is done; if so, it is ordered before the host's next work."""
        if self.random.random() < 0.5:
            self._do(dict(clock))
        reached = all(s.done >= n for s, n in clock.items())
        if reached:
            self._merge(self._host, clock)
        return reached

    def idle(self, stream: Stream) -> bool:
        """Whether all work of a stream is done."""
        with self.lock:
            self.forbid(f"asking for the state of {stream}")
            return stream.capture is None and self._maybe(stream.clock)

    # ------------------------------------------------------------------ events

    def record(self, event: int, stream: Stream) -> None:
        with self.lock:
            if stream.capture is None:
                self._merge(stream.clock, self._host)
            self._events[event] = stream.capture, dict(stream.clock)

    def block(self, event: int, stream: Stream) -> None:
        """Let a stream wait for an event. The event of a captured stream adds the waiting stream to the capture."""
        with self.lock:
            capture, clock = self._events.get(event, (None, {}))
            if not clock and capture is None:
                return
            if capture is None and stream.capture is not None:
                if not all(self._host.get(s, 0) >= n for s, n in clock.items()):
                    self.complain(f"{stream} is captured and waits for work that is not")
                return
            if capture is not None and capture.ended:
                self.complain(f"{stream} waits for an event of a capture that has ended")
                return
            if capture is not None and stream.capture is None:
                self._join(capture, stream)
            self._merge(stream.clock, clock)

    def done(self, event: int) -> bool:
        with self.lock:
            capture, clock = self._events.get(event, (None, {}))
            return capture is None and self._maybe(clock)

    def await_event(self, event: int) -> None:
        with self.lock:
            self.forbid("waiting for an event")
            capture, clock = self._events.get(event, (None, {}))
            if capture is None:
                self._arrive(clock)

    def forget(self, event: int) -> None:
        self._events.pop(event, None)

    # ------------------------------------------------------------------ captures

    def capture(self, stream: Stream, pool: int = 0) -> Capture:
        with self.lock:
            self._numbers += 1
            made = self._captures[self._numbers] = Capture(self._numbers, stream, pool)
            self._join(made, stream)
            return made

    @staticmethod
    def _join(capture: Capture, stream: Stream) -> None:
        capture.streams[stream] = stream.clock
        stream.clock, stream.capture = {}, capture

    def end(self, stream: Stream) -> Capture:
        """End a capture. Its origin must have waited for every stream that joined."""
        with self.lock:
            capture = stream.capture
            assert capture is not None
            for other, n in capture.counts.items():
                if stream.clock.get(other, 0) < n:
                    self.complain(f"{other} joined a capture that ends without its work")
            for other, clock in capture.streams.items():
                other.clock, other.capture = clock, None
            capture.ended = True
            return capture

    def replay(self, capture: Capture, stream: Stream) -> None:
        """Queue the captured work as a unit: after the work on the stream, before later work."""
        with self.lock:
            if stream.capture is not None:
                self.complain(f"a graph is replayed while {stream} is captured")
                return
            if capture.number not in self._captures:
                self.complain(f"a graph is replayed on {stream} after it was dropped")
                return
            self._merge(stream.clock, self._host)
            start = dict(stream.clock)
            branches = {s: Stream(s.device, s.number, dict(start)) for s in capture.counts}
            for step in capture.steps:
                for b in step.uses:
                    own = b.pool and b.pool == capture.pool
                    if not (b.live or own):
                        self.complain(f"{step.name} is replayed on {b}, which was freed")
                        return
                branch = branches[step.stream]
                self._merge(branch.clock, {branches[s]: n for s, n in step.clock.items() if s is not step.stream})
                self._put(branch, Work(step.name, step.run, step.uses, step.unwritten, step.between))
            for branch in branches.values():
                self._merge(stream.clock, branch.clock)

    def drop(self, capture: Capture) -> None:
        """Delete a graph, after all queued work has run."""
        with self.lock:
            self.flush()
            self._captures.pop(capture.number, None)

    # ------------------------------------------------------------------ memory

    def at(self, address: int) -> Block | None:
        """The live block that contains an address, in the host's order."""
        with self.lock:
            return next((b for b in self._blocks.values() if b.address <= address < b.end), None)

    def ends(self, address: int) -> bool:
        """Whether a block ends at an address, where an empty tensor may lie."""
        with self.lock:
            return any(b.end == address for b in self._blocks.values())

    def allocated(self, device: int, address: int, size: int) -> Block:
        """Record a synchronous allocation, which its block owns at once."""
        with self.lock:
            made = self._blocks[address] = Block(device, address, size, 0, _Bytes())
            made.bytes.owner = made
            return made

    def lent(self, device: int, address: int, size: int, pool: int) -> Block:
        """Record an allocation from a stream-ordered allocator; the block owns the memory from :meth:`take` on."""
        with self.lock:
            made = Block(device, address, size, pool, self._bytes.setdefault(address, _Bytes()))
            self._blocks[address] = made
            return made

    def freed(self, address: int) -> Block | None:
        """Record that the host frees a block; returns the block."""
        with self.lock:
            block = self._blocks.pop(address, None)
            if block is None:
                self.complain(f"{address:#x} is freed, and is no allocation")
            else:
                block.live = False
            return block

    def gone(self, address: int) -> None:
        """Record that an allocator returns memory to the device."""
        with self.lock:
            self.flush()
            self._bytes.pop(address, None)

    def unused(self, block: Block) -> None:
        """Complain of work on a synchronously freed block for which the host has not waited."""
        with self.lock:
            self.flush()
            for a in block.bytes.accesses:
                if self._host.get(a.work.stream, 0) < a.work.number:
                    self.complain(f"{block} is freed, and nothing waited for {a.work}")

    def take(self, block: Block, work: Work) -> None:
        """Let a block own its memory, unwritten, from ``work`` on."""
        block.bytes.owner = block
        self._touch(work, block.address, block.end, True)
        block.bytes.filled = []

    def give(self, block: Block, work: Work) -> None:
        """End a block's ownership of its memory with ``work``."""
        self._touch(work, block.address, block.end, True)
        block.bytes.owner = None

    def _touch(self, work: Work, first: int, end: int, written: bool) -> None:
        block = next((b for b in work.uses if b.address <= first < b.end), None)
        if block is None:
            self.complain(f"{work} touches {first:#x}, which is in no memory that it was given")
            return
        there = block.bytes
        if there.owner is not block:
            self.complain(f"{work} touches {block}, which was freed")
        elif not (written or work.unwritten or _within(first, end, there.filled)):
            self.complain(f"{work} reads {block} before it is written")
        left = []
        for a in there.accesses:
            if a.first < end and first < a.end and not work.after(a.work) and (written or a.written):
                verbs = "writes" if written else "reads", "writes" if a.written else "reads"
                self.complain(f"{work} {verbs[0]} {block}, which {a.work} {verbs[1]}: nothing orders them")
            covered = first <= a.first and a.end <= end and work.after(a.work) and (written or not a.written)
            if not covered:
                left.append(a)
        there.accesses = [*left, _Access(first, end, written, work)]
        if written:
            there.filled = _with(first, end, there.filled)

    def flush(self) -> None:
        """Run all queued work, without ordering it before the host's later work."""
        with self.lock:
            for stream in list(self._streams.values()):
                clock = stream.clock if stream.capture is None else stream.capture.streams[stream]
                self._do(dict(clock))


def _within(first: int, end: int, spans: Iterable[tuple[int, int]]) -> bool:
    return any(a <= first and end <= b for a, b in spans)


def _with(first: int, end: int, spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Adds a span to disjoint spans, and merges spans that meet."""
    apart = []
    for a, b in spans:
        if b < first or end < a:
            apart.append((a, b))
        else:
            first, end = min(first, a), max(end, b)
    return sorted([*apart, (first, end)])
