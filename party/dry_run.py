"""A party's rows held against its federation, and a run tried here: nothing is sent, spent or kept."""

from __future__ import annotations

import secrets
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from consilium.data.mapping import Problem
from consilium.data.private_rows import DataReport, Rows
from consilium.models.table import check_teacher
from consilium.party.home import PartyFile, PartyHome
from consilium.party.policy import check_shards, check_terms
from consilium.party.promise import check_promised_unit
from consilium.party.store import SECRET_BYTES, Store
from consilium.party.teach import make, not_fitted, simulated_secret, split, states_of
from consilium.party.voting import Lot, TeacherSet, check_reference, votes_of_teachers
from consilium.protocol.choices import packed
from consilium.protocol.errors import ConfigError, ConsiliumError, DataError, PathError
from consilium.protocol.files import typed
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.protocol.refusals import Refused
from consilium.protocol.schema import Schema

NOWHERE = "0" * 64
MADE_UP = 1000
LOCAL_ONLY = "LOCAL ONLY: what follows is computed from private rows and covered by no guarantee. Send it to nobody."


@dataclass(frozen=True)
class PartyCheck:
    """What was found of a party's rows, for its own eyes. rows: None where they could not be trained on. settings: its
    party.toml. refusals: by its own policy. unused: columns in it that are no feature of the federation."""

    rows: Rows | None = field(repr=False)
    settings: PartyFile
    report: DataReport
    refusals: tuple[str, ...]
    unused: tuple[str, ...]

    @property
    def faults(self) -> tuple[Problem, ...]:
        """All that is wrong with the data; what training would take, and is doubtful, counts here."""
        return self.report.problems or self.report.doubts

    @property
    def problems(self) -> tuple[str, ...]:
        """All that is wrong, in words."""
        return (*map(str, self.faults), *self.refusals)

    @property
    def lines(self) -> list[str]:
        """For people."""
        report, settings = self.report, self.settings
        used = "" if report.problems else f", {report.used} used, {report.rows - report.used} dropped"
        lines = [LOCAL_ONLY, f"data       {settings.data}: {report.rows} rows{used}"]
        if report.filled:
            keeps_missing = settings.teacher is not None and settings.teacher.keeps_missing
            heading = "missing    " if keeps_missing else "mean for   "
            lines.append(heading + ", ".join(f"{name} {count}" for name, count in report.filled.items()))
        if report.classes:
            lines.append("classes    " + ", ".join(f"{name} {count}" for name, count in report.classes.items()))
        if self.unused:
            lines.append(f"not asked  {', '.join(self.unused)}: in [columns], no feature of this federation")
        lines += [f"DOUBT      {line}" for line in report.remarks]
        return [*lines, *(f"PROBLEM    {line}" for line in self.problems)]

    @property
    def table(self) -> dict[str, Any]:
        """The same for a program of the party's own."""
        report = self.report
        return {
            "local_only": LOCAL_ONLY,
            "data": {
                "file": self.settings.data,
                "rows": report.rows,
                "used": None if report.problems else report.used,
                "filled": dict(report.filled),
                "classes": dict(report.classes),
            },
            "not_asked": list(self.unused),
            "doubts": [str(line) for line in report.remarks],
            "problems": list(self.problems),
        }

    def usable(self) -> Rows:
        """The rows. Raises DataError or ConfigError if something was found; the lines are shown by the caller."""
        if self.rows is None or self.faults:
            count = len(self.faults)
            raise DataError(
                f"the data do not fit: {count} {'problem' if count == 1 else 'problems'}", "Correct them first"
            )
        if self.refusals:
            raise ConfigError("; ".join(self.refusals))
        return self.rows


@dataclass(frozen=True)
class DryRun:
    """What `consilium party dry-run` shows of a run. choices: for each query what would be sent in plaintext, as in
    `VoteReply`; never printed. not_fitted: teachers that are constant, since the estimator could not be fitted."""

    choices: np.ndarray = field(repr=False)
    not_fitted: int


