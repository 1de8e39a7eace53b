"""Empirical audit of teachers and mechanism together: does a changed record move as few votes as is claimed?

A party's own path from file to vote is walked for its rows and for neighbours of them; the game of
`coordinator.distinguish` is played on the worst.
"""

from __future__ import annotations

import csv
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from rich.console import Console
from rich.table import Table

from consilium.accounting.units import Neighbouring, Unit, votes_moved
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.distinguish import GameSetup, MechanismAudit, Pair, audit_mechanism
from consilium.coordinator.distinguish import audit as game_report
from consilium.coordinator.mechanisms.base import Mechanism
from consilium.data.files import BadTable
from consilium.data.mapping import DataRules
from consilium.data.private_rows import read_columns
from consilium.models.devices import using_device
from consilium.node.progress import CHANGES, GAME, stage
from consilium.party.home import Home, Policy
from consilium.party.node import PartyNode
from consilium.party.voting import Lot, load_teachers, query_inputs, votes_of_teachers
from consilium.protocol.errors import ConfigError, DataError
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.messages import PROTOCOL_VERSION, HelloRequest
from consilium.protocol.noise import NoiseSource
from consilium.protocol.queries import query_ids, query_set_hash
from consilium.protocol.refusals import Refused

ChangeKind = Literal["add", "remove", "replace"]

NEWCOMERS = 0.1
"""Share of the units that is kept out of the data set, to be added to it or to take another's place."""


@dataclass(frozen=True)
class Neighbour:
    """Rows of the file, by their position in it, after one change. Private: `order` is not in `repr`."""

    kind: ChangeKind
    order: list[int] = field(repr=False)


def units_of(rows: RowFile, unit: Unit) -> list[list[int]]:
    """The rows of each unit: one by one, or those of each patient, as far as the file tells them apart."""
    if unit is not Unit.PATIENT or rows.patients is None:
        return [[row] for row in range(rows.count)]
    places: dict[str, list[int]] = {}
    for row, patient in enumerate(rows.patients):
        places.setdefault(patient, []).append(row)
    return list(places.values())


def neighbours(
    units: list[list[int]], relation: Neighbouring, count: int, generator: np.random.Generator
) -> tuple[list[int], Iterator[Neighbour]]:
    """The rows of a data set, and `count` neighbours of it: replaced ones, or by turns one less and one more.

    A newcomer stands where the other stood, or anywhere: no teacher may depend on where.

    Raises
    ------
    DataError : there are fewer than two units.
    """
    if len(units) < 2:
        raise DataError(f"the file has {len(units)} records or patients", "An audit needs two at least")
    order = generator.permutation(len(units))
    out = max(1, round(NEWCOMERS * len(units)))
    inside = sorted(order[out:].tolist())
    base = [row for index in inside for row in units[index]]

    def changed() -> Iterator[Neighbour]:
        for number in range(count):
            newcomer = units[int(generator.choice(order[:out]))]
            place = int(generator.integers(len(inside)))
            if relation is Neighbouring.REPLACE:
                kind: ChangeKind = "replace"
            else:
                kind = "remove" if number % 2 == 0 else "add"
            remaining = [units[index] for index in inside]
            remaining[place : place + (kind != "add")] = [] if kind == "remove" else [newcomer]
            yield Neighbour(kind, [row for rows in remaining for row in rows])

    return base, changed()


@dataclass(frozen=True)
class Predictions:
    """`voted` int64 (teachers, queries): the class that each teacher votes for. Private."""

    voted: np.ndarray = field(repr=False)
    classes: int

    @property
    def votes(self) -> np.ndarray:
        """int64 (queries, classes)."""
        return (self.voted[:, :, None] == np.arange(self.classes)).sum(axis=0)


