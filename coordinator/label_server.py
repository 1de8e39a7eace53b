"""The label service on a socket (labels.proto): what it takes in, from whom, how much at once and how slowly."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import grpc
import numpy as np
from cryptography import x509

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.events import EventLog
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.served import ServedFederation
from consilium.node.folder import NodeFolder
from consilium.node.signed import joined
from consilium.protocol.errors import (
    BudgetExceeded,
    ConfigError,
    ConsiliumError,
    DataError,
    MalformedMessage,
    ServiceError,
)
from consilium.protocol.files import more_descriptors
from consilium.protocol.label_source import LabelTerms
from consilium.protocol.label_wire import (
    FEDERATION,
    GENERIC,
    TRAVELLING,
    answers_to_wire,
    refusal_to_wire,
    row_bytes,
    rows_of,
    terms_to_wire,
)
from consilium.protocol.labels import labels_pb2 as pb
from consilium.protocol.labels import labels_pb2_grpc as rpc
from consilium.protocol.messages import PROTOCOL_VERSION
from consilium.protocol.schema import Schema

log = logging.getLogger("consilium.coordinator")
Message = TypeVar("Message")
READER = "label-reader"
MESSAGE_BYTES = 4 * 1024 * 1024
"""Of one gRPC message: blocks of rows are about 1 MB. A row that is wider needs more."""


@dataclass(frozen=True)
class Door:
    """Where the label service is, and until when. folder: the coordinator's; the students of the federation that it
    joined last may ask, under mutual TLS. close_file: it is open until this file is there. address: host:port, port 0
    for any free one."""

    folder: NodeFolder
    close_file: Path
    address: str


@dataclass(frozen=True)
class Limits:
    """How much may be under way.

    asks: requests for labels, of all students, from their first byte until they are answered; of a student only one.
        Each may hold as many rows as the federation's cap on queries.
    calls_of_student: other calls of one student at once. threads: at least `asks` and some calls.
    call, stall: seconds for a call's only message, and for the next block of a stream. rate: bytes a second over the
        whole of a stream, beyond `stall` seconds: a quarter of the slowest link that was tried (1 Mbit/s).
    """

    asks: int = 16
    calls_of_student: int = 4
    threads: int = 64
    call: float = 10
    stall: float = 60
    rate: float = 32_000


LIMITS = Limits()


class Busy(ServiceError):
    """There is no room for another request."""


class Places:
    """Room for requests of one kind that are under way. of_student, of_all: how many may be."""

    def __init__(self, of_student: int, of_all: int) -> None:
        self._of_student, self._of_all, self._lock = of_student, of_all, threading.Lock()
        self._taken: Counter[str] = Counter()

    @contextmanager
    def take(self, student: str) -> Iterator[None]:
        """A place until the context ends. Raises Busy."""
        with self._lock:
            if self._taken[student] >= self._of_student:
                raise Busy("another request of this student is under way", "Ask again when it is answered: it is free")
            if self._taken.total() >= self._of_all:
                raise Busy(f"{self._of_all} requests are under way", "Ask again in a minute")
            self._taken[student] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[student] -= 1


def receive(
    stream: Iterator[pb.QueryBlock], schema: Schema, most: int, limits: Limits = LIMITS
) -> tuple[np.ndarray, np.ndarray | None]:
    """All queries of a request, float32 (rows, features), and their probabilities float64 (rows, classes), if it has
    any. Raises MalformedMessage: it is none, or not in time. BudgetExceeded: it has more rows than can be asked."""
    features, classes = len(schema.features), len(schema.classes)
    parts: list[np.ndarray] = []
    predictions: list[np.ndarray] = []
    count = 0
    for block in in_time(stream, limits.stall, limits.stall + most * row_bytes(features, classes) / limits.rate):
        rows, predicted = rows_of(block, features, classes)
        count += len(rows)
        if count > most:
            raise BudgetExceeded(
                f"more than {most} rows in one request", "Ask for at most as many as the cap on queries"
            )
        parts.append(rows)
        predictions += [] if predicted is None else [predicted]
        if len(predictions) not in (0, len(parts)):
            raise MalformedMessage("some query blocks have probabilities and others have none")
    if not parts:
        raise MalformedMessage("the request has no rows", "Send at least one")
    return np.concatenate(parts), np.concatenate(predictions) if predictions else None


def in_time(stream: Iterator[Message], stall: float, total: float) -> Iterator[Message]:
    """Messages of a gRPC stream, each within `stall` seconds and all within `total`. gRPC's own iterator waits as long
    as the peer likes. It is read in a thread of its own, which ends with the call, since the iterator does. Raises
    MalformedMessage: one does not arrive in time, or the stream breaks."""
    arrived: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
    over, broken = threading.Event(), threading.Event()

    def read() -> None:
        try:
            for message in stream:
                arrived.put(message)
                if over.is_set():
                    return
        except Exception:  # of gRPC, which says no more than that the call is over
            broken.set()
        arrived.put(None)

    threading.Thread(target=read, name=READER, daemon=True).start()
    deadline = time.monotonic() + total
    try:
        while True:
            try:
                message = arrived.get(timeout=max(0.0, min(stall, deadline - time.monotonic())))
            except queue.Empty:
                raise MalformedMessage("the rest of the request did not arrive in time", "Ask again") from None
            if message is None:
                break
            yield message
    finally:
        over.set()
    if broken.is_set():
        raise MalformedMessage("the request broke off", "Ask again")


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


_OWN = {Busy: grpc.StatusCode.RESOURCE_EXHAUSTED, **dict.fromkeys(TRAVELLING, grpc.StatusCode.INVALID_ARGUMENT)}
"""What a student may learn of an error: those about its own request."""


class _Servicer(rpc.LabelServiceServicer):
    """The calls of labels.proto. Students are known by their certificates."""

    def __init__(self, service: LabelService, terms: LabelTerms, most_rows: int, door: Door, limits: Limits) -> None:
        self._service, self._schema, self._most, self._limits = service, terms.schema, most_rows, limits
        self._federation = terms.federation
        self._asks, self._calls = Places(1, limits.asks), Places(limits.calls_of_student, limits.threads)
        file = joined(door.folder, ServedFederation)
        self._students = {
            x509.load_pem_x509_certificate(file.certificates[name].encode()): name for name in file.of_kind("student")
        }

    def Describe(self, requests: Iterator[pb.DescribeRequest], context: grpc.ServicerContext) -> pb.Terms:
        def answer() -> pb.Terms:
            for request in in_time(requests, self._limits.call, self._limits.call):
                if request.protocol_version != PROTOCOL_VERSION:
                    raise MalformedMessage(
                        f"protocol version {request.protocol_version}, the coordinator speaks {PROTOCOL_VERSION}",
                        "Install the same version of Consilium at both",
                    )
                return terms_to_wire(self._service.describe())
            raise MalformedMessage("the request is missing")

        return self._answered(self._calls, context, answer)

    def Ask(self, requests: Iterator[pb.QueryBlock], context: grpc.ServicerContext) -> pb.Answers:
        def answer() -> pb.Answers:
            if dict(context.invocation_metadata()).get(FEDERATION, self._federation) != self._federation:
                raise DataError(
                    "another federation than the one that this student began with is served now: nothing was asked",
                    "Join the newest folder, and begin anew, with another output folder",
                )
            queries, probabilities = receive(requests, self._schema, self._most, self._limits)
            if not context.is_active():
                raise MalformedMessage("the student went away before its request was whole: it asked nothing")
            # from here on it is brought to its end whether its student stays or not: what was charged is recorded
            return answers_to_wire(self._service.ask(queries, probabilities))

        return self._answered(self._asks, context, answer)

    def _answered(self, places: Places, context: grpc.ServicerContext, answer: Callable[[], Any]) -> Any:
        """A call's answer; the place is left before it is sent, so that the student may ask again as soon as it has it.
        The text of what goes wrong stays here, unless it is about the student's own request."""
        student = self._admit(context)
        try:
            with places.take(student):
                return answer()
        except Exception as error:  # its text could quote votes
            known = isinstance(error, ConsiliumError)
            if not known:
                log.error("a call failed: %s", type(error).__name__)
            shown = error if known and type(error) in _OWN else GENERIC  # no refinement of theirs, whatever it says
            context.abort(_OWN.get(type(error), grpc.StatusCode.INTERNAL), refusal_to_wire(shown))

    def _admit(self, context: grpc.ServicerContext) -> str:
        """The student's name, before anything is read."""
        peer: Mapping[str, Any] = context.auth_context()
        name = self._students.get(x509.load_pem_x509_certificate(peer["x509_pem_cert"][0]))
        if name is None:
            log.warning("refused a student at %s: its certificate is not in the list", context.peer())
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "this certificate may not ask (any more)")
        return name