def check(home: PartyHome) -> PartyCheck:
    """The rows, and what is wrong with policy or data; as if its people allowed what they have said nothing of.

    Raises
    ------
    PathError : there is no data file. ConfigError : the party's secret is damaged.
    """
    config, policy, settings, refusals = home.federation.config, home.presumed, home.file, list[str]()
    asked: dict[str, Callable[[], object]] = {
        "the policy would refuse this federation": lambda: check_terms(policy, home.terms),
        "the teacher would be refused": lambda: check_teacher(home.teacher or config.teacher, config.rows),
        "the voting rule would be refused": lambda: check_reference(
            config.voting_rule, config.rows, config.reference_rows()
        ),
        "training would be refused": lambda: check_promised_unit(home.terms, settings.rules),
    }
    for what, checked in asked.items():
        try:
            checked()
        except Refused as error:
            refusals.append(f"{what}: {error}")
    if not home.data_file.exists():
        raise PathError(f"{home.data_file} is not there", "Correct `data` in party.toml, or bring the file")
    with contained("reading"):
        rows, report = home.rows().report(config.rows)
    if rows is not None:
        secret, lasting = _secret(home)
        smallest = min(map(len, split(rows.identities, config.teachers_per_party, secret)))
        try:
            check_shards(policy, smallest)
        except Refused as error:
            shard = f"the smallest of {config.teachers_per_party} shards has {smallest} rows"
            least = f"the policy's least_rows_per_teacher is {error.refusal.limit}"
            by_lot = "" if lasting else " (by a secret made up for this check; the first run makes the party's own)"
            refusals.append(f"{shard}{by_lot}, {least}: bring more rows, or agree on fewer teachers")
    known = {*config.rows.features, *(column.column for column in config.rows.columns)}
    unused = tuple(sorted(set(settings.columns) - known))
    return PartyCheck(rows, settings, report, tuple(refusals), unused)


def dry_run(rows: Rows, home: PartyHome) -> DryRun:
    """Train the teachers and vote on made-up queries; nothing is kept. Raises ConsiliumError: training failed."""
    config = home.federation.config
    schema, count = config.rows, config.teachers_per_party
    queries = canonical_queries(
        made_up_queries(schema, min(config.query_budget.queries, MADE_UP)), len(schema.features)
    )
    with contained("training"), closing(Store.in_memory()) as store:
        parts = split(rows.identities, count, _secret(home)[0])
        spec, seeds = home.teacher or config.teacher, states_of(np.random.SeedSequence(), count)
        made = make(rows, schema, spec, config.voting_rule, config.reference_rows(), parts, seeds)
        store.keep_teachers(NOWHERE, TeacherSet(schema, NOWHERE, "", *made))
        kept = Store.in_memory(store.content()).teachers(NOWHERE)  # as a later process finds them
        votes = votes_of_teachers(kept, schema.inputs(queries), Lot(home.name, NOWHERE, query_ids(queries)))
    return DryRun(packed(votes, len(schema.classes)), not_fitted(made[0]))


def made_up_queries(schema: Schema, count: int) -> np.ndarray:
    """Rows (count, features) from public statistics alone: normal, within the schema's ranges, the same each time."""
    generator = np.random.default_rng(0)
    rows = generator.normal(schema.center, schema.scale, size=(count, len(schema.features)))
    for allowed in schema.ranges:
        index = schema.features.index(allowed.feature)
        column = np.rint(rows[:, index]) if allowed.whole else rows[:, index]
        rows[:, index] = np.clip(column, allowed.low, allowed.high)
    return rows


def _secret(home: PartyHome) -> tuple[bytes, bool]:
    """What decides over the shards, and whether a run would take the same. Leaves nothing behind: a party that has no
    secret yet gets one for this run only."""
    config = home.federation.config
    if config.seed >= 0:
        return simulated_secret(config.seed, home.name), True
    with closing(home.remembered()) as store:
        secret = store.secret()
    if secret is not None:
        return secret, True
    return secrets.token_bytes(SECRET_BYTES), config.teachers_per_party == 1


@contextmanager
def contained(stage: str) -> Iterator[None]:
    """Keep the text of an unexpected error from the screen: it may quote a row."""
    try:
        yield
    except ConsiliumError:
        raise
    except Refused as error:
        raise ConfigError(f"{stage} would be refused: {error}", "Change [teacher] in party.toml") from None
    except OSError as error:
        raise typed(error) or error from None
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        message = f"{stage} failed: {type(error).__name__} at {Path(where.filename).name}:{where.lineno}"
        raise ConsiliumError(message, "Report this line") from None