class AuditedParty:
    """A party as it is, but for its policy: the audit serves nobody, and trains on the CPU, where seeds decide.

    `seed` fixes the shards' secret and the estimators' random choices, so that two data sets are compared under the
    same ones; in a deployment neither depends on the data. `folder`: an empty one, for the party's state.
    """

    def __init__(self, home: Home, config: FederationConfig, seed: int, folder: Path) -> None:
        changed = {
            "simulation": True,
            "collection": "plaintext",
            "roster": "",
            "pool": None,
            "record_votes": False,
            "seed": seed,
        }
        self._config = config.model_copy(update=changed)
        policy = Policy(
            allowed_classes=config.rows.classes,
            least_rows_per_teacher=0,
            most_teachers=config.teachers_per_party,
            most_epsilon=math.inf,
            collection="plaintext",
            allow_simulation=True,
        )
        self._home = replace(home, folder=folder, own_policy=policy, terms_file=None)
        terms = self._config.terms().model_dump(by_alias=False)
        self._hello = HelloRequest(
            **terms, protocol_version=PROTOCOL_VERSION, ledger="0" * 64, batch=0, head="0" * 64, program=""
        )

    def predictions(self, data_file: Path, queries: np.ndarray) -> Predictions:
        """Train on `data_file` and vote on canonical queries (n, features).

        Raises
        ------
        ConfigError : the party would refuse to train.
        """
        node, schema = PartyNode(replace(self._home, data_file=data_file)), self._config.rows
        federation = self._config.digest()
        try:
            with using_device("cpu"):
                node.hello(self._hello)
                node.train(self._config.train_request())
                trained = load_teachers(node.home.teachers(federation), federation)
                inputs = query_inputs(schema, queries, query_set_hash(queries))
                votes = votes_of_teachers(trained, inputs, Lot(node.home.name, federation, query_ids(queries)))
        except Refused as error:
            raise ConfigError(f"the party would refuse to train: {error}", _SEE) from None
        return Predictions(votes, len(schema.classes))


_SEE = "See `consilium party dry-run --data-only`"
PLAYABLE = ("gnmax", "lnmax", "confident", "distributed", "distributed_two_phase")
"""Mechanisms that leak most at a tie, which is what the game plays."""


@dataclass(frozen=True)
class AuditEffort:
    """How an audit is made. changes : data sets that are tried. queries, runs, confidence : of the game, at most so
    many queries of those asked, the ones on which most votes moved. seed : of all choices; noise has its own."""

    unit: Unit
    neighbouring: Neighbouring
    changes: int = 200
    queries: int = 100
    runs: int = 20_000
    confidence: float = 0.999
    seed: int = 0

    def __post_init__(self) -> None:
        if self.unit is Unit.PARTY:
            message = "a party's promise does not depend on how its rows are divided"
            raise ConfigError(message, "Give --unit record or --unit patient")
        for name, value in (("changes", self.changes), ("queries", self.queries)):
            if value < 1:
                raise ConfigError(f"{name} is {value}, it must be at least 1", f"Set --{name}.")


@dataclass(frozen=True)
class Change:
    """What one changed unit did. `moved` int64 (queries,): votes that moved; `teachers`: those that vote otherwise.

    before, after : int64 (queries, classes), the party's votes. All of it is private.
    """

    kind: ChangeKind
    teachers: int
    moved: np.ndarray = field(repr=False)
    before: np.ndarray = field(repr=False)
    after: np.ndarray = field(repr=False)


@dataclass(frozen=True)
class TeacherAudit:
    """The outcome. claimed : votes that a unit moves by `votes_moved`. game : None where no vote moved, or where there
    is no game for the mechanism."""

    plan: AuditEffort
    teachers: int
    claimed: int
    queries: int
    units: int
    changes: tuple[Change, ...] = field(repr=False)
    game: MechanismAudit | None
    seconds: float

    @property
    def most_moved(self) -> int:
        """Most votes that one change moved on one query."""
        return max(int(change.moved.max(initial=0)) for change in self.changes)

    @property
    def most_teachers(self) -> int:
        """Most teachers that one change made to vote otherwise on some query."""
        return max(change.teachers for change in self.changes)

    @property
    def beyond(self) -> int:
        """Changes that moved more votes than are claimed."""
        return sum(int(change.moved.max(initial=0)) > self.claimed for change in self.changes)

    @property
    def violated(self) -> bool:
        """Whether more votes moved than are claimed, or the game refutes the claimed epsilon."""
        return self.beyond > 0 or (self.game is not None and self.game.violated)


