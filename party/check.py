"""A party's rows and policy held against its federation: nothing is sent, spent or kept."""

from __future__ import annotations

import secrets
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from consilium.data.mapping import Problem
from consilium.data.private_rows import DataReport, Rows
from consilium.models.table import check_teacher
from consilium.party.home import PartyFile, PartyHome
from consilium.party.policy import check_promised_unit, check_shards, check_terms
from consilium.party.store import SECRET_BYTES
from consilium.party.teach import simulated_secret, split
from consilium.party.voting import check_reference
from consilium.protocol.errors import ConfigError, ConsiliumError, DataError, PathError
from consilium.protocol.files import typed
from consilium.protocol.refusals import Refused

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
        return (*map(str, self.faults), *self.refusals)

    @property
    def lines(self) -> list[str]:
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


def check(home: PartyHome) -> PartyCheck:
    """The rows, and what is wrong with policy or data; as if its people allowed what they have said nothing of. Raises
    PathError: there is no data file. ConfigError: the party's secret is damaged."""
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
    try:
        rows, report = home.rows().report(config.rows)
    except ConsiliumError:
        raise
    except OSError as error:
        raise typed(error) or error from None
    except Exception as error:  # its text may quote a row
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        raise ConsiliumError(f"reading failed: {type(error).__name__} at {place}", "Report this line") from None
    if rows is not None:
        seeded = config.seed >= 0
        with closing(home.remembered()) as store:
            secret = simulated_secret(config.seed, home.name) if seeded else store.secret()
        lasting = secret is not None or config.teachers_per_party == 1
        secret = secret or secrets.token_bytes(SECRET_BYTES)  # leaves nothing behind
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
