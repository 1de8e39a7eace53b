"""Terms, queries, answers and refusals between plain Python and labels.proto; used by both ends of the socket."""

from __future__ import annotations

import json
import math

import numpy as np
from pydantic import TypeAdapter, ValidationError

from consilium.protocol.errors import BudgetExceeded, ConsiliumError, DataError, MalformedMessage, ServiceError
from consilium.protocol.label_source import MOST_COUNT, NO_LABEL, USES_UP, Answers, LabelTerms, Outcome
from consilium.protocol.labels import labels_pb2 as pb
from consilium.protocol.messages import PROTOCOL_VERSION
from consilium.protocol.queries import QUERY_DTYPE
from consilium.protocol.releases import ReleaseKind

BLOCK_BYTES = 1_000_000
"""Rows of a query set travel in blocks of about this size; gRPC's own limit is 4 MB a message."""
PROBABILITY = np.dtype("<f8")
_COLUMNS = {"outcomes": "u1", "labels": "<i4", "counts": "<i8"}
"""Of answers, as labels.proto has them."""
_TERMS = TypeAdapter(LabelTerms)
FEDERATION = "federation"
"""Metadata of a request for labels: digest of the federation whose terms the student has. Another one may answer at the
same address a minute later, and its labels cost their own epsilon."""
TRAVELLING = (BudgetExceeded, DataError, MalformedMessage)
"""Errors about a student's own request: it learns their text."""
GENERIC = ServiceError(
    "the coordinator could not answer this request",
    f"Its operator sees why, and what to do, in `consilium status`. Asking the same again {USES_UP}",
)
"""What it learns of all others. Which parties were missing, at which stage, or what a sum looked like is not its."""


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
    if not (terms.release is ReleaseKind.COUNTS) == (terms.count_sigma > 0) == (terms.most_votes > 0):
        raise MalformedMessage(
            f"the coordinator's terms release {terms.release} with noise {terms.count_sigma:g} on counts"
        )
    return terms


def row_bytes(features: int, classes: int) -> int:
    """Of a row with its probabilities."""
    return features * QUERY_DTYPE.itemsize + classes * PROBABILITY.itemsize


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


def rows_of(block: pb.QueryBlock, features: int, classes: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Block -> float32 (rows, features), and probabilities float64 (rows, classes) if it has any. Nothing is copied.
    Raises MalformedMessage if its lengths do not fit."""
    if block.features != features:
        raise MalformedMessage(f"query block with rows of {block.features} features, the federation's have {features}")
    if not block.rows or len(block.rows) % (features * QUERY_DTYPE.itemsize):
        raise MalformedMessage(f"query block of {len(block.rows)} bytes is not whole rows of {features} features")
    rows = np.frombuffer(block.rows, dtype=QUERY_DTYPE).reshape(-1, features)
    if not block.probabilities:
        return rows, None
    if len(block.probabilities) != len(rows) * classes * PROBABILITY.itemsize:
        raise MalformedMessage("probabilities of a query block are not one row for each query")
    return rows, np.frombuffer(block.probabilities, dtype=PROBABILITY).reshape(-1, classes)


def answers_to_wire(answers: Answers) -> pb.Answers:
    """Answers -> message."""
    columns = {name: getattr(answers, name) for name in _COLUMNS if getattr(answers, name) is not None}
    return pb.Answers(**{name: column.astype(_COLUMNS[name]).tobytes() for name, column in columns.items()})


def answers_from_wire(message: pb.Answers, queries: int, classes: int) -> Answers:
    """Message -> answers to `queries` queries; MalformedMessage if they cannot be that."""

    def column(name: str, *shape: int) -> np.ndarray:
        kind, content = np.dtype(_COLUMNS[name]), getattr(message, name)
        if len(content) != math.prod(shape) * kind.itemsize:
            raise MalformedMessage(f"the coordinator's answers do not fit the queries: {name}")
        return np.frombuffer(content, kind).reshape(shape).astype(np.int64)

    outcomes, labels = column("outcomes", queries), column("labels", queries)
    given = np.isin(outcomes, (Outcome.ANSWERED, Outcome.REINFORCED))
    if not (np.isin(outcomes, list(Outcome)) & (given <= ((labels >= 0) & (labels < classes)))).all():
        raise MalformedMessage("the coordinator's answers do not fit the queries")
    labels[~given] = NO_LABEL
    if not message.counts:
        return Answers(outcomes, labels)
    counts = column("counts", queries, classes)
    if not ((counts >= -MOST_COUNT) & (counts <= MOST_COUNT)).all():
        raise MalformedMessage("the coordinator's histograms have numbers that no votes and no noise give")
    if (counts.argmax(axis=1) != labels)[outcomes == Outcome.ANSWERED].any():
        raise MalformedMessage("the coordinator's histograms do not fit its labels")
    return Answers(outcomes, labels, counts)


def refusal_to_wire(error: ConsiliumError) -> str:
    """An error that a student may learn, as the detail of a status."""
    return json.dumps({"error": type(error).__name__, "what": error.what, "action": error.action})


def refusal_from_wire(detail: str) -> ConsiliumError:
    """The error to raise; an unknown name, and what is no refusal, is a ServiceError."""
    kinds = {kind.__name__: kind for kind in TRAVELLING}
    try:
        told = json.loads(detail)
        return kinds.get(told["error"], ServiceError)(str(told["what"]), str(told["action"]))
    except (ValueError, KeyError, TypeError):
        return ServiceError(f"the label service ended the request: {detail}")
