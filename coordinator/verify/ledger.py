"""The ledger of somebody who may have forged it: structure, hash chain and counts; what each release was charged; what
is claimed of them; and what the second aggregator signed, against its batches. Before that: findings of checks, each
with a verdict that tells a lie from a damaged file and from a crash; and files of a run.

Files are read with no trust in their content: whatever is in them, the result is a value or a typed error.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from consilium.accounting.errors import AccountingError
from consilium.accounting.sanitise.release import sanitise, secret_smoothness
from consilium.coordinator.collection.kept_sums import ROSTER, SUMS, KeptSum, read_sums
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.ledger import Batch, Ledger, Release, stored_config
from consilium.coordinator.privacy import answered_batches, most_teachers, promises, spent
from consilium.protocol import strict_json
from consilium.protocol.config_files import load, validate
from consilium.protocol.errors import ConfigError, ConsiliumError, MalformedMessage
from consilium.protocol.label_source import NO_LABEL
from consilium.sums.roster import VerifiedRoster


class Verdict(StrEnum):
    """What a check came to."""

    HOLDS = "holds"
    FAILS = "does not hold"
    """Two things that the run says cannot both be true."""
    DAMAGED = "unreadable or altered"
    """A file cannot be read, is missing where it must be there, or is not what was written."""
    UNFINISHED = "unfinished"
    """As a crash leaves it, or a run that still goes on: no lie, and no proof either."""
    ABSENT = "not there"
    """Nothing to check, and nothing wrong with that."""


class Contradiction(ConsiliumError):
    """See `Verdict.FAILS`."""


class Damaged(ConsiliumError):
    """See `Verdict.DAMAGED`."""


class Unfinished(ConsiliumError):
    """See `Verdict.UNFINISHED`."""


class Absent(ConsiliumError):
    """See `Verdict.ABSENT`."""


_VERDICTS = {
    **dict.fromkeys((Damaged, ConfigError, MalformedMessage), Verdict.DAMAGED),
    Unfinished: Verdict.UNFINISHED,
    Absent: Verdict.ABSENT,
}


@dataclass(frozen=True)
class Finding:
    """One check: what was looked at (a file's name first), the verdict, and a sentence. Nothing in it is secret."""

    check: str
    verdict: Verdict
    found: str

    @property
    def holds(self) -> bool:
        """A crash, or a file that need not be there, is no lie."""
        return self.verdict not in (Verdict.FAILS, Verdict.DAMAGED)


def holds(findings: Iterable[Finding]) -> bool:
    """Whether no finding speaks against the run."""
    return all(finding.holds for finding in findings)


def judged(check: str, look: Callable[[], str]) -> Finding:
    """Look, and tell the sentence that comes back, or the error. What is checked comes from whoever may have forged it,
    so no error of any kind gets out: a check that breaks down counts as failed."""
    try:
        return Finding(check, Verdict.HOLDS, look())
    except (ConsiliumError, AccountingError) as error:
        return Finding(check, _VERDICTS.get(type(error), Verdict.FAILS), f"{error}")
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a parser's panic is no Exception; a text may quote what nobody may see
        return Finding(check, Verdict.DAMAGED, f"it cannot be read ({type(error).__name__})")


def agree(name: str, claimed: object, truth: object) -> None:
    """Raise Contradiction unless both are the same, in type too: `True` is no 1."""
    if claimed != truth or isinstance(claimed, bool) != isinstance(truth, bool):
        raise Contradiction(f"{name}: {str(claimed)[:80]} is written, {str(truth)[:80]} is right")


MOST_BYTES = 1 << 28
"""Largest file that is read at all: the files of 100,000 queries take a tenth of it."""


@dataclass(frozen=True)
class Files:
    """The files of one folder. finished: whether whoever wrote them says that nothing is missing any more."""

    folder: Path
    finished: bool

    def broken(self, what: str) -> ConsiliumError:
        """The error of a file that cannot be read: a crash leaves one where the run did not finish."""
        return Damaged(what) if self.finished else Unfinished(what)

    def content(self, name: str) -> bytes:
        """The file as it is. Raises Damaged where a finished run lacks it, Unfinished where another one does."""
        path = self.folder / name
        try:
            if path.stat().st_size > MOST_BYTES:
                raise Damaged(f"{name} has more than {MOST_BYTES >> 20} MiB")
            return path.read_bytes()
        except FileNotFoundError:
            raise self.broken(f"{name} is missing") from None
        except OSError as error:
            raise self.broken(f"{name} cannot be read: {error.strerror}") from None

    def object(self, name: str) -> dict[str, Any]:
        """A JSON object; a key that occurs twice is refused, since two readers may take different ones."""

        def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            if len(values := dict(pairs)) < len(pairs):
                raise ValueError
            return values

        try:
            value = json.loads(self.content(name).decode("utf-8"), object_pairs_hook=unique)
        except (ValueError, RecursionError):
            raise self.broken(f"{name} is no JSON, or cut off") from None
        if not isinstance(value, dict):
            raise Damaged(f"{name} is no JSON object")
        return value


def entry(table: dict[str, Any], name: str, *keys: str) -> Any:
    """The value below `keys`, each of a table in the one before. Raises Damaged where there is none."""
    value: Any = table
    for number, key in enumerate(keys, 1):
        if not isinstance(value, dict) or key not in value:
            raise Damaged(f"{name} has no {'.'.join(keys[:number])}")
        value = value[key]
    return value


TOLERANCE = 1e-9
"""Relative difference between a claimed and a recomputed number that rounding may explain."""
MOST_DEVIATIONS, ROUNDING = 7.0, 2e-4
"""A sanitised curve is within so many standard deviations of what the ledger's votes give, but once in 4e11 runs."""
TABLES = {"meta", "batches", "releases", "closing"}


@dataclass(frozen=True)
class Recorded:
    """What a ledger says, after its chain was followed; secret. closing: what it was closed with."""

    config: FederationConfig
    batches: list[Batch] = field(repr=False)
    releases: dict[str, Release] = field(repr=False)
    closing: dict[str, Any] | None = field(repr=False)

    @property
    def asked(self) -> int:
        return sum(len(batch.query_ids) for batch in self.batches)

    @property
    def answered(self) -> int:
        return sum(int(batch.answered.sum()) for batch in self.batches)

    @property
    def reinforced(self) -> int:
        return sum(int(batch.reinforced.sum()) for batch in self.batches)


def read_ledger(path: Path) -> Recorded:
    """Read it all, as of one moment; a coordinator that serves goes on meanwhile. Raises Damaged : SQLite cannot read
    it, or it is no ledger. Unfinished : a crash broke off a write. LedgerError : the chain is broken. ConfigError : its
    configuration is none. Contradiction : its counts, labels or configuration are not those of its rows."""
    _check_structure(path)
    federation, text = stored_config(path)
    config = validate(json.loads(text), FederationConfig, "its configuration")
    if config.digest() != federation:
        raise Contradiction("its configuration does not have the hash that it states")
    ledger = Ledger(path, federation, "", read_only=True)
    with closing(ledger), ledger.snapshot():
        batches, ended = ledger.batches(), ledger.closing()
        releases = ledger.find([query_id for batch in batches for query_id in batch.query_ids])
        strays = ledger.uncharged()
    if strays:
        raise Contradiction(f"{strays} releases belong to no batch: nobody was charged for them")
    recorded = Recorded(config, batches, releases, None if ended is None else json.loads(ended))
    if len(releases) != recorded.asked:
        raise Contradiction("a query was charged twice")
    for number, batch in enumerate(batches, 1):
        _check_batch(config, f"batch {number}", batch, releases)
    return recorded


def _check_batch(config: FederationConfig, name: str, batch: Batch, releases: dict[str, Release]) -> None:
    """Outcomes, labels and noisy counts that no service writes."""
    classes, labels = len(config.rows.classes), batch.labels[batch.labels != NO_LABEL]
    if np.any((labels < 0) | (labels >= classes)):
        raise Contradiction(f"{name} has a label that is none of the {classes} classes")
    if [releases[query_id].outcome for query_id in batch.query_ids] != batch.outcomes.tolist():
        raise Contradiction(f"{name} has an outcome that does not belong to its label")
    if batch.parties < config.minimum_parties:
        raise Contradiction(f"{name} counts {batch.parties} parties, at least {config.minimum_parties} vote")
    released = config.mechanism.count_sigma > 0
    if released != (batch.counts is not None) and len(batch.labels):
        has = "no histograms" if released else "histograms"
        raise Contradiction(f"{name} has {has}, unlike what {config.mechanism.describe()} releases")
    if batch.counts is not None and batch.counts.shape[1] != classes:
        raise Contradiction(f"{name} has histograms of {batch.counts.shape[1]} classes, not of {classes}")
    if batch.counts is not None and not np.array_equal(batch.counts.argmax(axis=1), batch.labels):
        raise Contradiction(f"{name} has a label that is not the largest count of its histogram")


_PASSING = {
    "SQLITE_BUSY": "another process is writing it all the time",
    "SQLITE_READONLY_ROLLBACK": "a crash broke off the last write, whose labels never left: the coordinator's next"
    " start mends it",
}
"""What keeps SQLite from reading a sound ledger, and means no lie."""


def _check_structure(path: Path) -> None:
    """The tables of a ledger, and no view or trigger: it could show other rows than those that are there."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
            connection.execute("PRAGMA trusted_schema=OFF")
            entries = connection.execute("SELECT type, name FROM sqlite_master").fetchall()
            sound = connection.execute("PRAGMA integrity_check(1)").fetchone()[0] == "ok"
    except sqlite3.Error as error:
        if (passing := _PASSING.get(getattr(error, "sqlite_errorname", ""))) is not None:
            raise Unfinished(passing) from None
        raise Damaged(f"SQLite cannot read it: {error}") from None
    if any(kind in ("view", "trigger") for kind, _ in entries) or not {name for _, name in entries} >= TABLES:
        raise Damaged("its tables are not those of a ledger")
    if not sound:
        raise Damaged("its pages are damaged, says SQLite's own check")


def check_query_budget(recorded: Recorded) -> str:
    """No more was asked or answered than the query budget allows."""
    budget, asked, answered = recorded.config.query_budget, recorded.asked, recorded.answered
    if asked > budget.queries:
        raise Contradiction(f"{asked} queries were asked, the cap is {budget.queries}")
    if answered > budget.answers:
        raise Contradiction(f"{answered} labels were given, the cap is {budget.answers}")
    return f"{asked} of {budget.queries} queries, {answered} of {budget.answers} labels"


def check_charges(recorded: Recorded) -> str:
    """Every batch was charged the event that the configuration gives for its counts."""
    config = recorded.config
    for place, batch in enumerate(recorded.batches, 1):
        expected = config.event(len(batch.query_ids), int(batch.answered.sum())).to_json()
        if batch.event != expected:
            differing = sorted(key for key in expected if batch.event.get(key) != expected[key])
            raise Contradiction(f"batch {place}: the event differs in {', '.join(differing) or 'its keys'}")
    return config.mechanism.describe()


def check_closing(recorded: Recorded) -> str:
    """The released number, up to its noise, from the histograms in the ledger; the charge from the plan."""
    planned, event, closing = recorded.config.privacy.sanitised, recorded.config.closing_event(), recorded.closing
    if planned is None or event is None:
        if closing is not None:
            raise Contradiction("the ledger is closed with a sanitised epsilon that nobody planned")
        raise Absent("none is planned")
    if closing is None:
        raise Absent("planned, not released")
    agree("the charge", entry(closing, "the closing", "event"), event.to_json())
    if any(batch.histogram is None for batch in recorded.batches) or not recorded.batches:
        raise Contradiction("the ledger lacks the histograms of which it is")
    votes, teachers, plan = answered_batches(recorded.batches), most_teachers(recorded.batches), planned.plan()
    again = sanitise(votes, plan, recorded.config.privacy.delta, teachers, lambda: 0.0)
    cost, rdp = _number(closing, "the closing", "release_cost"), _number(closing, "the closing", "released_rdp")
    _close_to("the release's cost", cost, plan.cost())
    guarantee = entry(closing, "the closing", "guarantee")
    epsilon = _number(guarantee, "the closing", "epsilon")
    if not abs((rdp - again.released_rdp) - (epsilon - again.guarantee.epsilon)) < TOLERANCE:
        raise Contradiction("the released curve and the epsilon do not belong together")
    for key, truth in again.guarantee.to_json().items():
        if key not in ("epsilon", "method"):
            agree(f"its {key}", entry(guarantee, "the closing", key), truth)
    scale = secret_smoothness(votes, plan, teachers).smooth * plan.sigma_ss
    if not abs(rdp - again.released_rdp) <= MOST_DEVIATIONS * scale + ROUNDING:
        raise Contradiction("it is further from the ledger's votes than its noise explains")
    return f"{epsilon:.4f}, of which the release itself costs {cost:.4f}"


def guarantees_of(recorded: Recorded) -> dict[str, dict[str, Any]]:
    """What was promised and spent, by name, as JSON. What a closing released was drawn once, and is as recorded."""
    config, closing = recorded.config, recorded.closing
    every = promises(config) | spent(config, recorded.batches, closing is not None)
    guarantees: dict[str, dict[str, Any]] = {name: one.to_json() for name, one in every.items()}
    return guarantees if closing is None else guarantees | {"sanitised": entry(closing, "the closing", "guarantee")}


def check_claims(name: str, claims: object, truth: dict[str, dict[str, Any]]) -> str:
    """Every guarantee that should be claimed is, and says what the ledger gives, word by word; there is no other."""
    if not isinstance(claims, dict):
        raise Damaged(f"{name} has no guarantees")
    agree(f"{name}: its guarantees", sorted(claims), sorted(truth))
    for key, claim in claims.items():
        check_epsilon(f"{name}: {key}", claim, "epsilon", truth[key])
        if {**claim, "epsilon": None} != {**truth[key], "epsilon": None}:
            raise Contradiction(f"{name}: {key} has other words than the ledger's guarantee")
    return ", ".join(claims)


def check_epsilon(name: str, claims: object, key: str, truth: dict[str, Any]) -> None:
    """Raise Contradiction unless the number at `key` is the guarantee's epsilon. A secret one is not told."""
    numbers = _number(claims, name, key), _number(truth, "the ledger", "epsilon")
    _close_to(f"{name}: {key}", *numbers, secret=not truth.get("publishable", False))


def _number(table: Any, name: str, key: str) -> float:
    try:
        return strict_json.number(table, key)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Damaged(f"{name}: {key} is no number") from None


def _close_to(name: str, claimed: float, truth: float, *, secret: bool = False) -> None:
    if claimed != truth and not math.isclose(claimed, truth, rel_tol=TOLERANCE):
        numbers = "" if secret else f": claimed {claimed:.6g}, the ledger gives {truth:.6g}"
        raise Contradiction(f"{name} is not the ledger's{numbers}")


def check_signed(files: Files, recorded: Recorded) -> str:
    """Each batch is of one signed sum, with each aggregator's total the one that it was bound to; no query is in two
    sums of one round. Raises Contradiction; ConfigError, MalformedMessage, Damaged, Unfinished : a file is missing or
    broken, or a signature is false."""
    config, folder = recorded.config, files.folder
    if not recorded.batches and not (folder / SUMS).exists():
        return "no sum was given"
    content = [files.content(name) for name in (ROSTER, SUMS)][-1]
    roster = load(folder / ROSTER, VerifiedRoster)
    if roster.digest != config.roster:
        raise Contradiction(f"{ROSTER} is not the roster of the federation")
    sums = read_sums(content, roster)
    summed: set[tuple[str, int]] = set()
    for kept in sums:
        queries = {(query_id, kept.terms.round) for query_id in kept.ids}
        if (kept.terms.federation, kept.terms.roster) != (config.digest(), roster.digest):
            raise Contradiction(f"{SUMS}: session {kept.terms.sid} is of another federation")
        if summed & queries:
            raise Contradiction(f"session {kept.terms.sid}: a query is in two sums")
        summed |= queries
        kept.check_halves()
    noise = config.node_event(0, 0).party_noise(1)
    sigma = 0.0 if noise is None else noise.sigma
    for place, batch in enumerate(recorded.batches, 1):
        _check_signed(f"batch {place}", batch, sums, sigma)
    signed = f"{len(recorded.batches)} of {len(sums)} signed sums"
    return f"{signed}, each with noise of the second aggregator, sigma {sigma:g}"


def _check_signed(name: str, batch: Batch, sums: list[KeptSum], sigma: float) -> None:
    """Against the record of the batch's first sum; of queries beyond the last answer that there was room for too."""
    for kept in sums:
        if kept.terms.round == 1 and kept.ids[: len(batch.query_ids)] == batch.query_ids:
            if (len(kept.record.accepted), kept.terms.sigma) != (batch.parties, sigma):
                raise Contradiction(f"{name}: the second aggregator signed a sum of other parties or noise")
            return
    raise Contradiction(f"{name}: the second aggregator signed no sum on its queries")
