"""What the label service takes in, from whom, how much at once and how slowly."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from consilium.protocol.errors import BudgetExceeded, MalformedMessage, ServiceError
from consilium.protocol.labels import labels_pb2 as pb
from consilium.protocol.labels.wire import probabilities_of, rows_of
from consilium.protocol.rows.queries import QUERY_DTYPE
from consilium.protocol.rows.schema import Schema

Message = TypeVar("Message")
PROBABILITY_BYTES = 8
READER = "label-reader"
MESSAGE_BYTES = 4 * 1024 * 1024
"""Of one gRPC message: blocks of rows are about 1 MB. A row that is wider needs more, see `Measure.message`."""


@dataclass(frozen=True)
class Limits:
    """How much may be under way.

    asks: requests for labels, of all students, from their first byte until they are answered; each may hold as many
        rows as the federation's cap on queries. asks_of_student: of one, of which only one has a stream; the others
        are requests whose student went away, which are brought to their end.
    calls_of_student: other calls of one student at once. threads: at least `asks` and some calls.
    call, stall: seconds for a call's only message, and for the next block of a stream. rate: bytes a second over the
        whole of a stream, beyond `stall` seconds: a quarter of the slowest link that was tried (1 Mbit/s).
    """

    asks: int = 16
    asks_of_student: int = 2
    calls_of_student: int = 4
    threads: int = 64
    call: float = 10
    stall: float = 60
    rate: float = 32_000


LIMITS = Limits()


class Busy(ServiceError):
    """There is no room for another request."""


class PendingRequest:
    """One request for labels: whether its student still waits for it, and whether it is being answered."""

    def __init__(self, desk: Desk, student: str | None) -> None:
        self._desk = desk
        self.student = student
        self.streams = True
        self.works = False

    def begin(self) -> None:
        """All of it is here: it will be answered, whether its student stays or not."""
        self._desk.change(self, self.streams, True)

    def answered(self) -> None:
        """There is an answer, or an error."""
        self._desk.change(self, self.streams, False)

    def gone(self) -> None:
        """The student has its answer, or has gone away."""
        self._desk.change(self, False, self.works)


class Desk:
    """Counts what is under way. `None` as a student is somebody at a service without certificates, on loopback."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._pending: set[PendingRequest] = set()
        self._calls: dict[str, int] = {}

    def enter(self, student: str | None) -> PendingRequest:
        """Room for a request for labels. Raises Busy."""
        with self._lock:
            own = [pending for pending in self._pending if pending.student == student] if student is not None else []
            if any(pending.streams for pending in own) or len(own) >= self._limits.asks_of_student:
                raise Busy("another request of this student is under way", "Ask again when it is answered: it is free")
            if len(self._pending) >= self._limits.asks:
                raise Busy(f"{self._limits.asks} requests are under way", "Ask again in a minute")
            pending = PendingRequest(self, student)
            self._pending.add(pending)
            return pending

    def change(self, pending: PendingRequest, streams: bool, works: bool) -> None:
        """Set what a request still keeps its room for; it gives that back when it is nothing."""
        with self._lock:
            pending.streams, pending.works = streams, works
            if streams or works:
                self._pending.add(pending)
            else:
                self._pending.discard(pending)

    @contextmanager
    def call(self, student: str | None) -> Iterator[None]:
        """Another call than for labels. Raises Busy."""
        if student is None:
            yield
            return
        with self._lock:
            if self._calls.get(student, 0) >= self._limits.calls_of_student:
                raise Busy(f"{self._limits.calls_of_student} calls of this student are under way", "Call again")
            self._calls[student] = self._calls.get(student, 0) + 1
        try:
            yield
        finally:
            with self._lock:
                self._calls[student] -= 1


