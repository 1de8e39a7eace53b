"""What a party reads of the federation's file before it takes part: the rest is the coordinator's."""

from __future__ import annotations

import secrets
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from pydantic import ConfigDict, Field, model_validator

from consilium.accounting.units import Unit
from consilium.data.mapping import Problem
from consilium.data.private_rows import DataReport, Rows, there
from consilium.models.keys import TeacherSpec
from consilium.models.table import check_teacher
from consilium.party.home import Home, Policy, check_shards, check_terms
from consilium.party.promise import check_unit
from consilium.party.store import SECRET_BYTES, Store
from consilium.party.teach import OwnCodeTrial, make, simulated_secret, split, states_of, try_again
from consilium.party.voting import Lot, TeacherSet, check_reference, votes_of_teachers
from consilium.protocol.choices import packed
from consilium.protocol.config_files import read_table, validate
from consilium.protocol.errors import ConfigError, ConsiliumError, DataError, PathError
from consilium.protocol.files import typed
from consilium.protocol.messages import MOST_TEACHERS, CollectionMode, Terms, VoteReply
from consilium.protocol.models import Frozen
from consilium.protocol.pool import PoolTerms
from consilium.protocol.queries import canonical_queries, query_ids, query_set_hash, reference_of
from consilium.protocol.refusals import Refused
from consilium.protocol.schema import Schema
from consilium.protocol.voting_rule import TopRule, VotingRuleSpec


class _Part(Frozen):
    """Other keys than these are the coordinator's, and left alone."""

    model_config = ConfigDict(extra="ignore")


class _QueryBudget(_Part):
    queries: int = Field(ge=1)


class _Privacy(_Part):
    unit: Unit


class _Mechanism(_Part):
    name: str = ""


class FederationFile(_Part):
    """The part of `federation.json` that says what is trained on what."""

    name: str
    rows: Schema
    query_budget: _QueryBudget
    teachers_per_party: int = Field(default=1, ge=1, le=MOST_TEACHERS)
    teacher: TeacherSpec
    voting_rule: VotingRuleSpec = TopRule()
    reference: str = ""
    privacy: _Privacy | None = None
    collection: CollectionMode
    public: PoolTerms | None = None
    mechanism: _Mechanism = _Mechanism()
    noise_shares: int = 0
    simulation: bool = False
    seed: int = -1

    @model_validator(mode="after")
    def _reference_is_rows(self) -> FederationFile:
        self.reference_rows()
        return self

    def reference_rows(self) -> np.ndarray:
        """By which teachers vote, float32 (rows, features); none where the voting rule needs none."""
        return reference_of(self.reference, len(self.rows.features))


def load_federation(path: Path) -> FederationFile:
    """Read it. Raises ConfigError."""
    return validate(read_table(path), FederationFile, str(path))


NOWHERE = "0" * 64
MADE_UP = 1000


@dataclass(frozen=True)
class PartyCheck:
    """What `consilium party dry-run` finds: `refusals` by the party's own policy, and the report on its data."""

    report: DataReport
    refusals: tuple[str, ...]
    unused: tuple[str, ...]

    @property
    def faults(self) -> tuple[Problem, ...]:
        """All that is wrong with the data; what training would take, and is doubtful, counts here."""
        return self.report.problems or self.report.doubts


@dataclass(frozen=True)
class DryRun:
    """What `consilium party dry-run` shows. `reply` is what would be sent in plaintext; its votes are not printed.

    constant: every query got the same votes. own_code: how code that others wrote behaved; None where there is none.
    """

    reply: VoteReply = field(repr=False)
    train_seconds: float
    vote_seconds: float
    constant: bool = field(repr=False)
    own_code: OwnCodeTrial | None = field(default=None, repr=False)


