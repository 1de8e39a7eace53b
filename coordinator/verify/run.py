"""A coordinator's run folder against its own ledger: query budget, events, closing, claimed guarantees, counts, event
log.

The run of a path is a run folder, a coordinator's kit, or one of the runs in its state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from consilium.coordinator.collection.kept_session import RECORDS
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.kit_runs import current_folder
from consilium.coordinator.privacy import promises, spent
from consilium.coordinator.verify.charges import (
    check_charges,
    check_claims,
    check_evidence,
    check_given,
    check_guarantee,
    check_query_budget,
    check_sanitised,
    number,
)
from consilium.coordinator.verify.files import (
    Absent,
    Checks,
    Contradiction,
    Damaged,
    Files,
    Finding,
    LoggedEvents,
    Unfinished,
    agree,
    entry,
    read_events,
)
from consilium.coordinator.verify.recorded import Recorded, read_ledger
from consilium.node.kit import KIT_FILE, a_node, open_kit
from consilium.protocol.config_files import validate
from consilium.protocol.errors import ConfigError, DataError, PathError
from consilium.protocol.files import is_held
from consilium.protocol.pool import PoolTree
from consilium.report.disclosure import epsilon_text

TRACES = ("ledger.db", "coordinator.json", "events.jsonl", "failure.json")
"""Files of which a coordinator's run folder has at least one."""
ADVICE = "Give the folder of a run, or a coordinator's kit"


@dataclass(frozen=True)
class RunPlace:
    """A coordinator's run folder. kit: the folder of the kit that it is in, or None. others: the kit's other runs."""

    run_dir: Path
    kit: Path | None = None
    others: tuple[str, ...] = ()

    @property
    def serving(self) -> bool:
        """Whether the kit's coordinator is running now."""
        return self.kit is not None and is_held(self.kit / "state" / "lock")


def find_run(path: Path) -> RunPlace:
    """The run of a path; makes and changes nothing.

    Raises
    ------
    PathError : nothing is there. DataError : there is no run here. ConfigError : the kit is not a coordinator's, or its
        kit.json cannot be read.
    """
    if not path.exists():
        raise PathError(f"{path} is not there, so there is no run here", ADVICE)
    if not path.is_dir():
        raise DataError(f"{path} is no folder, so there is no run here", ADVICE)
    if (path / KIT_FILE).exists():
        kind = open_kit(path).kind
        if kind != "coordinator":
            raise ConfigError(f"{path} is the kit of {a_node(kind)}, not of a coordinator: it has no ledger", ADVICE)
        open_kit(path, "coordinator")
        return _of_kit(path)
    if path.resolve().parent.name == "state" and (path.resolve().parent.parent / KIT_FILE).exists():
        return RunPlace(path, path.resolve().parent.parent)
    if not any((path / name).exists() for name in TRACES):
        raise DataError(f"{path} has none of {', '.join(TRACES)}: there is no run here", ADVICE)
    return RunPlace(path)


def _of_kit(kit: Path) -> RunPlace:
    runs = sorted(path.name for path in (kit / "state").glob("run-*") if path.is_dir())
    if not runs:
        raise DataError(f"{kit} has not been started: there is no run here yet", "Give a kit that has served")
    try:
        current = current_folder(kit).name
    except ConfigError:
        current = runs[0] if len(runs) == 1 else ""  # the check of the kit reports the damaged file
    if current not in runs:
        raise DataError(
            f"{kit} has {', '.join(runs)}, but no run of its federation.json", "Give the folder of one of them"
        )
    return RunPlace(kit / "state" / current, kit, tuple(name for name in runs if name != current))


LEDGER, COORDINATOR, EVENTS = "ledger.db", "coordinator.json", "events.jsonl"
POOL_FILE = "public.npy"
"""Of a coordinator's kit: the rows that may be asked, where the federation fixes them."""


@dataclass(frozen=True)
class VerifiedRun:
    """Findings, and what was read for them. recorded: None where the ledger cannot be trusted. Secret but `findings`.

    guarantees: as the ledger gives them, by name, as JSON. coordinator: coordinator.json where it could be read.
    """

    findings: list[Finding]
    finished: bool
    recorded: Recorded | None = field(repr=False)
    guarantees: dict[str, dict[str, Any]] = field(repr=False)
    coordinator: dict[str, Any] | None = field(repr=False)
    events: LoggedEvents = field(repr=False)


def verify_run(place: RunPlace, finished: bool | None = None) -> VerifiedRun:
    """All that a coordinator's folder says, against its ledger. It is read only, while its coordinator may serve.

    finished: whether the run says that it is; None for a deployed one, which says so by coordinator.json.
    """
    folder = place.run_dir
    closed = (folder / COORDINATOR).exists()
    files = Files(folder, closed if finished is None else finished)
    checks, truth = Checks(), _Found()
    # the log before the ledger: a coordinator that serves writes them the other way round
    checks.check(f"{EVENTS}: every line", lambda: _lines(files, truth))
    checks.check(f"{LEDGER}: structure, hash chain and counts", lambda: _ledger(files, truth))
    recorded = truth.recorded
    if recorded is not None:
        _content(checks, files, recorded, truth)
    if place.kit is not None:
        _kit(checks, place, recorded)
    if not files.finished:
        checks.check("run: finished", lambda: _not_finished(files, place))
    return VerifiedRun(checks.findings, files.finished, recorded, truth.guarantees, truth.coordinator, truth.events)


