"""A party's rows and policy held against its federation: nothing is sent, spent or kept."""

from __future__ import annotations

import secrets
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from consilium.models.table import check_teacher
from consilium.node.kinds import NodeOutcome
from consilium.party.home import PartyHome
from consilium.party.policy import check_promised_unit, check_shards, check_terms
from consilium.party.store import SECRET_BYTES
from consilium.party.voting import check_reference, simulated_secret, split
from consilium.protocol.errors import ConfigError, ConsiliumError, DataError, PathError
from consilium.protocol.files import typed
from consilium.protocol.refusals import Refused

LOCAL_ONLY = "LOCAL ONLY: what follows is computed from private rows and covered by no guarantee. Send it to nobody."


def check(home: PartyHome) -> NodeOutcome:
    """What is found of the rows, for the party's own eyes; its error is what is wrong with policy or data, as if its
    people allowed what they have said nothing of. Raises PathError: there is no data file."""
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
    unused = sorted(set(settings.columns) - known)
    faults = report.problems or report.doubts  # what training would take, and is doubtful, counts here
    problems = [*map(str, faults), *refusals]
    used = "" if report.problems else f", {report.used} used, {report.rows - report.used} dropped"
    lines = [LOCAL_ONLY, f"data       {settings.data}: {report.rows} rows{used}"]
    if report.filled:
        keeps_missing = settings.teacher is not None and settings.teacher.keeps_missing
        heading = "missing    " if keeps_missing else "mean for   "
        lines.append(heading + ", ".join(f"{name} {count}" for name, count in report.filled.items()))
    if report.classes:
        lines.append("classes    " + ", ".join(f"{name} {count}" for name, count in report.classes.items()))
    if unused:
        lines.append(f"not asked  {', '.join(unused)}: in [columns], no feature of this federation")
    lines += [f"DOUBT      {line}" for line in report.remarks]
    lines += [f"PROBLEM    {line}" for line in problems]
    values = {
        "local_only": LOCAL_ONLY,
        "data": {
            "file": settings.data,
            "rows": report.rows,
            "used": None if report.problems else report.used,
            "filled": dict(report.filled),
            "classes": dict(report.classes),
        },
        "not_asked": unused,
        "doubts": [str(line) for line in report.remarks],
        "problems": problems,
    }
    wrong: ConsiliumError | None = ConfigError("; ".join(refusals)) if refusals else None
    if rows is None or faults:
        count = f"{len(faults)} {'problem' if len(faults) == 1 else 'problems'}"
        wrong = DataError(f"the data do not fit: {count}", "Correct them first")
    return NodeOutcome(values, lines, wrong)