def audit_teachers(
    home: Home,
    config: FederationConfig,
    queries: np.ndarray,
    plan: AuditEffort,
    noise: NoiseSource,
    progress: Progress = no_progress,
) -> TeacherAudit:
    """Audit a party with these rows in this federation. `queries` float32 (n, features), as a student would ask them.

    The claim is that of the mechanism's own event for as many queries as are played.

    Raises
    ------
    DataError : the party's file cannot be read. ConfigError : it does not say who the patients are, the party would
        refuse to train, or training the same rows twice gives other votes, so that a change would prove nothing.
    """
    start = time.perf_counter()
    privacy = config.privacy.model_copy(update={"unit": plan.unit, "neighbouring": plan.neighbouring})
    config = config.model_copy(update={"privacy": privacy})
    if plan.unit is Unit.PATIENT and not home.rules.patient.known:
        raise ConfigError("party.toml does not say which rows are of one patient", "Set [patient] column")
    rows = open_rows(home.data_file, home.rules)
    units = units_of(rows, plan.unit)
    base, changed = neighbours(units, plan.neighbouring, plan.changes, np.random.default_rng(plan.seed))
    with tempfile.TemporaryDirectory(prefix=".audit-", dir=home.folder) as name:  # private rows stay in the home
        folder = Path(name)
        party = AuditedParty(home, config, plan.seed, folder)

        def predictions(label: str, order: list[int]) -> Predictions:
            path = folder / f"{label}{home.data_file.suffix.lower()}"
            rows.write(path, order)
            try:
                return party.predictions(path, queries)
            finally:
                path.unlink()

        before = predictions("base", base)
        if not (predictions("again", base).voted == before.voted).all():
            message = "training twice on the same rows gives teachers that vote otherwise"
            raise ConfigError(message, "Give your own [teacher] a fixed random_state")
        changes = []
        for number, changed_rows in enumerate(changed):
            progress(CHANGES, number, plan.changes)
            changes.append(_change(changed_rows.kind, before, predictions(str(number), changed_rows.order)))
        progress(CHANGES, plan.changes, plan.changes)
    worst = max(changes, key=lambda change: _worth(change, plan.queries))
    played = None
    if worst.moved.any() and config.mechanism.name in PLAYABLE:
        with stage(progress, GAME):
            played = _game(worst, config, plan, noise)
    return TeacherAudit(
        plan=plan,
        teachers=config.teachers_per_party,
        claimed=votes_moved(plan.unit, config.teachers_per_party, plan.neighbouring),
        queries=len(queries),
        units=len(units),
        changes=tuple(changes),
        game=played,
        seconds=time.perf_counter() - start,
    )


def _change(kind: ChangeKind, before: Predictions, after: Predictions) -> Change:
    moved = np.abs(after.votes - before.votes).sum(axis=1) // 2
    return Change(kind, int((after.voted != before.voted).any(axis=1).sum()), moved, before.votes, after.votes)


def _worth(change: Change, queries: int) -> int:
    """What Gaussian noise would have to hide: the squared votes of the queries that moved most."""
    return int((np.sort(change.moved)[::-1][:queries] ** 2).sum())


def _game(change: Change, config: FederationConfig, plan: AuditEffort, noise: NoiseSource) -> MechanismAudit:
    mechanism = config.mechanism
    pair = observed_pair(change, mechanism, plan.queries)
    setup = GameSetup(
        queries=len(pair.kinds),
        runs=plan.runs,
        delta=config.privacy.delta,
        confidence=plan.confidence,
        unit=plan.unit,
        neighbouring=plan.neighbouring,
        teachers_per_party=config.teachers_per_party,
        classes=len(config.rows.classes),
        one_call=True,
    )
    return audit_mechanism(mechanism, noise, setup, pairs=[pair])


