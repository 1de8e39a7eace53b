"""Terms, answers and refusals between plain Python and labels.proto; used by both ends of the socket."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import TypeAdapter, ValidationError

from consilium.protocol.errors import BudgetExceeded, ConsiliumError, DataError, MalformedMessage, ServiceError
from consilium.protocol.label_source import NO_LABEL, USES_UP, Answers, Histograms, LabelTerms, Outcome, RowStanding
from consilium.protocol.labels import labels_pb2 as pb
from consilium.protocol.messages import PROTOCOL_VERSION
from consilium.protocol.queries import QUERY_DTYPE
from consilium.protocol.releases import ReleaseKind

BLOCK_BYTES = 1_000_000
"""Rows of a query set travel in blocks of about this size; gRPC's own limit is 4 MB a message."""

ID_BYTES, PROBABILITY_BYTES = 32, 8
"""Of a query id, which is a SHA-256; and of one class of one row."""

MOST_COUNT = 2**53
"""Of votes or noisy votes in a histogram: beyond it a float64 is not exact any more."""

TRAVELLING = {error.__name__: error for error in (BudgetExceeded, DataError, MalformedMessage)}
"""What a student may learn of an error: those about its own request."""

GENERIC = ServiceError(
    "the coordinator could not answer this request",
    f"Its operator sees why, and what to do, in `consilium status`. Asking the same again {USES_UP}",
)
"""What it learns of all others. Which parties were missing, at which stage, or what a sum looked like is not its."""


_TERMS = TypeAdapter(LabelTerms)


def terms_to_wire(terms: LabelTerms) -> pb.Terms:
    """Terms -> message."""
    return pb.Terms(protocol_version=PROTOCOL_VERSION, terms_json=_TERMS.dump_json(terms).decode())


def terms_from_wire(message: pb.Terms) -> LabelTerms:
    """Message -> terms; MalformedMessage if they are not of this version, or contradict themselves."""
    if message.protocol_version != PROTOCOL_VERSION:
        raise MalformedMessage(
            f"the coordinator speaks protocol version {message.protocol_version}, this student {PROTOCOL_VERSION}",
            "Install the same version of Consilium on both",
        )
    try:
        terms = _TERMS.validate_json(message.terms_json)
    except ValidationError as error:
        raise MalformedMessage(f"the coordinator's terms are malformed: {error.errors()[0]['loc']}") from None
    if (terms.release is ReleaseKind.COUNTS) != (terms.count_sigma > 0):
        raise MalformedMessage(
            f"the coordinator's terms release {terms.release} with noise {terms.count_sigma:g} on counts"
        )
    return terms


def row_bytes(features: int, classes: int) -> int:
    """Of a row with its probabilities."""
    return features * QUERY_DTYPE.itemsize + classes * PROBABILITY_BYTES