@contextmanager
def serving(service: LabelService, door: Door, most_rows: int, limits: Limits = LIMITS) -> Iterator[str]:
    """Serve at the door while the context is open; yields the real host:port. most_rows: in one request. Raises
    ConfigError: the address cannot be bound, or the door's files cannot be used."""
    more_descriptors()  # gRPC keeps strangers until their time for the handshake is over
    terms = service.describe()
    width = row_bytes(len(terms.schema.features), len(terms.schema.classes))
    server = grpc.server(
        futures.ThreadPoolExecutor(limits.threads),
        options=[*OPTIONS.items(), ("grpc.max_receive_message_length", MESSAGE_BYTES + width)],
        maximum_concurrent_rpcs=limits.threads,  # one that finds no thread is refused at once, and does not wait for it
    )
    rpc.add_LabelServiceServicer_to_server(_Servicer(service, terms, most_rows, door, limits), server)
    key, certificate, authority = door.folder.tls.read()
    credentials = grpc.ssl_server_credentials([(key, certificate)], authority, require_client_auth=True)
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
    """Serve one student after another, until the service is to be closed or its time is over. Raises ServiceError: its
    time was over before anything was asked. ConfigError: see `serving`. LedgerError."""
    queries, deadline = config.query_budget.queries, time.monotonic() + config.timeouts.student
    with serving(service, door, queries) as address:
        log.write("serving", address=address)
        while not door.close_file.exists():
            if time.monotonic() < deadline:
                time.sleep(LOOK_SECONDS)
            elif service.describe().queries_left < queries:
                return
            else:
                raise ServiceError(
                    f"no student asked anything within {config.timeouts.student:g} s at {address}",
                    "Start one with `consilium student run`, or raise timeouts.student",
                )