def check(home: Home, federation: FederationFile) -> tuple[Rows | None, PartyCheck]:
    """The rows, if they could be trained on, and what is wrong with policy or data; with the default of what nobody has
    accepted yet.

    Raises
    ------
    PathError : there is no data file. ConfigError : the party's secret is damaged.
    """
    settings, refusals = home.file, []
    policy = settings.policy or Policy(allowed_classes=federation.rows.classes)
    unit = federation.privacy.unit if federation.privacy else Unit.PARTY
    asked: dict[str, Callable[[], object]] = {
        "the policy would refuse this federation": lambda: settings.policy and check_terms(policy, _terms(federation)),
        "the teacher would be refused": lambda: check_teacher(home.teacher or federation.teacher, federation.rows),
        "the voting rule would be refused": lambda: check_reference(
            federation.voting_rule, federation.rows, federation.reference_rows()
        ),
        "training would be refused": lambda: check_unit(unit, settings.rules),
    }
    for what, checked in asked.items():
        try:
            checked()
        except Refused as error:
            refusals.append(f"{what}: {error}")
    if not there(home.data_file):
        raise PathError(f"{home.data_file} is not there", "Correct `data` in party.toml, or bring the file")
    with contained("reading"):
        rows, report = home.rows().report(federation.rows)
    if rows is not None:
        secret, lasting = _secret(home, federation)
        smallest = min(map(len, split(rows.identities, federation.teachers_per_party, secret)))
        try:
            check_shards(policy, smallest)
        except Refused as error:
            shard = f"the smallest of {federation.teachers_per_party} shards has {smallest} rows"
            least = f"the policy's least_rows_per_teacher is {error.refusal.limit}"
            by_lot = "" if lasting else " (by a secret made up for this check; the first run makes the party's own)"
            refusals.append(f"{shard}{by_lot}, {least}: bring more rows, or agree on fewer teachers")
    known = {*federation.rows.features, *(column.column for column in federation.rows.columns)}
    unused = tuple(sorted(set(settings.columns) - known))
    return rows, PartyCheck(report, tuple(refusals), unused)


def dry_run(rows: Rows, home: Home, federation: FederationFile) -> DryRun:
    """Train the teachers and vote on made-up queries; nothing is kept. Raises ConsiliumError: training failed."""
    schema, count = federation.rows, federation.teachers_per_party
    queries = canonical_queries(
        made_up_queries(schema, min(federation.query_budget.queries, MADE_UP)), len(schema.features)
    )
    with contained("training"), closing(Store.in_memory()) as store:
        start = time.perf_counter()
        parts = split(rows.identities, count, _secret(home, federation)[0])
        spec, seeds = home.teacher or federation.teacher, states_of(np.random.SeedSequence(), count)
        made = make(rows, schema, spec, federation.voting_rule, federation.reference_rows(), parts, seeds)
        store.keep_teachers(NOWHERE, TeacherSet(schema, NOWHERE, "", *made))
        trained = time.perf_counter()
        kept = Store.in_memory(store.content()).teachers(NOWHERE)  # as a later process finds them
        inputs = schema.inputs(queries)
        votes = votes_of_teachers(kept, inputs, Lot(home.name, NOWHERE, query_ids(queries)))
        choices = packed(votes, len(schema.classes))
        voted = time.perf_counter()
        own_code = try_again(rows.represented(schema, parts), spec, parts, seeds, made[0], inputs)
    reply = VoteReply(party=home.name, query_set=query_set_hash(queries), choices=choices)
    return DryRun(reply, trained - start, voted - trained, bool((choices == choices[0]).all()), own_code)


def usable(rows: Rows | None, findings: PartyCheck) -> Rows:
    """The rows. Raise DataError or ConfigError if something was found; the lines themselves are shown by the caller."""
    if rows is None or findings.faults:
        count = len(findings.faults)
        raise DataError(f"the data do not fit: {count} {'problem' if count == 1 else 'problems'}", "Correct them first")
    if findings.refusals:
        raise ConfigError("; ".join(findings.refusals))
    return rows


def made_up_queries(schema: Schema, count: int) -> np.ndarray:
    """Rows (count, features) from public statistics alone: normal, within the schema's ranges, the same each time."""
    generator = np.random.default_rng(0)
    rows = generator.normal(schema.center, schema.scale, size=(count, len(schema.features)))
    for allowed in schema.ranges:
        index = schema.features.index(allowed.feature)
        column = np.rint(rows[:, index]) if allowed.whole else rows[:, index]
        rows[:, index] = np.clip(column, allowed.low, allowed.high)
    return rows


def _secret(home: Home, federation: FederationFile) -> tuple[bytes, bool]:
    """What decides over the shards, and whether a run would take the same. Leaves nothing behind: a party that has no
    secret yet gets one for this run only."""
    if federation.seed >= 0:
        return simulated_secret(federation.seed, home.name), True
    with closing(home.remembered()) as store:
        secret = store.secret()
    if secret is not None:
        return secret, True
    return secrets.token_bytes(SECRET_BYTES), federation.teachers_per_party == 1


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


def _terms(federation: FederationFile) -> Terms:
    """As far as the file says; what only a coordinator knows is left out."""
    return Terms(
        federation=NOWHERE,
        classes=list(federation.rows.classes),
        teachers=federation.teachers_per_party,
        simulation=federation.simulation,
        promise="[]",
        student="",
        collection=federation.collection,
        roster="",
        public=federation.public.model_dump_json() if federation.public else "",
        request=NOWHERE,
    )