def observed_pair(change: Change, mechanism: Mechanism, queries: int) -> Pair:
    """The votes that a change moved, most first, among those of other parties, on at most so many queries.

    The others are tied, halfway between before and after, on the class that lost most and the one that gained most; far
    above the rest and any threshold. What they are is up to the adversary: the claim holds whatever others vote.
    """
    chosen = np.argsort(-change.moved, kind="stable")[: min(queries, int((change.moved > 0).sum()))]
    before, after = change.before[chosen], change.after[chosen]
    difference = after - before
    loses, gains = difference.argmin(axis=1), difference.argmax(axis=1)
    indices = np.arange(len(chosen))
    both = before + after
    lead = (both[indices, gains] - both[indices, loses]) // 2  # of the gaining class, halfway between
    others = np.zeros_like(before)
    level = _level(mechanism)
    others[indices, loses] = level + (lead + 1) // 2
    others[indices, gains] = level - (lead + 1) // 2  # the same number of others on every query
    _, kinds = np.unique(loses * before.shape[1] + gains, return_inverse=True)
    return Pair("as observed", before + others, after + others, kinds, observed=True)


def _level(mechanism: Mechanism) -> int:
    """Votes of the others for each of two classes, such that no third class and no threshold matters."""
    scales = [float(getattr(mechanism, name, 0.0)) for name in ("sigma", "sigma1", "sigma2")]
    gamma = float(getattr(mechanism, "gamma", 0.0))
    spread = max(*scales, 2 / gamma if gamma else 0.0)
    return math.ceil(float(getattr(mechanism, "threshold", 0)) + 12 * spread) + 1000


LOCAL_ONLY = "LOCAL ONLY: what follows is computed from private rows and covered by no guarantee. Send it to nobody."


def verdict(audit: TeacherAudit) -> str:
    """One sentence that says what was and what was not shown."""
    unit = f"{audit.plan.unit}"
    if audit.beyond:
        return (
            f"VIOLATED: one changed {unit} moved {audit.most_moved} votes on a query, at most {audit.claimed} are "
            f"claimed; {audit.beyond} of {len(audit.changes)} changes moved more."
        )
    if audit.violated and audit.game is not None:
        return game_report.verdict(audit.game)
    return (
        f"Holds up: no changed {unit} of {len(audit.changes)} moved more than {audit.most_moved} of the "
        f"{audit.claimed} votes claimed. That is no proof that none can."
    )


def print_audit(audit: TeacherAudit, console: Console, noise: str) -> None:
    """How many votes moved, the game on the worst change, and the verdict."""
    plan = audit.plan
    console.print(LOCAL_ONLY)
    console.print(
        f"{audit.teachers} teachers, {audit.units} {plan.unit}s, {audit.queries} queries;"
        f" {len(audit.changes)} changes by"
        f" {plan.neighbouring}, {audit.seconds:.1f} s. Claim: {audit.claimed} of {audit.teachers} votes a query."
    )
    table = Table("votes moved at most", "changes", "teachers that vote otherwise, at most", box=None)
    most = np.array([int(change.moved.max(initial=0)) for change in audit.changes])
    for value in np.unique(most):
        these = [change.teachers for change, moved in zip(audit.changes, most, strict=True) if moved == value]
        table.add_row(str(value), str(len(these)), str(max(these)))
    console.print(table)
    if audit.game is None:
        console.print("No game was played: no vote moved, or there is none for this mechanism.")
    else:
        game_report.print_audit(audit.game, console, noise)
    console.print(verdict(audit))


def audit_to_json(audit: TeacherAudit, noise: str) -> dict[str, Any]:
    """The same as plain values; `game` is null where none was played."""
    plan = audit.plan
    return {
        "violated": audit.violated,
        "verdict": verdict(audit),
        "unit": plan.unit.value,
        "neighbouring": plan.neighbouring.value,
        "teachers_per_party": audit.teachers,
        "units": audit.units,
        "queries": audit.queries,
        "changes": len(audit.changes),
        "votes_moved_claimed": audit.claimed,
        "votes_moved_most": audit.most_moved,
        "teachers_changed_most": audit.most_teachers,
        "changes_beyond_the_claim": audit.beyond,
        "game": None if audit.game is None else game_report.audit_to_json(audit.game, noise),
        "seconds": audit.seconds,
    }


class RowFile(Protocol):
    """`count` rows; `patients` (count,) says whose they are, or is None where the file does not."""

    count: int
    patients: list[str] | None

    def write(self, path: Path, order: Sequence[int]) -> None:
        """A new file of the same form with these rows, which may repeat."""
        ...


