"""The label service on a socket (labels.proto)."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager

import grpc
import numpy as np

from coordinator.service import LabelService
from protocol import labels_pb2 as pb
from protocol import labels_pb2_grpc as rpc
from protocol.errors import BudgetExceeded, ConfigError, ConsiliumError, MalformedMessage, ServiceError
from protocol.label_wire import answers_to_wire, probabilities_of, refusal_to_wire, rows_of, terms_to_wire
from protocol.labels import Answers
from protocol.messages import PROTOCOL_VERSION

log = logging.getLogger("consilium.coordinator")
THREADS = 8


class _Servicer(rpc.LabelServiceServicer):
    def __init__(self, service: LabelService, most_rows: int) -> None:
        self._service = service
        self._most_rows = most_rows

    def Describe(self, request: pb.DescribeRequest, context: grpc.ServicerContext) -> pb.Terms:
        if request.protocol_version != PROTOCOL_VERSION:
            context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"protocol version {request.protocol_version}, the coordinator speaks {PROTOCOL_VERSION}",
            )
        return terms_to_wire(self._service.describe())

    def Ask(self, request_iterator: Iterator[pb.QueryBlock], context: grpc.ServicerContext) -> Iterator[pb.AskReply]:
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
            replies.put(refusal_to_wire(ServiceError("the coordinator failed", "See the coordinator's log")))
        finally:
            replies.put(None)

    def Finish(self, request: pb.FinishRequest, context: grpc.ServicerContext) -> pb.FinishReply:
        self._service.finish()
        return pb.FinishReply()


@contextmanager
def serving(service: LabelService, address: str, most_rows: int) -> Iterator[str]:
    """Serve on `address` (host:port, port 0 for a free one) while the context is open; yields the real host:port.

    Raises
    ------
    ConfigError : the address cannot be bound.
    """
    server = grpc.server(futures.ThreadPoolExecutor(THREADS), options=[("grpc.so_reuseport", 0)])
    rpc.add_LabelServiceServicer_to_server(_Servicer(service, most_rows), server)
    try:
        port = server.add_insecure_port(address)
    except RuntimeError:
        port = 0
    if port == 0:
        raise ConfigError(f"label service: cannot listen on {address}", "Choose a free host:port in `service`")
    server.start()
    try:
        yield f"{address.rsplit(':', 1)[0]}:{port}"
    finally:
        server.stop(grace=2).wait()
