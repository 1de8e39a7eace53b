"""The label service on a socket (labels.proto): what it takes in, from whom, how much at once and how slowly."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import grpc
import numpy as np

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.door import Door, Students
from consilium.coordinator.events import EventLog
from consilium.coordinator.label_service import LabelService
from consilium.protocol.errors import BudgetExceeded, ConfigError, ConsiliumError, MalformedMessage, ServiceError
from consilium.protocol.files import more_descriptors
from consilium.protocol.label_source import Answers
from consilium.protocol.label_wire import (
    GENERIC,
    answers_to_wire,
    histogram_blocks,
    ids_of,
    probabilities_of,
    refusal_to_wire,
    rows_of,
    terms_to_wire,
)
from consilium.protocol.labels import labels_pb2 as pb
from consilium.protocol.messages import PROTOCOL_VERSION
from consilium.protocol.queries import QUERY_DTYPE
from consilium.protocol.schema import Schema
from consilium.protocol.tls import server_credentials

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

    def __init__(self, desk: Desk, student: str) -> None:
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
    """Counts what is under way."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._pending: set[PendingRequest] = set()
        self._calls: dict[str, int] = {}

    def enter(self, student: str) -> PendingRequest:
        """Room for a request for labels. Raises Busy."""
        with self._lock:
            requests = [pending for pending in self._pending if pending.student == student]
            if any(pending.streams for pending in requests) or len(requests) >= self._limits.asks_of_student:
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
    def call(self, student: str) -> Iterator[None]:
        """Another call than for labels. Raises Busy."""
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
    """A request for labels. queries: float32 (rows, features). probabilities: float64 (rows, classes), if it has
    any."""

    queries: np.ndarray
    probabilities: np.ndarray | None


def receive(stream: Iterator[pb.QueryBlock], measure: Measure, limits: Limits = LIMITS) -> Received:
    """All rows of a request.

    Raises
    ------
    MalformedMessage : it is no query set of this federation, or does not arrive in time. BudgetExceeded : it has more
        rows than can ever be asked.
    """
    parts: list[np.ndarray] = []
    predictions: list[np.ndarray] = []
    count = 0
    for block in in_time(stream, limits.stall, limits.stall + measure.rows * measure.row / limits.rate):
        rows = measure.check(block)
        count += rows
        if count > measure.rows:
            raise BudgetExceeded(
                f"more than {measure.rows} rows in one request", "Ask for at most as many as the cap on queries"
            )
        parts.append(rows_of(block))
        predicted = probabilities_of(block, rows)
        if (predicted is None) != (not predictions) and len(parts) > 1:
            raise MalformedMessage("some query blocks have probabilities and others have none")
        if predicted is not None:
            predictions.append(predicted)
    if not parts:
        raise MalformedMessage("the request has no rows", "Send at least one")
    return Received(np.concatenate(parts), np.concatenate(predictions) if predictions else None)


def in_time(stream: Iterator[Message], stall: float, total: float) -> Iterator[Message]:
    """Messages of a gRPC stream, each within `stall` seconds and all within `total`.

    gRPC's own iterator waits as long as the peer likes. It is read in a thread of its own, one message ahead at most;
    the thread ends with the call, since the iterator does.

    Raises
    ------
    MalformedMessage : one does not arrive in time, or the stream breaks.
    """
    end, broken = object(), object()
    arrived: queue.Queue[Message | object] = queue.Queue(maxsize=1)
    over = threading.Event()

    def put(item: Message | object) -> None:
        while not over.is_set():
            with contextlib.suppress(queue.Full):
                return arrived.put(item, timeout=1)

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
                message = arrived.get(timeout=max(0.0, min(stall, deadline - time.monotonic())))
            except queue.Empty:
                raise MalformedMessage("the rest of the request did not arrive in time", "Ask again") from None
            if message is end:
                return
            if message is broken:
                raise MalformedMessage("the request broke off", "Ask again")
            yield message  # pyright: ignore[reportReturnType]
    finally:
        over.set()