@dataclass
class _Found:
    """What the checks have read so far."""

    events: LoggedEvents = field(default_factory=LoggedEvents)
    recorded: Recorded | None = None
    guarantees: dict[str, dict[str, Any]] = field(default_factory=dict)
    coordinator: dict[str, Any] | None = None


def _content(checks: Checks, files: Files, recorded: Recorded, truth: _Found) -> None:
    """Checks that need a ledger whose chain holds."""
    if recorded.rolled_back:
        checks.check(f"{LEDGER}: last write", _broken_off)
    checks.check(f"{LEDGER}: query budget never passed", lambda: check_query_budget(recorded))
    checks.check(f"{LEDGER}: events of the configured mechanism", lambda: check_charges(recorded))
    checks.check(f"{LEDGER}: evidence of the recorded votes", lambda: check_evidence(recorded))
    checks.check(f"{LEDGER}: sanitised epsilon released once and as planned", lambda: check_sanitised(recorded))
    checks.check(f"{LEDGER}: epsilon", lambda: _guarantees(recorded, truth))
    checks.check(f"{EVENTS}: what was released", lambda: _log(files, recorded, truth))
    checks.check(f"{COORDINATOR}: counts and parties", lambda: _counts(files, recorded, truth))
    checks.check(f"{COORDINATOR}: epsilon", lambda: _claims(files, recorded, truth))
    if recorded.config.collection == "verified":
        checks.check(f"{RECORDS}: sums that were signed", lambda: check_given(files, recorded))


def _lines(files: Files, truth: _Found) -> str:
    truth.events = events = read_events(files.content(EVENTS))
    if events.altered:
        raise Damaged(f"{EVENTS}: no crash explains {_lines_text(events.altered)}")
    if events.torn:
        raise Unfinished(f"{EVENTS}: a crash broke off {_many(events.torn, 'line')}")
    return _many(len(events.events), "event")


def _ledger(files: Files, truth: _Found) -> str:
    path = files.folder / LEDGER
    released = len(truth.events.named("released"))
    if not path.is_file():
        if files.finished or released:
            raise Damaged(f"{LEDGER} is missing, though labels were given" if released else f"{LEDGER} is missing")
        raise Unfinished(f"there is no {LEDGER} yet: nothing was charged, and no label was given")
    try:
        truth.recorded = recorded = read_ledger(path)
    except Unfinished as error:
        if files.finished or released:
            raise Damaged(f"{LEDGER}: {error.what}, though labels were given") from None
        raise
    return (
        f"{_many(len(recorded.batches), 'batch')}, {_many(recorded.asked, 'query')},"
        f" {_many(recorded.answered, 'label')}"
    )


def _broken_off() -> str:
    raise Unfinished("a crash broke it off; SQLite takes it back at the next start, and its labels never left")


def _guarantees(recorded: Recorded, truth: _Found) -> str:
    config, closing = recorded.config, recorded.closing
    all_ = promises(config) | spent(config, recorded.batches, closing is not None)
    truth.guarantees |= {name: guarantee.to_json() for name, guarantee in all_.items()}
    if closing is not None:  # drawn once: what the ledger holds is the truth, and `_sanitised` looks whether it can be
        truth.guarantees["sanitised"] = entry(closing, "the closing", "guarantee")
    text = {name: epsilon_text(guarantee.epsilon) for name, guarantee in all_.items() if guarantee.publishable}
    return ", ".join(f"{name} {value}" for name, value in text.items())


def _log(files: Files, recorded: Recorded, proved: _Found) -> str:
    """Every release that the log tells of is in the ledger, in order; a crash may have lost some of the log."""
    log = proved.events
    batches = iter([[len(b.query_ids), int(b.answered.sum()), b.parties] for b in recorded.batches])
    logged = [[event.get("asked"), event.get("answered"), event.get("parties")] for event in log.named("released")]
    for place, one in enumerate(logged, 1):
        if not any(one == batch for batch in batches):  # uses the batches up: the order counts
            raise Contradiction(f"{EVENTS}: its release {place} is not in the ledger")
    truth = proved.guarantees.get("guarantee")
    for event in log.named("promised") if truth is not None else []:
        stated = {key: value for key, value in event.items() if key not in ("event", "at", "seconds")}
        check_guarantee(f"{EVENTS}: promised", stated, truth or {})
    closed = log.named("closed")
    for event in closed:
        agree(f"{EVENTS}: asked", event.get("asked"), recorded.asked)
        agree(f"{EVENTS}: answered", event.get("answered"), recorded.answered)
    if closed and not (files.folder / COORDINATOR).exists():
        raise Damaged(f"{EVENTS} says that the run was closed, but {COORDINATOR} is missing")
    if files.finished and not closed:
        raise Unfinished(f"{EVENTS} ends before the run was closed, as a crash leaves it")
    return f"{len(logged)} of {_many(len(recorded.batches), 'batch')}"


