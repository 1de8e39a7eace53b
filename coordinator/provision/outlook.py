"""What a change of membership means for each hospital, before it is made: epsilon, queries, rows, and what is to do.

Everything follows from the registry: what each federation promised at its query budget. A party charges a federation
from its first question on, so that the truth is this or less; one in which nothing was asked is left out where the
operator says what was asked in which (`Asked`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from consilium.accounting.errors import AccountingError
from consilium.accounting.target import worst_case
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.provision.registry import (
    Registry,
    checked_party,
    keys_of,
    load_registry,
    with_party,
    without,
)
from consilium.coordinator.provision.write import LEAST_ROWS, limit_for
from consilium.coordinator.rosters import least_together
from consilium.protocol.errors import ConfigError
from consilium.report.before_run import MOST_EPSILON
from consilium.report.disclosure import epsilon_text, times_as_likely

Asked = int | Mapping[str, int] | None
"""Queries asked so far, as `consilium status` at the coordinator says: over all federations, or by the first letters of
their digests, where none is left out but those without questions. None where it is unknown."""
TELL = "give --asked, as consilium status at the coordinator prints it"
SMALLEST = 2.5
"""Standard deviations that the smallest shard of n rows is below the mean, n/k, of which each is sqrt(n/k)."""


@dataclass(frozen=True)
class PartyOutlook:
    """One party after the change.

    federations: that it was in, this one counted. epsilon: of all of them at the operator's delta and unit; now: the
    same before the change, None for one that is new. most_epsilon, most_queries: the least that its policy must allow
    for all of it; least_parties: the most that it may ask for, None for plaintext votes. rows: about as many as it
    needs.
    """

    name: str
    federations: int
    now: float | None
    epsilon: float
    most_epsilon: float
    most_queries: int
    least_parties: int | None
    rows: int


@dataclass(frozen=True)
class ChangeOutlook:
    """A change, and what follows from it.

    before, after: digests of the federation, as far as people compare them; the same where it stays the same. least:
    parties that must be there. pool: rows that were fixed beforehand, asked: of them so far, as the operator was told;
    None where unknown. impossible: why there is no federation after the change, or nothing. once: whether a party
    answers each row once, since noise is in the sums. alone: parties in no block, and so in no exact sum. unasked:
    digests of federations that are not counted, since nothing was asked in them. by_federation: whether it is known
    what was asked in which.
    """

    changes: tuple[str, ...]
    votes: str
    before: str
    after: str
    delta: float
    unit: str
    least: int
    parties: tuple[PartyOutlook, ...]
    query_budget: int
    pool: int | None = None
    asked: int | None = None
    impossible: str = ""
    once: bool = True
    alone: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()
    by_federation: bool = False

    @property
    def is_new(self) -> bool:
        """Whether a new federation is begun, with a ledger of its own."""
        return self.before != self.after

    @property
    def rows_open(self) -> int | None:
        """Rows of the pool that can be asked after the change, at least; None without a pool."""
        if self.pool is None or not self.once:
            return self.pool
        used = self.query_budget * (max((party.federations for party in self.parties), default=1) - 1)
        return max(0, self.pool - (min(used, self.pool) if self.asked is None else self.asked))

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {**asdict(self), "new_federation": self.is_new, "rows_open": self.rows_open, "steps": self.steps()}

    def lines(self) -> list[str]:
        """For the operator."""
        told = [f"change      {change}" for change in self.changes]
        if self.impossible:
            return [*told, f"result      no federation is left: {self.impossible}"]
        new, same = "a new federation, whose promise comes on top of those before", "the same federation and promise"
        told.append(f"result      {new if self.is_new else same}")
        told.append(f"parties     {len(self.parties)}, of which {self.least} must be there")
        for party in self.parties:
            told.append(f"party       {party.name}: {self._of(party)}")
        told += [f"note        {name}: in no exact sum, since the roster has it in no block" for name in self.alone]
        if self.unasked:
            told.append(f"note        not counted, as nothing was asked there: {', '.join(self.unasked)}")
        elif not self.by_federation and any(party.federations > 1 for party in self.parties):
            told.append(f"note        a federation in which nothing was asked costs a party nothing: {TELL}")
        if self.rows_open is not None:
            told.append(f"public rows {self._rows()}")
        return told + [f"do          {at}. {step}" for at, step in enumerate(self.steps(), 1)]

    def steps(self) -> list[str]:
        """What is to be done, in order, where the federation becomes another one."""
        if self.impossible or not self.is_new:
            return []
        return [
            "Let students finish; at the coordinator: consilium node close KIT",
            "Make the change (consilium provision add or revoke), and unpack the update at every node",
            "At each party, if it agrees to what is said of it above: consilium node accept KIT; likewise at a second"
            " aggregator: consilium node accept KIT",
            "At every node: consilium doctor KIT; then start the coordinator",
        ]

    def _of(self, party: PartyOutlook) -> str:
        likelier = f", at which an outcome may be {times_as_likely(party.epsilon)} as likely: it protects little"
        large = likelier if party.epsilon > MOST_EPSILON else ""
        now = "" if party.now is None or party.now == party.epsilon else f" (now {epsilon_text(party.now)})"
        over = f" over {party.federations} federations" if party.federations > 1 else ""
        told = f"epsilon at most {epsilon_text(party.epsilon)}{over}{now}{large}; allowed by policy.most_epsilon >="
        told += f" {party.most_epsilon:g}, most_queries >= {party.most_queries}"
        if party.least_parties is not None:
            told += f", least_parties <= {party.least_parties}"
        return f"{told}, and some {party.rows} rows"

    def _rows(self) -> str:
        if not self.is_new:
            return f"{self.pool} rows; those that were asked stay free"
        if not self.once:
            return f"{self.pool} rows; all can be asked again, and are charged again"
        known = "" if self.asked is not None else f" (by the query budget; {TELL})"
        least = "" if self.asked is not None else "at least "
        told = f"{least}{self.rows_open} of {self.pool} rows can still be asked: a party answers each row once{known}"
        few = self.rows_open is not None and self.rows_open < self.query_budget
        return f"{told}; fewer than the {self.query_budget} queries of the query budget" if few else told


def outlook(
    registry: Registry, add: Sequence[str] = (), revoke: Sequence[str] = (), asked: Asked = None
) -> ChangeOutlook:
    """What these changes together would mean; nothing is made.

    Parameters
    ----------
    add : names.

    Raises
    ------
    ConfigError : a name is taken or unknown, or a federation is none of these.
    """
    changed, impossible = registry, ""
    for name in revoke:
        changed = without(changed, name)
    for name in add:
        party = checked_party(changed, name, 9094)
        try:
            changed = with_party(changed, party, keys_of(name, None))
        except ConfigError as error:
            impossible = str(error)
    changes = (*(f"revoke {name}" for name in revoke), *(f"add {name}" for name in add))
    return told_of(registry, changed, changes, asked, impossible)


def told_of(
    before: Registry, after: Registry, changes: Sequence[str], asked: Asked = None, impossible: str = ""
) -> ChangeOutlook:
    """The outlook of a change that is known by the registry before it and after it. Raises ConfigError: `asked` names
    a federation that is none of these."""
    config = after.plan.federation
    try:
        old = before.federation().digest()[:12]
    except ConfigError:
        old = ""
    unasked = _unasked(before, old, asked)
    total = sum(asked.values()) if isinstance(asked, Mapping) else asked
    shown = ChangeOutlook(
        tuple(changes), config.collection, old, "", config.privacy.delta, config.privacy.unit.value, 0, (),
        config.query_budget.queries, None if after.public is None else after.public.size, total, impossible,
        config.noise_in_sums, by_federation=isinstance(asked, Mapping),
    )  # fmt: skip
    try:
        new = after.federation()
    except ConfigError as error:
        return replace(shown, impossible=impossible or str(error))
    if impossible:
        return shown
    roster = after.roster()
    least = None if roster is None else roster.least_sum - roster.c

    @cache
    def cost(federations: int) -> float:
        return _epsilon(new, federations)

    parties = tuple(_party(name, before, after, cost, least, unasked) for name in after.parties)
    together = least_together(after.plan.federation, 0 if roster is None else roster.least_sum)
    alone = () if config.noise_in_sums or roster is None else (each.id for each in roster.parties if not each.block)
    left_out = () if old == new.digest()[:12] else unasked
    return replace(
        shown, after=new.digest()[:12], least=together, parties=parties, alone=tuple(alone), unasked=left_out
    )


def _unasked(before: Registry, now: str, asked: Asked) -> tuple[str, ...]:
    """Of the federations so far, those in which nothing was asked, as far as that is known. Raises ConfigError."""
    known = [each.digest[:12] for each in before.earlier]
    known += [now] if now and now not in known else []
    if asked is None or (isinstance(asked, int) and asked):
        return ()
    named: Mapping[str, int] = {} if isinstance(asked, int) else asked
    if strangers := sorted({*named} - {*known}):
        raise ConfigError(f"--asked {strangers[0]!r}: no federation of these kits", f"There are {', '.join(known)}")
    return tuple(digest for digest in known if not named.get(digest))


def rows_for(teachers: int) -> int:
    """Rows with which the smallest shard has enough by lot, as docs/parties.md has it ("Several teachers").

    >>> rows_for(1), rows_for(12)
    (20, 420)
    """
    if teachers == 1:
        return LEAST_ROWS
    each = ((SMALLEST + math.sqrt(SMALLEST**2 + 4 * LEAST_ROWS)) / 2) ** 2
    return 10 * math.ceil(each * teachers / 10)


def _federations(name: str, registry: Registry, unasked: Collection[str]) -> int:
    """That a party is in, or that may have cost it something."""
    counted = [each for each in registry.earlier if each.digest[:12] not in unasked]
    return 1 + sum(old in each.parties for old in registry.names_of(name) for each in counted)


def _party(
    name: str,
    before: Registry,
    after: Registry,
    cost: Callable[[int], float],
    least: int | None,
    unasked: Collection[str],
) -> PartyOutlook:
    config, count = after.plan.federation, _federations(name, after, unasked)
    epsilon = cost(count)
    return PartyOutlook(
        name=name,
        federations=count,
        now=cost(_federations(name, before, unasked)) if name in before.parties else None,
        epsilon=epsilon,
        most_epsilon=limit_for(epsilon),
        most_queries=config.query_budget.queries * count,
        least_parties=least,
        rows=rows_for(config.teachers_per_party),
    )


def _epsilon(config: FederationConfig, federations: int) -> float:
    """Worst case of so many federations like this one; inf where nothing is proved."""
    try:
        return worst_case(config.held_to() * federations, config.privacy.delta).epsilon
    except AccountingError:
        return math.inf


def outlook_of(kits: Path, add: Sequence[str], revoke: Sequence[str], asked: Asked) -> ChangeOutlook:
    """`outlook` for an operator's folder. Raises ConfigError."""
    if not add and not revoke:
        raise ConfigError("no change is named", "Give --add NAME or --revoke NAME")
    return outlook(load_registry(kits), add, revoke, asked)