log = logging.getLogger("consilium.coordinator")
LOOK_SECONDS = 0.5
OPTIONS = {
    "grpc.so_reuseport": 0,
    "grpc.server_handshake_timeout_ms": 10_000,
    "grpc.max_concurrent_streams": 16,  # of one connection
    "grpc.absolute_max_metadata_size": 16 * 1024,
    # a student that is gone without a word is noticed within 40 s, so that its next request finds its place free
    "grpc.keepalive_time_ms": 30_000,
    "grpc.keepalive_timeout_ms": 10_000,
    "grpc.http2.ping_timeout_ms": 10_000,  # without it gRPC waits for a minute
    "grpc.keepalive_permit_without_calls": 1,
    "grpc.max_connection_idle_ms": 300_000,
    "grpc.max_connection_age_ms": 3_600_000,  # calls under way are brought to their end
}


LAST = ("answers", "refusal")
"""Replies after which there is no other."""


class _Servicer:
    """The calls of labels.proto. All are served as streams: gRPC gives a call with one message to its handler, and a
    thread to the call, only when that message is there, however long that takes; a stream is given at once.
    """

    def __init__(self, service: LabelService, measure: Measure, door: Door, limits: Limits) -> None:
        self._service = service
        self._measure = measure
        self._limits = limits
        self._desk = Desk(limits)
        self._allowed = Students(door.allowed)

    def handler(self) -> grpc.GenericRpcHandler:
        """For a server."""
        methods = {
            "Describe": grpc.stream_unary_rpc_method_handler(
                self.describe, pb.DescribeRequest.FromString, pb.Terms.SerializeToString
            ),
            "Ask": grpc.stream_stream_rpc_method_handler(
                self.ask, pb.QueryBlock.FromString, pb.AskReply.SerializeToString
            ),
            "Known": grpc.stream_unary_rpc_method_handler(
                self.known, pb.KnownRequest.FromString, pb.KnownReply.SerializeToString
            ),
        }
        return grpc.method_handlers_generic_handler(pb.DESCRIPTOR.services_by_name["LabelService"].full_name, methods)

    def _admit(self, context: grpc.ServicerContext) -> str:
        """The student's name, before anything is read."""
        name = self._allowed.name(context.auth_context())
        if name is None:
            log.warning("refused a student at %s: its certificate is not in the list", context.peer())
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "this certificate may not ask (any more)")
        return name

    def _one(self, requests: Iterator[Any], context: grpc.ServicerContext, answer: Callable[[Any], Any]) -> Any:
        """A call with one message, answered; whatever goes wrong, its text stays here."""
        student = self._admit(context)
        code, text = grpc.StatusCode.INTERNAL, str(GENERIC)
        try:
            with self._desk.call(student):
                for request in in_time(requests, self._limits.call, self._limits.call):
                    return answer(request)
            code, text = grpc.StatusCode.INVALID_ARGUMENT, "the request is missing"
        except Busy as error:
            code, text = grpc.StatusCode.RESOURCE_EXHAUSTED, str(error)
        except _Refused as error:
            code, text = grpc.StatusCode.FAILED_PRECONDITION, str(error)
        except MalformedMessage as error:
            code, text = grpc.StatusCode.INVALID_ARGUMENT, str(error)
        except Exception as error:
            log.error("a call failed: %s", type(error).__name__)
        context.abort(code, text)

    def describe(self, requests: Iterator[pb.DescribeRequest], context: grpc.ServicerContext) -> pb.Terms:
        def answer(request: pb.DescribeRequest) -> pb.Terms:
            if request.protocol_version != PROTOCOL_VERSION:
                raise _Refused(
                    f"protocol version {request.protocol_version}, the coordinator speaks {PROTOCOL_VERSION}"
                )
            return terms_to_wire(self._service.describe())

        return self._one(requests, context, answer)

    def known(self, requests: Iterator[pb.KnownRequest], context: grpc.ServicerContext) -> pb.KnownReply:
        def answer(request: pb.KnownRequest) -> pb.KnownReply:
            return pb.KnownReply(standings=self._service.known(ids_of(request.query_ids)).tobytes())

        return self._one(requests, context, answer)

    def ask(self, blocks: Iterator[pb.QueryBlock], context: grpc.ServicerContext) -> Iterator[pb.AskReply]:
        student = self._admit(context)
        try:
            pending = self._desk.enter(student)
        except Busy as error:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        # votes are collected in a thread of their own, so that progress can be sent meanwhile; if the student goes
        # away the request is still brought to its end: what was charged is recorded and can be asked again for free
        replies: queue.SimpleQueue[pb.AskReply | None] = queue.SimpleQueue()

        def gone() -> None:
            pending.gone()
            replies.put(None)

        if not context.add_callback(gone):
            return pending.gone()
        try:
            received = receive(blocks, self._measure, self._limits)
        except ConsiliumError as error:
            pending.gone()
            yield refusal_to_wire(error)
            return
        if not context.is_active():  # a student that went away before its request was whole asked nothing
            return
        pending.begin()
        threading.Thread(target=self._answer, args=(received, replies, pending), daemon=True).start()
        while (reply := replies.get()) is not None:
            if reply.WhichOneof("reply") in LAST:
                pending.gone()  # before the last reply is sent: the student may ask again as soon as it has it
            yield reply

    def _answer(
        self, received: Received, replies: queue.SimpleQueue[pb.AskReply | None], pending: PendingRequest
    ) -> None:
        begun: set[str] = set()

        def progress(stage: str, _done: int, _total: int) -> None:
            """That a stage has begun. How many parties are in it, and have answered, may follow from their rows."""
            if stage not in begun:
                begun.add(stage)
                replies.put(pb.AskReply(progress=pb.Progress(stage=stage, done=0, total=1)))

        try:
            answers: Answers = self._service.ask(received.queries, progress, received.probabilities)
            reply = answers_to_wire(answers)
            if answers.histograms is not None:
                for block in histogram_blocks(answers.histograms):
                    replies.put(pb.AskReply(histograms=block))
        except ConsiliumError as error:
            reply = refusal_to_wire(error)
        except Exception as error:  # the text could quote votes: the student gets none of it
            log.error("answering failed: %s", type(error).__name__)
            reply = refusal_to_wire(GENERIC)
        finally:
            pending.answered()
        replies.put(reply)
        replies.put(None)