@dataclass(frozen=True)
class Measure:
    """How large a request may be: columns, classes, and at most so many rows."""

    features: int
    classes: int
    rows: int

    @classmethod
    def of(cls, schema: Schema, rows: int) -> Measure:
        """For rows of this schema."""
        return cls(len(schema.features), len(schema.classes), rows)

    @property
    def row(self) -> int:
        """Bytes of a row with its probabilities."""
        return self.features * QUERY_DTYPE.itemsize + self.classes * PROBABILITY_BYTES

    @property
    def message(self) -> int:
        """Bytes of the largest message."""
        return MESSAGE_BYTES + self.row

    def check(self, block: pb.QueryBlock) -> int:
        """Rows of a block whose lengths fit, before anything is made of it. Raises MalformedMessage."""
        if block.features != self.features:
            raise MalformedMessage(
                f"query block with rows of {block.features} features, the federation's have {self.features}"
            )
        rows, rest = divmod(len(block.rows), self.features * QUERY_DTYPE.itemsize)
        if rows == 0 or rest:
            raise MalformedMessage(
                f"query block of {len(block.rows)} bytes is not whole rows of {self.features} features"
            )
        if len(block.probabilities) not in (0, rows * self.classes * PROBABILITY_BYTES):
            raise MalformedMessage("probabilities of a query block are not one row for each query")
        return rows


class Received(NamedTuple):
    """A request for labels. queries: float32 (rows, features). probabilities: float64 (rows, classes), if it has any.
    phase: of the federation's schedule; 0 where the request names none."""

    queries: np.ndarray
    probabilities: np.ndarray | None
    phase: int


def receive(stream: Iterator[pb.QueryBlock], measure: Measure, limits: Limits = LIMITS) -> Received:
    """All rows of a request.

    Raises
    ------
    MalformedMessage : it is no query set of this federation, or does not arrive in time. BudgetExceeded : it has more
        rows than can ever be asked.
    """
    parts: list[np.ndarray] = []
    predictions: list[np.ndarray] = []
    count = phase = 0
    for block in in_time(stream, limits.stall, limits.stall + measure.rows * measure.row / limits.rate):
        rows = measure.check(block)
        if parts and block.phase != phase:
            raise MalformedMessage("query blocks of one request name different phases")
        phase = block.phase
        count += rows
        if count > measure.rows:
            raise BudgetExceeded(
                f"more than {measure.rows} rows in one request", "Ask for at most as many as the cap on queries"
            )
        parts.append(rows_of(block))
        found = probabilities_of(block, rows)
        if (found is None) != (not predictions) and len(parts) > 1:
            raise MalformedMessage("some query blocks have probabilities and others have none")
        if found is not None:
            predictions.append(found)
    if not parts:
        raise MalformedMessage("the request has no rows", "Send at least one")
    return Received(np.concatenate(parts), np.concatenate(predictions) if predictions else None, phase)


def in_time(stream: Iterator[Message], stall: float, total: float) -> Iterator[Message]:
    """Messages of a gRPC stream, each within `stall` seconds and all within `total`.

    gRPC's own iterator waits as long as the peer likes. It is read in a thread of its own, one message ahead at most;
    the thread ends with the call, since the iterator does.

    Raises
    ------
    MalformedMessage : one does not arrive in time, or the stream breaks.
    """
    end, broken = object(), object()
    found: queue.Queue[Message | object] = queue.Queue(maxsize=1)
    over = threading.Event()

    def put(item: Message | object) -> None:
        while not over.is_set():
            with contextlib.suppress(queue.Full):
                return found.put(item, timeout=1)

    def read() -> None:
        try:
            for message in stream:
                put(message)
                if over.is_set():
                    return
            put(end)
        except Exception:  # of gRPC, which says no more than that the call is over
            put(broken)

    threading.Thread(target=read, name=READER, daemon=True).start()
    deadline = time.monotonic() + total
    try:
        while True:
            try:
                message = found.get(timeout=max(0.0, min(stall, deadline - time.monotonic())))
            except queue.Empty:
                raise MalformedMessage("the rest of the request did not arrive in time", "Ask again") from None
            if message is end:
                return
            if message is broken:
                raise MalformedMessage("the request broke off", "Ask again")
            yield message  # pyright: ignore[reportReturnType]
    finally:
        over.set()