class _Npz:
    def __init__(self, path: Path, rules: DataRules) -> None:
        self.patients = _patients(path, rules)
        with np.load(path, allow_pickle=False) as file:
            self._arrays = {name: file[name] for name in file.files}
        self.count = len(self._arrays["y"])
        self._of_rows = {"x", "y", rules.patient.column}

    def write(self, path: Path, order: Sequence[int]) -> None:
        rows = np.array(order, dtype=np.int64)
        np.savez(path, **{name: v[rows] if name in self._of_rows else v for name, v in self._arrays.items()})


class _Csv:
    def __init__(self, path: Path, rules: DataRules) -> None:
        self._rule = rules.csv
        self.patients = _patients(path, rules)
        with open(path, encoding=rules.csv.encoding, newline="") as file:
            lines = [line for line in csv.reader(file, delimiter=rules.csv.separator, strict=True) if line]
        self._header, self._rows = lines[0], lines[1:]
        self.count = len(self._rows)

    def write(self, path: Path, order: Sequence[int]) -> None:
        with open(path, "w", encoding=self._rule.encoding, newline="") as file:
            writer = csv.writer(file, delimiter=self._rule.separator)
            writer.writerows([self._header, *(self._rows[row] for row in order)])


class _Parquet:
    def __init__(self, path: Path, rules: DataRules) -> None:
        import polars as pl

        self.patients = _patients(path, rules)
        self._frame = pl.read_parquet(path)
        self.count = self._frame.height

    def write(self, path: Path, order: Sequence[int]) -> None:
        self._frame[list(order)].write_parquet(path)


def _patients(path: Path, rules: DataRules) -> list[str] | None:
    return read_columns([path], [], None, rules.csv, rules.patient.column).patients


_READERS = {".npz": _Npz, ".csv": _Csv, ".parquet": _Parquet}


def open_rows(path: Path, rules: DataRules) -> RowFile:
    """The file's rows.

    Raises
    ------
    DataError : it cannot be read; `consilium party dry-run --data-only` says more.
    """
    try:
        rows = _READERS[path.suffix.lower()](path, rules)
    except (BadTable, OSError, KeyError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {type(error).__name__}", _SEE) from None
    if rules.patient.column is not None and rows.patients is None:
        raise DataError(f"{path} has no column {rules.patient.column!r}", "Correct [patient] in party.toml")
    return rows


MADE_UP = 1000
"""Most queries, where the student's rows are many or none are named."""


def subject_of_scenario(
    name: str, overrides: list[str], party: str | None, seed: int, folder: Path
) -> tuple[Home, FederationConfig, np.ndarray]:
    """Home of one party of a scenario (None: the one with most rows), its federation and the student's queries.

    Raises
    ------
    ConfigError, DataError, NotEnoughParties : the scenario cannot be laid out, or has no such party.
    """
    from dataclasses import replace

    from consilium.party.home import open_home
    from consilium.protocol.queries import canonical_queries
    from consilium.simulations.divide import divide
    from consilium.simulations.scenario import load_scenario
    from consilium.simulations.workspace import Workspace, lay_out

    scenario = load_scenario(name, overrides)
    case = divide(scenario, seed)
    config, dataset, partition = case.config, case.dataset, case.partition
    names = list(partition.parties)
    if party is None:
        party = max(names, key=lambda party_name: len(partition.parties[party_name]))
    if party not in names:
        raise ConfigError(f"the scenario has no party {party!r}", f"They are called like {names[0]!r}")
    alone = type(partition)({party: partition.parties[party]}, partition.queries, partition.test)
    space = Workspace(folder)
    plain = scenario.model_copy(
        update={
            "federation": scenario.federation.model_copy(update={"collection": "plaintext"}),
            "simulation": scenario.simulation.model_copy(update={"teachers": ()}),
        }
    )
    lay_out(space, replace(case, scenario=plain, partition=alone))
    queries = dataset.x[partition.queries[: min(config.query_budget.queries, MADE_UP)]]
    return open_home(space.home(0)), config, canonical_queries(queries, len(dataset.features))
