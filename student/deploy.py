"""A student on a machine of its own: the label service with the certificate of its kit, and checks before it asks."""

from __future__ import annotations

from pathlib import Path

from consilium.node.checks import (
    Advice,
    Check,
    check_authority,
    check_certificate,
    check_clock,
    check_private,
    check_signature,
    check_tls_server,
)
from consilium.node.health import monitor_checks
from consilium.node.kit import Kit
from consilium.node.manifest import check_signed
from consilium.node.state import check_versions
from consilium.protocol.errors import ConfigError, DataError, ServiceError
from consilium.protocol.label_source import RowStanding
from consilium.protocol.old_names import public_file
from consilium.protocol.rows.queries import canonical_queries, query_ids
from consilium.protocol.rows.schema import Schema
from consilium.report.disclosure import in_plain_words
from consilium.report.warnings import MOST_EPSILON
from consilium.student.channel import LabelChannel
from consilium.student.pool import Pool, PoolFile, check_fits

SECONDS = 10.0
"""That the doctor waits for an answer."""


def open_channel(kit: Kit, wait: float) -> LabelChannel:
    """The coordinator's label service, asked with the kit's certificate. Raises ConfigError."""
    check_signed(kit)
    return LabelChannel(kit.coordinator.labels, wait, kit.client_tls)


def checks(kit: Kit, pool: Path | None = None) -> list[Check]:
    """Checks of a student's kit, in the order in which to mend."""
    return [
        ("signature", lambda: check_signature(kit)),
        ("versions", lambda: check_versions(kit)),
        ("keys", lambda: check_private(kit.folder, ["client.key"])),
        ("authority", lambda: check_authority(kit.authority)),
        ("certificate", lambda: check_certificate(kit.client_tls)),
        ("clock", lambda: check_clock(kit)),
        ("label service", lambda: check_tls_server(kit.coordinator.labels, kit.client_tls)),
        ("terms", lambda: _terms(kit, pool)),
        *monitor_checks(kit, running=False),
        *([("public rows", lambda: _pool(kit, pool))] if pool is not None else []),
    ]


def _terms(kit: Kit, path: Path | None) -> str:
    """What the coordinator serves: to this student, in this version, with this schema; what is left of it."""
    try:
        check_tls_server(kit.coordinator.labels, kit.client_tls)
    except ServiceError:
        raise Advice("not known as long as the label service does not answer", "See: label service") from None
    with LabelChannel(kit.coordinator.labels, SECONDS, kit.client_tls) as channel:
        sources = channel.phases()
        terms, left = sources[0].describe(), sum(source.describe().queries_left for source in sources)
        file = path or public_file(kit, "public.npz")
        ids = _ids(PoolFile(file).load(terms.schema), terms.schema) if file.exists() else []
        standings = channel.known(ids)
    if terms.schema != _schema(kit):
        raise ConfigError("the coordinator serves another schema than this kit's", "Open the newest update here")
    summary = f"{terms.parties} parties, {terms.mechanism}; {left} queries left"
    if ids:
        recorded, spent = (int((standings == standing).sum()) for standing in (RowStanding.RECORDED, RowStanding.SPENT))
        summary += (
            f"; of {len(ids)} rows {len(ids) - recorded - spent} can be asked, {recorded} are free, {spent} are used up"
        )
    words = in_plain_words(terms.epsilon, terms.delta, terms.unit, terms.neighbouring)
    summary += f"; epsilon at most {terms.epsilon:.3f}. {terms.release.sentence} {words}"
    if left == 0:
        raise Advice(summary, "Only rows that are free get labels: more need a new federation")
    if terms.epsilon > MOST_EPSILON:
        raise Advice(summary, f"Epsilon is above {MOST_EPSILON:g}: see docs/warnings.md, large-epsilon")
    return summary


def _schema(kit: Kit) -> Schema:
    return Schema.model_validate_json((kit / "schema.json").read_bytes())


def _pool(kit: Kit, path: Path) -> str:
    schema = _schema(kit)
    pool = PoolFile(path).load(schema)
    check_fits(pool, schema)
    fixed = public_file(kit, "public.npz")
    if fixed.exists():
        allowed, ids = set(_ids(PoolFile(fixed).load(schema), schema)), _ids(pool, schema)
        strange = [row for row, query in enumerate(ids) if query not in allowed]
        if strange:
            raise DataError(
                f"{len(strange)} of {len(ids)} rows are none of the public rows that the federation is fixed to"
                f" (first: row {strange[0] + 1})",
                f"Ask rows of {fixed} only: parties refuse others",
            )
    return f"{len(pool.queries)} rows with the federation's columns"


def _ids(pool: Pool, schema: Schema) -> list[str]:
    return query_ids(canonical_queries(pool.queries, len(schema.features)))
