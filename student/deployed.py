"""A student on a machine of its own: the label service with its kit's certificate, and checks before it asks."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from consilium.node.checks import (
    Advice,
    Check,
    check_authority,
    check_certificate,
    check_private,
    check_signature,
    check_tls_server,
)
from consilium.node.kinds import NodeKind, StartResult, StatusReport
from consilium.node.kit import Kit
from consilium.node.manifest import check_signed
from consilium.node.supervisor import Tell
from consilium.protocol.errors import ConfigError, DataError, ServiceError
from consilium.protocol.label_source import RowStanding
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.protocol.schema import Schema
from consilium.report.before_run import MOST_EPSILON
from consilium.report.disclosure import epsilon_text, in_plain_words
from consilium.student.channel import LabelChannel
from consilium.student.pool import Pool, PoolFile, check_fits

SECONDS = 10.0
"""That the doctor waits for an answer."""


def open_channel(kit: Kit, wait: float, patience: float = 0) -> LabelChannel:
    """The coordinator's label service, asked with the kit's certificate. Raises ConfigError."""
    check_signed(kit)
    return LabelChannel(kit.coordinator.labels, wait, kit.client_tls, patience)


class StudentKind(NodeKind):
    """See `NodeKind`; a student runs once. pool: its rows, to be checked too."""

    name = "student"
    least_free_bytes = 0

    def __init__(self, pool: Path | None = None) -> None:
        self._pool = pool

    def kit_checks(self, kit: Kit) -> list[Check]:
        return [
            ("signature", lambda: check_signature(kit)),
            ("keys", lambda: check_private(kit.folder, ["client.key"])),
            ("authority", lambda: check_authority(kit.authority)),
        ]

    def set_up(self, kit: Kit) -> list[Check]:
        return [("certificate", lambda: check_certificate(kit.client_tls))]

    def further_checks(self, kit: Kit) -> list[Check]:
        path = self._pool
        return [
            ("label service", lambda: check_tls_server(kit.coordinator.labels, kit.client_tls)),
            ("terms", lambda: _terms(kit, path)),
            *([("public rows", lambda: _pool(kit, path))] if path is not None else []),
        ]

    def start(self, kit: Kit, tell: Tell, stop: threading.Event) -> StartResult:
        """Raises ConfigError: it serves nobody."""
        raise ConfigError(
            f"{kit.folder} is a student's kit: it serves nobody", f"Run: consilium student run {kit.folder}"
        )

    def status(self, kit: Kit) -> StatusReport:
        """Raises ConfigError: it has none."""
        raise ConfigError(
            f"{kit.folder} is a student's kit: it runs once, and has no status", f"See: consilium doctor {kit.folder}"
        )


def _terms(kit: Kit, path: Path | None) -> str:
    """What the coordinator serves: to this student, in this version, with this schema; what is left of it."""
    try:
        check_tls_server(kit.coordinator.labels, kit.client_tls)
    except ServiceError:
        raise Advice("not known as long as the label service does not answer", "See: label service") from None
    with LabelChannel(kit.coordinator.labels, SECONDS, kit.client_tls) as channel:
        terms = channel.describe()
        rows = path or kit.folder / "public.npz"
        ids = _ids(PoolFile(rows).load(terms.schema), terms.schema) if rows.exists() else []
        strange = set(_strange(kit, terms.schema, ids))  # `_pool` says which they are
        ids = [query for row, query in enumerate(ids) if row not in strange]
        standings = channel.known(ids)
    if terms.schema != _schema(kit):
        raise ConfigError("the coordinator serves another schema than this kit's", "Open the newest update here")
    sentence = f"{terms.parties} parties, {terms.mechanism}; {terms.queries_left} queries left"
    if ids:
        recorded, spent = (int((standings == kind).sum()) for kind in (RowStanding.RECORDED, RowStanding.SPENT))
        sentence += (
            f"; of {len(ids)} rows {len(ids) - recorded - spent} can be asked, {recorded} are free, {spent} are used up"
        )
    words = in_plain_words(terms.epsilon, terms.delta, terms.unit, terms.neighbouring)
    sentence += f"; epsilon at most {epsilon_text(terms.epsilon)}. {terms.release.sentence} {words}"
    if terms.queries_left == 0:
        raise Advice(sentence, "Only rows that are free get labels: more need a new federation")
    if terms.epsilon > MOST_EPSILON:
        raise Advice(
            sentence, f"Epsilon is above {MOST_EPSILON:g}, and protects little: ask for fewer queries or more noise"
        )
    return sentence


def _schema(kit: Kit) -> Schema:
    return Schema.model_validate_json((kit / "schema.json").read_bytes())


def _pool(kit: Kit, path: Path) -> str:
    schema = _schema(kit)
    pool = PoolFile(path).load(schema)
    check_fits(pool, schema)
    ids = _ids(pool, schema)
    if strange := _strange(kit, schema, ids):
        raise DataError(
            f"{len(strange)} of {len(ids)} rows are none of the public rows that the federation is fixed to"
            f" (first: row {strange[0] + 1})",
            f"Ask rows of {kit.folder / 'public.npz'} only: parties refuse others",
        )
    return f"{len(pool.queries)} rows with the federation's columns"


def _strange(kit: Kit, schema: Schema, ids: Sequence[str]) -> list[int]:
    """Places of the rows that are none of the public rows, where the federation is fixed to some."""
    fixed = kit.folder / "public.npz"
    if not fixed.exists():
        return []
    allowed = set(_ids(PoolFile(fixed).load(schema), schema))
    return [row for row, query in enumerate(ids) if query not in allowed]


def _ids(pool: Pool, schema: Schema) -> list[str]:
    return query_ids(canonical_queries(pool.queries, len(schema.features)))
