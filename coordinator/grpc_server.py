"""The label service on a socket (labels.proto)."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import numpy as np

from coordinator.service import LabelService
from protocol import labels_pb2 as pb
from protocol import labels_pb2_grpc as rpc
from protocol.errors import BudgetExceeded, ConfigError, ConsiliumError, MalformedMessage
from protocol.label_wire import GENERIC, answers_to_wire, probabilities_of, refusal_to_wire, rows_of, terms_to_wire
from protocol.labels import Answers
from protocol.messages import PROTOCOL_VERSION
from protocol.tls import AllowList, TlsFiles, server_credentials

log = logging.getLogger("consilium.coordinator")
THREADS = 8
LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Door:
    """Who may come in, and until when.

    tls, allowed: mutual TLS, and the file with the students whose certificates are accepted (`protocol.tls.AllowList`).
        Without them everyone who can connect may ask: on loopback only.
    close_file: with it the service stays open for the next student when one has finished, until this file is there.
    """

    tls: TlsFiles | None = None
    allowed: Path | None = None
    close_file: Path | None = None


OPEN_DOOR = Door()


class _Servicer(rpc.LabelServiceServicer):
    def __init__(self, service: LabelService, most_rows: int, door: Door) -> None:
        self._service = service
        self._most_rows = most_rows
        self._allowed = AllowList(door.allowed) if door.allowed else None
        self._stays_open = door.close_file is not None

    def _admit(self, context: grpc.ServicerContext) -> None:
        """Refuse a student whose certificate is not in the list, though the authority made it."""
        if self._allowed is not None and self._allowed.name(context.auth_context()) is None:
            log.warning("refused a student at %s: its certificate is not in the list", context.peer())
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "this certificate may not ask (any more)")

    def Describe(self, request: pb.DescribeRequest, context: grpc.ServicerContext) -> pb.Terms:
        self._admit(context)
        if request.protocol_version != PROTOCOL_VERSION:
            context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"protocol version {request.protocol_version}, the coordinator speaks {PROTOCOL_VERSION}",
            )
        return terms_to_wire(self._service.describe())

    def Ask(self, request_iterator: Iterator[pb.QueryBlock], context: grpc.ServicerContext) -> Iterator[pb.AskReply]:
        self._admit(context)
        try:
            queries, probabilities = self._receive(request_iterator)
        except ConsiliumError as error:
            yield refusal_to_wire(error)
            return
        # votes are collected in a thread of their own, so that progress can be sent meanwhile; if the student goes
        # away the request is still brought to its end: what was charged is recorded and can be asked again for free
        replies: queue.SimpleQueue[pb.AskReply | None] = queue.SimpleQueue()
        threading.Thread(target=self._answer, args=(queries, probabilities, replies), daemon=True).start()
        while (reply := replies.get()) is not None:
            yield reply

    def _receive(self, request_iterator: Iterator[pb.QueryBlock]) -> tuple[np.ndarray, np.ndarray | None]:
        parts: list[np.ndarray] = []
        predictions: list[np.ndarray | None] = []
        count = 0
        for block in request_iterator:
            rows = rows_of(block)
            if parts and rows.shape[1] != parts[0].shape[1]:
                raise MalformedMessage("blocks of one query set have different widths")
            count += len(rows)
            if count > self._most_rows:
                raise BudgetExceeded(
                    f"more than {self._most_rows} rows in one request", "Ask for at most as many as the cap on queries"
                )
            parts.append(rows)
            predictions.append(probabilities_of(block, len(rows)))
        if not parts:
            raise MalformedMessage("the request has no rows", "Send at least one")
        given = [part for part in predictions if part is not None]
        if not given:
            return np.concatenate(parts), None
        if len(given) != len(parts) or len({part.shape[1] for part in given}) > 1:
            raise MalformedMessage("some query blocks have probabilities and others have none, or of other classes")
        return np.concatenate(parts), np.concatenate(given)

    def _answer(
        self, queries: np.ndarray, probabilities: np.ndarray | None, replies: queue.SimpleQueue[pb.AskReply | None]
    ) -> None:
        def progress(stage: str, done: int, total: int) -> None:
            replies.put(pb.AskReply(progress=pb.Progress(stage=stage, done=done, total=total)))

        try:
            answers: Answers = self._service.ask(queries, progress, probabilities)
            replies.put(answers_to_wire(answers))
        except ConsiliumError as error:
            replies.put(refusal_to_wire(error))
        except Exception as error:  # the text could quote votes: the student gets none of it
            log.error("answering failed: %s", type(error).__name__)
            replies.put(refusal_to_wire(GENERIC))
        finally:
            replies.put(None)

    def Finish(self, request: pb.FinishRequest, context: grpc.ServicerContext) -> pb.FinishReply:
        self._admit(context)
        if not self._stays_open:
            self._service.finish()
        return pb.FinishReply()


@contextmanager
def serving(service: LabelService, address: str, most_rows: int, door: Door = OPEN_DOOR) -> Iterator[str]:
    """Serve on `address` (host:port, port 0 for a free one) while the context is open; yields the real host:port.

    Raises
    ------
    ConfigError : the address cannot be bound, or the door's files cannot be used.
    """
    server = grpc.server(futures.ThreadPoolExecutor(THREADS), options=[("grpc.so_reuseport", 0)])
    rpc.add_LabelServiceServicer_to_server(_Servicer(service, most_rows, door), server)
    credentials = server_credentials(door.tls) if door.tls else None
    try:
        port = server.add_secure_port(address, credentials) if credentials else server.add_insecure_port(address)
    except RuntimeError:
        port = 0
    if port == 0:
        raise ConfigError(f"label service: cannot listen on {address}", "Choose a free host:port in `service`")
    server.start()
    try:
        yield f"{address.rsplit(':', 1)[0]}:{port}"
    finally:
        server.stop(grace=2).wait()


def wait_for_close(service: LabelService, door: Door, seconds: float, queries: int) -> bool:
    """Wait until the students are done; whether they are. Without a close file that is when one has finished.

    With one the time limit ends the service too, if anything of the cap on `queries` was ever asked.
    """
    if door.close_file is None:
        return service.finished.wait(seconds)
    deadline = time.monotonic() + seconds
    while not door.close_file.exists():
        if time.monotonic() > deadline:
            return service.describe().queries_left < queries
        time.sleep(LOOK_SECONDS)
    return True
