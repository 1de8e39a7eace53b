"""A party on a machine of its own: what is particular to it among nodes, see `node.members`; its rows and policy held
against its federation, by which nothing is sent, spent or kept."""

from __future__ import annotations

import re
import secrets
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import tomli_w

from consilium.node.checks import Check
from consilium.node.folder import NodeFolder
from consilium.node.home import disclosed, refused_is_wrong, towards_whom
from consilium.node.kinds import NodeOutcome
from consilium.node.members import MemberKind
from consilium.party.home import SETTINGS, STORE, PartyHome, open_home
from consilium.party.policy import check_promised_unit, check_shards, check_terms, promise_of
from consilium.party.store import SECRET_BYTES, Store
from consilium.party.voting import check_reference, simulated_secret, split
from consilium.protocol.databases import LOOK_SECONDS
from consilium.protocol.errors import ConfigError, ConsiliumError, DataError, PathError
from consilium.protocol.files import replace_text, typed
from consilium.protocol.refusals import Refused
from consilium.report.disclosure import in_plain_words

NEW_SETTINGS = """# Where this party's rows are, and how they are read. See docs/deploy.md for what else can stand here:
# [columns] where a name differs from the federation's, [label], [missing], [csv], [patient], [teacher].
"""


class Party(MemberKind):
    """See `MemberKind`."""

    name = "party"
    app = "consilium.party.client_app"
    memory = STORE

    def open_home(self, folder: NodeFolder) -> PartyHome:
        return open_home(folder)

    def joined(self, folder: NodeFolder) -> NodeOutcome:
        """What is wrong with the rows, all at once; mended in party.toml, and the same folder joined again."""
        try:
            home = open_home(folder)
            found = check(home)
        except ConsiliumError as error:
            return NodeOutcome({}, (), DataError(error.what, error.action))
        if found.error is not None:
            again = DataError(found.error.what, f"Correct that (columns: {folder / SETTINGS}), and join again")
            return NodeOutcome(found.values, found.lines, again)
        fit = f"The data fit federation {home.federation.config.name!r}. Next: consilium node start {folder.path}"
        return NodeOutcome(found.values, [*found.lines, fit])

    def further_checks(self, folder: NodeFolder, running: bool) -> list[Check]:
        def data() -> str:
            found = check(home := open_home(folder))
            if found.error is not None:
                raise DataError(found.error.what, f"Run: consilium party rows {folder.path}")
            return (
                f"{home.data_file.name}: {found.values['data']['used']} rows fit the federation's columns and classes"
            )

        return [("data", data), *super().further_checks(folder, running)]

    def allowed(self, home: PartyHome) -> str:
        roster = home.federation.sum_roster()
        if roster is not None and home.name not in roster.places:
            raise ConfigError(
                "this federation's roster does not list this party, which joined later",
                "Join the folder of the next one, when the operator sends it",
            )
        refused_is_wrong(lambda: home.settings().check_terms(home.terms), "its own policy")
        terms, policy = home.terms, home.policy
        with closing(home.store(LOOK_SECONDS)) as store:  # which keeps it, for the messages that come
            epsilon = _epsilon(home, store)
        closes = promise_of(terms).closing is not None
        words = in_plain_words(epsilon, policy.delta, policy.unit.value, policy.neighbouring.value, closes)
        kind, whom = disclosed(terms).release, towards_whom(terms, policy, epsilon)
        return f"Released for each query is at most {kind.leaves}. {kind.stays} {words} Towards whom: {whom}."

    def given(self, home: PartyHome) -> tuple[int, float]:
        with closing(home.remembered()) as store:
            return store.answered(), _epsilon(home, store)


PARTY = Party()


def name_data(folder: NodeFolder, data: Path) -> None:
    """Write into party.toml where the rows are; what else stands there stays. Raises PathError: no such file."""
    if not data.exists():
        raise PathError(f"{data} is not there", "Correct --data")
    place, path = data.resolve(), folder / SETTINGS
    inside = place.is_relative_to(folder.path)  # then it stays right where the folder moves
    line = tomli_w.dumps({"data": str(place.relative_to(folder.path) if inside else place)})
    text = path.read_text(encoding="utf-8") if path.exists() else NEW_SETTINGS
    top = re.split(r"(?m)^(?=\s*\[)", text, maxsplit=1)[0]  # a key below a table's head would be that table's
    others = re.sub(r"(?m)^\s*data\s*=.*\n?", "", top).rstrip()
    replace_text(path, f"{others}\n{line}{text[len(top) :]}")


def _epsilon(home: PartyHome, store: Store) -> float:
    """Of this federation alone, by this party's own unit. Raises ConfigError: its policy does not allow it."""
    return refused_is_wrong(lambda: store.epsilon(home.terms, home.policy), "its own policy")


LOCAL_ONLY = "LOCAL ONLY: what follows is computed from private rows and covered by no guarantee. Send it to nobody."


def check(home: PartyHome) -> NodeOutcome:
    """What is found of the rows, for the party's own eyes; its error is what is wrong with policy or data, as if its
    people allowed what they have said nothing of. Raises PathError: there is no data file."""
    from consilium.models.table import check_teacher  # half a second, which no start and no status needs

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
            refusals.append(f"{shard}{by_lot}, {least}: bring more rows, agree on fewer teachers, or lower it")
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
