"""A student on a machine of its own: the label service under its folder's certificate, and checks before it asks."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from consilium.node.checks import Advice, Check, check_certificate, check_tls_server
from consilium.node.folder import PUBLIC_FILE, NodeFolder
from consilium.node.join import JOIN, joined
from consilium.node.kinds import NodeKind, NodeOutcome
from consilium.node.supervisor import Tell
from consilium.protocol.errors import ConfigError
from consilium.protocol.label_source import LabelTerms
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.protocol.schema import Schema
from consilium.report.disclosure import epsilon_text, in_plain_words
from consilium.report.warnings import MOST_EPSILON
from consilium.student.channel import LabelChannel
from consilium.student.pool import PoolFile, check_fits

SECONDS = 4.0
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
    with open_channel(folder, SECONDS) as channel:
        terms = channel.describe()
    if terms.schema != schema:
        raise ConfigError("the coordinator serves another schema than this folder's", JOIN)
    sentence = f"{reached}. {in_words(terms)}"
    if ids := _fixed_ids(folder, schema):
        free, gone = (len({*ids} & {*names}) for names in (terms.recorded, terms.spent))
        sentence += (
            f"; of {len({*ids})} rows {len({*ids}) - free - gone} can be asked, {free} are free, {gone} are used up."
        )
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