def _counts(files: Files, recorded: Recorded, proved: _Found) -> str:
    summary = files.object(COORDINATOR)
    proved.coordinator = summary
    config = recorded.config
    truth = {
        "federation": config.digest(),
        "federation_digest": config.federation_digest(),
        "collection": config.collection,
        "asked": recorded.asked,
        "answered": recorded.answered,
        "reinforced": recorded.reinforced,
        "sanitised": recorded.closing,
    }
    for key, value in truth.items():
        agree(f"{COORDINATOR}: {key}", entry(summary, COORDINATOR, key), value)
    parties, teachers = entry(summary, COORDINATOR, "parties"), entry(summary, COORDINATOR, "teachers")
    if not isinstance(parties, list) or not all(isinstance(party, str) for party in parties):
        raise Damaged(f"{COORDINATOR}: parties is no list of names")
    least = config.minimum_parties if recorded.batches else 0  # one that nobody came to can be closed too
    if len(set(parties)) != len(parties) or len(parties) < least:
        raise Contradiction(f"{COORDINATOR}: {len(set(parties))} parties, at least {config.minimum_parties} take part")
    agree(f"{COORDINATOR}: teachers", teachers, len(parties) * config.teachers_per_party)
    counted = entry(summary, COORDINATOR, "parties_counted")
    if not isinstance(counted, list) or not all(type(n) is int and 0 < n <= len(parties) for n in counted):
        raise Contradiction(f"{COORDINATOR}: parties_counted says more parties than took part")
    noise = entry(summary, COORDINATOR, "noise")
    if noise not in ("system", "seeded") or (noise == "seeded" and not config.simulation):
        raise Contradiction(f"{COORDINATOR}: noise is {str(noise)[:20]!r}")
    seconds = entry(summary, COORDINATOR, "seconds")
    if not isinstance(seconds, dict) or not all(
        number(seconds, f"{COORDINATOR}: seconds", key) > -1 for key in seconds
    ):
        raise Damaged(f"{COORDINATOR}: seconds is no table of numbers")
    return f"{_many(len(parties), 'party')}, {_many(teachers, 'teacher')}, {noise} noise"


def _claims(files: Files, recorded: Recorded, truth: _Found) -> str:
    claims = entry(files.object(COORDINATOR), COORDINATOR, "privacy")
    return check_claims(COORDINATOR, claims, truth.guarantees)


def _kit(checks: Checks, place: RunPlace, recorded: Recorded | None) -> None:
    def federation() -> str:
        kit = Files(place.kit or place.run_dir, finished=True)
        try:
            current = validate(kit.object("federation.json"), FederationConfig, "federation.json")
        except ConfigError as error:
            raise Damaged(error.what) from None
        if recorded is not None and current.digest() != recorded.config.digest():
            raise Absent("federation.json is of a newer federation of this kit; this is an earlier run")
        return f"federation {current.digest()[:12]}"

    def folder() -> str:
        if recorded is None:
            raise Absent("the ledger cannot be read")
        agree("its name", place.run_dir.resolve().name, f"run-{recorded.config.digest()[:12]}")
        return "named after the ledger's federation"

    def pool() -> str:
        if recorded is None:
            raise Absent("the ledger cannot be read")
        fixed = recorded.config.public
        if fixed is None:
            raise Absent("the federation has none that is fixed")
        try:
            tree = PoolTree.load((place.kit or place.run_dir) / POOL_FILE)
        except ConfigError as error:
            raise Damaged(error.what) from None
        if tree.terms(fixed.least_distance) != fixed:
            raise Contradiction(f"{POOL_FILE} has not the public rows of the federation's terms")
        if outside := tree.missing(list(recorded.releases)):
            raise Contradiction(f"{len(outside)} queries of the ledger are no public rows")
        return f"{recorded.asked} of {len(tree.leaves)} rows were asked"

    checks.check("kit: federation.json", federation)
    checks.check(f"kit: {POOL_FILE}", pool)
    checks.check("kit: folder of the run", folder)
    if place.others:
        checks.check("kit: earlier runs", _raise(Absent(f"{', '.join(place.others)}: give one to check it")))


def _raise(error: Exception) -> Callable[[], str]:
    def look() -> str:
        raise error

    return look


def _not_finished(files: Files, place: RunPlace) -> str:
    if place.serving:
        raise Unfinished("its coordinator is serving")
    try:
        failure = files.object("failure.json")
    except Unfinished:
        raise Unfinished("no outcome was written: it was stopped, a process or the machine died") from None
    raise Unfinished(f"it failed: {str(failure.get('error'))[:60]}: {str(failure.get('what'))[:200]}")


def _many(count: int, word: str) -> str:
    plural = {"batch": "batches", "query": "queries", "party": "parties"}.get(word, f"{word}s")
    return f"{count} {word if count == 1 else plural}"


def _lines_text(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:5]))
    return f"line {shown}" if len(numbers) == 1 else f"lines {shown}{'...' if len(numbers) > 5 else ''}"
