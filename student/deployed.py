"""A student on a machine of its own: its `LabelSource` is the label service over a socket, under its folder's
certificate; and checks before it asks."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import grpc
import numpy as np

from consilium.node.checks import Advice, Check, check_certificate, check_tls_server
from consilium.node.folder import PUBLIC_FILE, NodeFolder
from consilium.node.kinds import NodeKind, NodeOutcome
from consilium.node.signed import JOIN, joined
from consilium.node.supervisor import BackOff, Tell
from consilium.protocol.errors import ConfigError, ConsiliumError, MalformedMessage, ServiceError
from consilium.protocol.label_source import USES_UP, Answers, LabelTerms
from consilium.protocol.label_wire import FEDERATION, answers_from_wire, blocks, refusal_from_wire, terms_from_wire
from consilium.protocol.labels import labels_pb2 as pb
from consilium.protocol.labels import labels_pb2_grpc as rpc
from consilium.protocol.messages import PROTOCOL_VERSION
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.protocol.schema import Schema
from consilium.protocol.tls import LOOPBACK, TlsFiles, host_of, why_no_connection
from consilium.report.disclosure import epsilon_text, in_plain_words
from consilium.report.warnings import MOST_EPSILON
from consilium.student.pool import PoolFile, check_fits

Reply = TypeVar("Reply")
AGAIN = BackOff(first=5, most=60)
OPTIONS = {
    # a connection that broke without a word, as where a cable was cut, is noticed within six minutes, and asked over
    # again. A server takes one look in five minutes while nothing is sent, and ends the connection of who looks more
    "grpc.keepalive_time_ms": 310_000,
    "grpc.keepalive_timeout_ms": 20_000,
    "grpc.http2.ping_timeout_ms": 20_000,  # without it gRPC waits for a minute
    "grpc.http2.max_pings_without_data": 0,
    "grpc.max_receive_message_length": 2**30,  # of answers, 100 bytes a row: ten classes, and histograms
}
DOCTOR = "Run `consilium doctor` on the student's folder"
NOT_SERVING = "It serves once enough parties have trained, and no more once the federation is closed: ask its operator"


def credentials(files: TlsFiles) -> grpc.ChannelCredentials:
    """Of a student that shows its certificate. Raises ConfigError."""
    key, certificate, authority = files.read()
    return grpc.ssl_channel_credentials(authority, key, certificate)


class _Passing(ServiceError):
    """Why questions were not answered, where the same may be answered later."""


class LabelChannel:
    """See `LabelSource`. Use as a context manager; `wait` seconds for the coordinator to be reachable. `tls`: this
    student's certificate, which the coordinator asks for. `patience`: seconds for which a call is made again that
    failed for reasons that pass, such as parties that are away, or a ledger that another program holds: what parties
    voted on counts once, and what was charged is recorded. `tell`: is told so. Raises ConfigError: unreadable files."""

    def __init__(self, address: str, tls: TlsFiles, wait: float = 60, patience: float = 0) -> None:
        self.patience = patience
        self.tell: Callable[[str], object] = lambda text: None
        self._address = address
        self._wait = wait
        self._tls = tls
        options = [*OPTIONS.items(), ("grpc.enable_http_proxy", int(host_of(address) not in LOOPBACK))]
        self._channel = grpc.secure_channel(address, credentials(tls), options)
        self._stub = rpc.LabelServiceStub(self._channel)
        self._terms: LabelTerms | None = None

    def __enter__(self) -> LabelChannel:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def describe(self) -> LabelTerms:
        request = pb.DescribeRequest(protocol_version=PROTOCOL_VERSION)
        describe = self._stub.Describe
        self._terms = terms_from_wire(
            self._patiently(lambda: describe(iter([request]), timeout=self._wait, wait_for_ready=True))
        )
        return self._terms

    def ask(self, queries: np.ndarray, probabilities: np.ndarray | None = None) -> Answers:
        """See `LabelSource.ask`. If the connection breaks, ask again: what is in the ledger is free."""
        terms = self._terms or self.describe()
        canonical = canonical_queries(queries, len(terms.schema.features))
        of = ((FEDERATION, terms.federation),)  # another one may be served since
        reply = self._patiently(lambda: self._stub.Ask(iter(blocks(canonical, probabilities)), metadata=of))
        answers = answers_from_wire(reply, len(canonical), len(terms.schema.classes))
        if (answers.counts is not None) != (terms.count_sigma > 0):
            raise MalformedMessage("histograms come with labels, or are missing, unlike its terms say")
        return answers

    def _patiently(self, call: Callable[[], Reply]) -> Reply:
        deadline = time.monotonic() + self.patience
        for tries in itertools.count(1):
            try:
                return call()
            except grpc.RpcError as cause:
                error, pause = self._failed(cause), AGAIN.pause(tries)
            if not isinstance(error, _Passing):
                raise error
            if time.monotonic() + pause > deadline:
                raise ServiceError(error.what, error.action)
            self.tell(f"{error.what}; the same is asked again in {pause:g} s, which {USES_UP}")
            time.sleep(pause)
        raise AssertionError

    def _failed(self, error: grpc.RpcError) -> ConsiliumError:
        code = error.code() if isinstance(error, grpc.Call) else None
        if code == grpc.StatusCode.UNAVAILABLE and self._terms is not None:  # it was there before
            return _Passing(
                f"the connection to {self._address} was lost before it answered",
                "Ask again when the coordinator serves: what was charged is recorded, and is free",
            )
        if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            why = why_no_connection(self._address, self._tls)
            if not why and self._connected():
                return _Passing(
                    f"the label service at {self._address} is there, and did not answer within {self._wait:g} s",
                    f"Its operator sees why in `consilium status`. Asking the same again {USES_UP}",
                )
            return ServiceError(
                f"no label service at {self._address} within {self._wait:g} s" + (f" ({why})" if why else ""),
                DOCTOR if why else NOT_SERVING,
            )
        if code == grpc.StatusCode.PERMISSION_DENIED:
            return ServiceError(
                f"the coordinator at {self._address} does not accept this student's certificate",
                "It was revoked, or the coordinator has not joined the folder that lists it yet: ask the operator",
            )
        detail = (error.details() if isinstance(error, grpc.Call) else None) or type(error).__name__
        refusal = refusal_from_wire(detail)
        # a request that it has left; what its own operator mends
        passes = code in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INTERNAL)
        return _Passing(refusal.what, refusal.action) if passes else refusal

    def _connected(self) -> bool:
        try:
            grpc.channel_ready_future(self._channel).result(timeout=1)
        except grpc.FutureTimeoutError:
            return False
        return True


DOCTORS_SECONDS = 4.0
"""That the doctor waits for an answer."""


def open_channel(folder: NodeFolder, wait: float, patience: float = 0) -> LabelChannel:
    """The coordinator's label service, asked under the folder's certificate. Raises ConfigError."""
    return LabelChannel(joined(folder).coordinator.labels, folder.tls, wait, patience)


class StudentKind(NodeKind):
    """See `NodeKind`; a student runs once."""

    name = "student"

    def joined(self, folder: NodeFolder) -> NodeOutcome:
        file, fixed = joined(folder), folder.federation / PUBLIC_FILE
        run = f"consilium student run {folder.path} --out OUT"
        run = run if fixed.exists() else f"{run} --public ROWS"
        rows = str(fixed) if fixed.exists() else "your own, with the federation's columns"
        lines = (f"labels       {file.coordinator.labels}", f"public rows  {rows}", f"next         {run}")
        return NodeOutcome({"labels": file.coordinator.labels, "public": rows, "next": run}, lines)

    def set_up(self, folder: NodeFolder) -> list[Check]:
        return [("certificate", lambda: check_certificate(folder.tls))]

    def further_checks(self, folder: NodeFolder, running: bool) -> list[Check]:
        return [("public rows", lambda: _public_rows(folder)), ("label service", lambda: _label_service(folder))]

    def start(self, folder: NodeFolder, tell: Tell, stop: threading.Event) -> NodeOutcome:
        raise ConfigError(
            f"{folder.path} is a student's folder: it serves nobody", f"Run: consilium student run {folder.path}"
        )

    def status(self, folder: NodeFolder) -> NodeOutcome:
        raise ConfigError(
            f"{folder.path} is a student's folder: it runs once, and has no status",
            f"See: consilium doctor {folder.path}",
        )


STUDENT = StudentKind()


def in_words(terms: LabelTerms) -> str:
    """On which terms a student may ask."""
    words = in_plain_words(terms.epsilon, terms.delta, terms.unit, terms.neighbouring)
    bound = f"epsilon at most {epsilon_text(terms.epsilon)} at delta {terms.delta:g} for each {terms.unit}"
    left = f"{terms.parties} parties, {terms.mechanism}; {terms.queries_left} queries left"
    return f"{left}; {bound}. {terms.release.sentence} {words}"


def _label_service(folder: NodeFolder) -> str:
    schema = joined(folder).config.rows
    reached = check_tls_server(joined(folder).coordinator.labels, folder.tls)
    with open_channel(folder, DOCTORS_SECONDS) as channel:
        terms = channel.describe()
    if terms.schema != schema:
        raise ConfigError("the coordinator serves another schema than this folder's", JOIN)
    sentence = f"{reached}. {in_words(terms)}"
    if ids := _fixed_ids(folder, schema):
        free, gone = (len({*ids} & {*names}) for names in (terms.recorded, terms.spent))
        left = len({*ids}) - free - gone
        sentence += f" Of {len({*ids})} rows {left} can be asked, {free} are free, {gone} are used up."
    sentence = sentence.removesuffix(".")
    if terms.queries_left == 0:
        raise Advice(sentence, "Only rows that are free get labels: more need a new federation")
    if terms.epsilon > MOST_EPSILON:
        raise Advice(
            sentence, f"Epsilon is above {MOST_EPSILON:g}, and protects little: ask for fewer queries or more noise"
        )
    return sentence


def _public_rows(folder: NodeFolder) -> str:
    ids = _fixed_ids(folder, joined(folder).config.rows)
    return f"{len(ids)} rows may be asked" if ids else "not fixed: any with the federation's columns may be asked"


def _fixed_ids(folder: NodeFolder, schema: Schema) -> Sequence[str]:
    """Of the rows that the federation is fixed to; none where it is fixed to none. Raises DataError."""
    path = folder.federation / PUBLIC_FILE
    if not path.exists():
        return []
    pool = PoolFile(path).load(schema)
    check_fits(pool, schema)
    return query_ids(canonical_queries(pool.queries, len(schema.features)))
