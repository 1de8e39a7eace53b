"""The home of a second aggregator: the folder with its settings, its keys and its state.

aggregator.toml      name; policy, but in a kit
policy.toml          in a kit: what it allows, written by `consilium node accept` (node.acceptance)
identity.pem         signing key
sealing.pem          long-term key of its link to the coordinator
roster.json          parties and both aggregators, with their keys
terms.json           in a kit: the terms of the one federation that it serves
state/given.db       what it was told, what it checked, and every sum that it gave its half of
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from consilium.accounting.events import ReleaseEvent
from consilium.aggregator import SETTINGS
from consilium.aggregator.policy import AggregatorFile, AggregatorPolicy, cost_of, release_of
from consilium.aggregator.store import GivenStore
from consilium.node.acceptance import (
    LIMITS,
    PolicyRequest,
    check_kit_accepted,
    counting,
    guarantees,
    lines_of,
    load_federation_part,
    not_accepted,
    past_in_words,
    read_policy,
    read_terms,
    read_with_policy,
    rounded_up,
)
from consilium.node.checks import refused_is_wrong
from consilium.node.limits import events_of
from consilium.protocol.errors import ConfigError
from consilium.protocol.identity import Identity, SealingKey
from consilium.protocol.messages import Terms
from consilium.protocol.refusals import CURES_OF_SECOND
from consilium.sums.roster import VerifiedRoster


@dataclass(frozen=True)
class AggregatorHome:
    """Paths and settings of one aggregator."""

    folder: Path
    settings: AggregatorFile

    @property
    def name(self) -> str:
        """As it calls itself, for people."""
        return self.settings.name

    @property
    def policy(self) -> AggregatorPolicy:
        """Its own limits. Raises NotAccepted while its people have said nothing."""
        if self.settings.policy is None:
            raise not_accepted(self.folder, "aggregator")
        return self.settings.policy

    def roster(self) -> VerifiedRoster:
        """Its own copy. Raises ConfigError if there is none, or if it lists this aggregator with other keys."""
        path = self.folder / self.settings.roster
        roster = VerifiedRoster.load(path)
        keys = self.identity().public.hex(), self.sealing().public.hex()
        if keys != (roster.helper.ed25519_pk, roster.helper.x25519_pk):
            raise ConfigError(
                f"{path} lists the second aggregator with other keys than this node has", "Take the roster of this kit"
            )
        return roster

    def identity(self) -> Identity:
        """The signing key. Raises ConfigError."""
        return Identity.load(self.folder / self.settings.identity)

    def sealing(self) -> SealingKey:
        """The sealing key. Raises ConfigError."""
        return SealingKey.load(self.folder / self.settings.sealing)

    def pinned_terms(self) -> Terms | None:
        """Terms of the one federation that it serves; None where it pins none. Raises ConfigError."""
        if not self.settings.terms:
            return None
        return read_terms(self.folder / self.settings.terms)

    @property
    def store_file(self) -> Path:
        """Where it keeps what it has given, in a folder that only the owner can read; made on first use."""
        state = self.folder / "state"
        state.mkdir(mode=0o700, exist_ok=True)
        return state / "given.db"


def open_home(folder: Path) -> AggregatorHome:
    """Read `aggregator.toml`, and in a kit `policy.toml`.

    Raises
    ------
    ConfigError : the folder or file is missing, or says something it may not say.
    """
    return AggregatorHome(folder, read_with_policy(folder / SETTINGS, AggregatorFile, AggregatorPolicy, LIMITS))


@dataclass(frozen=True)
class GivenSoFar:
    """introduced: the coordinator came with this federation's terms. in_this, elsewhere: queries in sums that it gave
    its half of. promised: queries that this federation may ask; earlier: promises of others that it gave sums in."""

    introduced: bool
    in_this: int
    elsewhere: int
    promised: int
    earlier: tuple[str, ...]


def check_is_accepted(home: AggregatorHome) -> None:
    """Raise NotAccepted, see `check_kit_accepted`."""
    check_kit_accepted(
        home.folder,
        "aggregator",
        AggregatorPolicy,
        LIMITS,
        home.pinned_terms,
        lambda terms: policy_request(home, terms),
    )


def policy_request(home: AggregatorHome, terms: Terms) -> PolicyRequest:
    """All that these terms ask, beside the defaults and what was accepted before.

    Raises
    ------
    ConfigError : a file of the kit cannot be read, or its terms are none. LedgerError : its state cannot be read.
    """
    action = "Do not serve: ask the operator"
    return refused_is_wrong(lambda: _policy_request(home, terms), "terms.json", action, CURES_OF_SECOND)


def _policy_request(home: AggregatorHome, terms: Terms) -> PolicyRequest:
    federation, events, roster = load_federation_part(home.folder), events_of(terms.promise), home.roster()
    known, past = read_policy(home.folder, AggregatorPolicy, LIMITS), given_in(home, terms)
    earlier = [event for text in past.earlier for event in events_of(text)]
    unit, neighbouring, delta = events[0].unit, events[0].neighbouring, federation.privacy.delta
    student = events_of(terms.student) if terms.student else events
    requested: dict[str, Any] = {
        "unit": unit.value,
        "neighbouring": neighbouring.value,
        "delta": delta,
        "most_queries": past.elsewhere + past.promised,
        "least_parties": roster.least - roster.c,
        "allow_simulation": terms.simulation,
    }
    counted_by = AggregatorPolicy.model_validate(counting(LIMITS, requested, known))
    theirs = counted_by.model_copy(update={"unit": unit, "neighbouring": neighbouring, "delta": delta})
    together, by = _epsilon([*earlier, *events], counted_by), f"at delta {counted_by.delta:g} for a {counted_by.unit}"
    return PolicyRequest(
        kind="aggregator",
        name=home.name,
        federation=federation.name,
        terms=terms,
        model=AggregatorPolicy,
        known=known,
        lines=lines_of(LIMITS, {**requested, "most_epsilon": rounded_up(together)}, AggregatorPolicy, known),
        guarantees=guarantees(
            federation.privacy,
            terms.collection,
            _epsilon(student, theirs),
            _epsilon(events, theirs),
            neighbouring.value,
        ),
        facts=past_in_words(len(past.earlier), past.elsewhere, _epsilon(earlier, counted_by), together, by),
    )


def _epsilon(events: Sequence[ReleaseEvent], policy: AggregatorPolicy) -> float:
    """Worst case of all of them together; inf where nothing is proved."""
    return cost_of(events, policy.unit, policy.neighbouring, policy.delta) if events else 0.0


def given_in(home: AggregatorHome, terms: Terms) -> GivenSoFar:
    """What it has given, of this federation and of others.

    Raises
    ------
    LedgerError : its state cannot be read. Refused : the promise cannot be read.
    """
    promised = release_of(terms.promise).queries_in(1)
    if not (home.folder / "state" / "given.db").exists():
        return GivenSoFar(False, 0, 0, promised, ())
    with GivenStore(home.store_file).transaction() as sums:
        in_this = sums.charged(terms.federation, 1)
        ever, earlier = sums.answered(), tuple(sums.other_promises(terms.federation))
        return GivenSoFar(sums.terms(terms.federation) is not None, in_this, ever - in_this, promised, earlier)