def blocks(queries: np.ndarray, probabilities: np.ndarray | None = None) -> list[pb.QueryBlock]:
    """Canonical queries (n, features), and probabilities (n, classes) if there are any -> blocks of rows."""
    features = queries.shape[1]
    step = max(1, BLOCK_BYTES // row_bytes(features, 0 if probabilities is None else probabilities.shape[1]))
    return [
        pb.QueryBlock(
            features=features,
            rows=queries[start : start + step].tobytes(),
            probabilities=b"" if probabilities is None else probabilities[start : start + step].astype("<f8").tobytes(),
        )
        for start in range(0, len(queries), step)
    ]


def id_blocks(ids: Sequence[str]) -> list[bytes]:
    """Query ids, hex -> their bytes, in blocks of about the size of blocks of rows."""
    step = BLOCK_BYTES // ID_BYTES
    return [bytes.fromhex("".join(ids[start : start + step])) for start in range(0, len(ids), step)]


def ids_of(block: bytes) -> list[str]:
    """Block -> query ids, hex; MalformedMessage if the bytes are no whole ids."""
    if not block or len(block) % ID_BYTES:
        raise MalformedMessage(f"{len(block)} bytes are no query ids of {ID_BYTES}")
    text = block.hex()
    return [text[start : start + 2 * ID_BYTES] for start in range(0, len(text), 2 * ID_BYTES)]


def standings_of(reply: bytes, count: int) -> np.ndarray:
    """Reply -> `RowStanding`, uint8 (count,); MalformedMessage if it is not that."""
    standings = np.frombuffer(reply, dtype=np.uint8)
    if len(standings) != count or not np.isin(standings, list(RowStanding)).all():
        raise MalformedMessage(f"{len(standings)} standings for {count} rows, or one of an unknown kind")
    return standings


def rows_of(block: pb.QueryBlock, features: int, classes: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Block -> float32 (rows, features), and probabilities float64 (rows, classes) if it has any. Nothing is copied.

    Raises MalformedMessage if its lengths do not fit.
    """
    if block.features != features:
        raise MalformedMessage(f"query block with rows of {block.features} features, the federation's have {features}")
    if not block.rows or len(block.rows) % (features * QUERY_DTYPE.itemsize):
        raise MalformedMessage(f"query block of {len(block.rows)} bytes is not whole rows of {features} features")
    rows = np.frombuffer(block.rows, dtype=QUERY_DTYPE).reshape(-1, features)
    if not block.probabilities:
        return rows, None
    if len(block.probabilities) != len(rows) * classes * PROBABILITY_BYTES:
        raise MalformedMessage("probabilities of a query block are not one row for each query")
    return rows, np.frombuffer(block.probabilities, dtype="<f8").reshape(-1, classes)


def answers_to_wire(answers: Answers) -> pb.AskReply:
    """Answers -> message."""
    return pb.AskReply(
        answers=pb.Answers(
            answers=[
                pb.Answer(outcome=int(outcome), label=int(label) if label != NO_LABEL else 0)  # pyright: ignore
                for outcome, label in zip(answers.outcomes, answers.labels, strict=True)
            ]
        )
    )


def histogram_blocks(histograms: Histograms) -> list[pb.HistogramBlock]:
    """Histograms -> blocks of them, which go before the answers."""
    step = max(1, BLOCK_BYTES // (8 * histograms.counts.shape[1] + 16))
    return [
        pb.HistogramBlock(
            counts=np.ascontiguousarray(part.counts, dtype="<i8").tobytes(),
            votes=np.ascontiguousarray(part.votes, dtype="<i8").tobytes(),
            sigmas=np.ascontiguousarray(part.sigmas, dtype="<f8").tobytes(),
        )
        for start in range(0, len(histograms), step)
        for part in [histograms.of(np.arange(start, min(start + step, len(histograms))))]
    ]


class HistogramReader:
    """Puts together the histograms of `queries` queries of so many classes from their blocks."""

    def __init__(self, queries: int, classes: int) -> None:
        self._queries, self._classes = queries, classes
        self._parts: list[Histograms] = []

    def add(self, block: pb.HistogramBlock) -> None:
        """The next block. Raises MalformedMessage if it is none, or one too many."""
        rows, rest = divmod(len(block.counts), 8 * self._classes)
        if rest or not rows or len(block.votes) != 8 * rows or len(block.sigmas) != 8 * rows:
            raise MalformedMessage("a block of histograms is not whole rows")
        if sum(map(len, self._parts)) + rows > self._queries:
            raise MalformedMessage(f"histograms of more than the {self._queries} queries asked")
        part = Histograms(
            np.frombuffer(block.counts, "<i8").reshape(rows, self._classes).astype(np.int64),
            np.frombuffer(block.votes, "<i8").astype(np.int64),
            np.frombuffer(block.sigmas, "<f8").astype(np.float64),
        )
        within = (np.abs(part.counts) <= MOST_COUNT).all() and (np.abs(part.votes) <= MOST_COUNT).all()
        if not (within and (part.votes >= 0).all() and np.isfinite(part.sigmas).all() and (part.sigmas >= 0).all()):
            raise MalformedMessage("a block of histograms has numbers that no votes and no noise give")
        self._parts.append(part)

    def read(self) -> Histograms | None:
        """All of them, None if there was no block. Raises MalformedMessage if some are missing."""
        if not self._parts:
            return None
        columns = zip(*((part.counts, part.votes, part.sigmas) for part in self._parts), strict=True)
        whole = Histograms(*(np.concatenate(column) for column in columns))
        if len(whole) != self._queries:
            raise MalformedMessage(f"histograms of {len(whole)} of the {self._queries} queries asked")
        return whole


def answers_from_wire(message: pb.Answers, queries: int, classes: int, histograms: Histograms | None = None) -> Answers:
    """Message, and what came before it -> answers to `queries` queries; MalformedMessage if they cannot be that."""
    outcomes = np.array([item.outcome for item in message.answers], dtype=np.int64)
    labels = np.array([item.label for item in message.answers], dtype=np.int64)
    labels[~np.isin(outcomes, (Outcome.ANSWERED, Outcome.REINFORCED))] = NO_LABEL
    if len(outcomes) != queries or not np.isin(outcomes, list(Outcome)).all() or (labels >= classes).any():
        raise MalformedMessage("the coordinator's answers do not fit the queries")
    if histograms is not None:
        answered = outcomes == Outcome.ANSWERED
        voted = (histograms.votes > 0) & (histograms.sigmas > 0)
        if not voted[answered].all() or (histograms.counts.argmax(axis=1) != labels)[answered].any():
            raise MalformedMessage("the coordinator's histograms do not fit its labels")
    return Answers(outcomes, labels, histograms)


def refusal_to_wire(error: ConsiliumError) -> pb.AskReply:
    """Typed error -> message: as it is if it is about the student's own request, else `GENERIC`."""
    shown = error if type(error) in TRAVELLING.values() else GENERIC
    return pb.AskReply(refusal=pb.Refusal(error=type(shown).__name__, what=shown.what, action=shown.action))


def refusal_from_wire(refusal: pb.Refusal) -> ConsiliumError:
    """Message -> the error to raise; an unknown name becomes ServiceError."""
    return TRAVELLING.get(refusal.error, ServiceError)(refusal.what, refusal.action)