class _Refused(Exception):
    """A request that the service does not answer, with what the student is told."""


@contextmanager
def serving(service: LabelService, door: Door, most_rows: int, limits: Limits = LIMITS) -> Iterator[str]:
    """Serve at the door while the context is open; yields the real host:port.

    most_rows: in one request.

    Raises
    ------
    ConfigError : the address cannot be bound, or the door's files cannot be used.
    """
    more_descriptors()  # gRPC keeps strangers until their time for the handshake is over
    measure = Measure.of(service.describe().schema, most_rows)
    server = grpc.server(
        futures.ThreadPoolExecutor(limits.threads),
        handlers=[_Servicer(service, measure, door, limits).handler()],
        options=[*OPTIONS.items(), ("grpc.max_receive_message_length", measure.message)],
        maximum_concurrent_rpcs=limits.threads,  # one that finds no thread is refused at once, and does not wait for it
    )
    credentials = server_credentials(door.tls)
    try:
        port = server.add_secure_port(door.address, credentials)
    except RuntimeError:
        port = 0
    if port == 0:
        raise ConfigError(
            f"label service: cannot listen on {door.address}",
            "Stop what uses the port; or the operator changes coordinator.listen or label_port, and provisions again",
        )
    server.start()
    try:
        yield f"{door.address.rsplit(':', 1)[0]}:{port}"
    finally:
        server.stop(grace=2).wait()


def serve(door: Door, config: FederationConfig, log: EventLog, service: LabelService) -> None:
    """Serve one student after another, until the service is to be closed or its time is over.

    Raises
    ------
    ServiceError : its time was over before anything was asked. ConfigError : see `serving`. LedgerError.
    """
    queries, deadline = config.query_budget.queries, time.monotonic() + config.timeouts.student
    with serving(service, door, queries) as address:
        log.write("serving", address=address)
        while not door.closing():
            if time.monotonic() < deadline:
                time.sleep(LOOK_SECONDS)
            elif service.describe().queries_left < queries:
                return
            else:
                raise ServiceError(
                    f"no student asked anything within {config.timeouts.student:g} s at {address}",
                    "Start one with `consilium student run`, or raise timeouts.student",
                )
