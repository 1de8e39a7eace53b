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

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from consilium.aggregator import SETTINGS
from consilium.aggregator.node import AggregatorNode
from consilium.aggregator.policy import AggregatorFile, release_of
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
from consilium.node.limits import NodePolicy, epsilon
from consilium.protocol.errors import ConfigError
from consilium.protocol.identity import Identity, SealingKey
from consilium.protocol.messages import Terms
from consilium.protocol.refusals import CURES_OF_SECOND
from consilium.sums.roster import VerifiedRoster


@dataclass(frozen=True)
class AggregatorHome:
    """Paths and settings of one aggregator. All methods raise ConfigError for a file that cannot be used."""

    folder: Path
    file: AggregatorFile

    @property
    def name(self) -> str:
        """As it calls itself, for people."""
        return self.file.name

    @property
    def policy(self) -> NodePolicy:
        """Its own limits. Raises NotAccepted while its people have said nothing."""
        if self.file.policy is None:
            raise not_accepted(self.folder, "aggregator")
        return self.file.policy

    def roster(self) -> VerifiedRoster:
        """Its own copy, which lists this aggregator with its keys."""
        path = self.folder / self.file.roster
        roster = VerifiedRoster.load(path)
        keys = self.identity().public.hex(), self.sealing().public.hex()
        if keys != (roster.helper.ed25519_pk, roster.helper.x25519_pk):
            raise ConfigError(
                f"{path} lists the second aggregator with other keys than this node has", "Take the roster of this kit"
            )
        return roster

    def identity(self) -> Identity:
        """The signing key."""
        return Identity.load(self.folder / self.file.identity)

    def sealing(self) -> SealingKey:
        """The sealing key."""
        return SealingKey.load(self.folder / self.file.sealing)

    def pinned_terms(self) -> Terms | None:
        """Terms of the one federation that it serves; None where it pins none."""
        return read_terms(self.folder / self.file.terms) if self.file.terms else None

    @property
    def store_file(self) -> Path:
        """Where it keeps what it has given, in a folder that only the owner can read; made on first use."""
        state = self.folder / "state"
        state.mkdir(mode=0o700, exist_ok=True)
        return state / "given.db"

    def node(self) -> AggregatorNode:
        """What answers."""
        return AggregatorNode(
            GivenStore(self.store_file),
            name=self.name,
            policy=self.policy,
            roster=self.roster(),
            identity=self.identity(),
            sealing=self.sealing(),
            pinned=self.pinned_terms(),
            noise_seed=self.file.simulated_noise_seed,
        )


def open_home(folder: Path) -> AggregatorHome:
    """Read `aggregator.toml`, and in a kit `policy.toml`. Raises ConfigError: missing, or of another form."""
    return AggregatorHome(folder, read_with_policy(folder / SETTINGS, AggregatorFile, NodePolicy, LIMITS))


@dataclass(frozen=True)
class GivenSoFar:
    """introduced: the coordinator came with this federation's terms. in_this, elsewhere: queries in sums that it gave
    its half of. promised: queries that this federation may ask; earlier: promises of others that it gave sums in."""

    introduced: bool
    in_this: int
    elsewhere: int
    promised: int
    earlier: tuple[str, ...]


def given_in(home: AggregatorHome, terms: Terms) -> GivenSoFar:
    """Raises LedgerError where its state cannot be read, Refused where the promise cannot."""
    promised = release_of(terms.promise).queries_in(1)
    if not (home.folder / "state" / "given.db").exists():
        return GivenSoFar(False, 0, 0, promised, ())
    with GivenStore(home.store_file).transaction() as sums:
        introduced, in_this = sums.terms(terms.federation) is not None, sums.given_in(terms.federation, 1)
        others = tuple(sums.other_promises(terms.federation))
        return GivenSoFar(introduced, in_this, sums.ever() - in_this, promised, others)


def check_is_accepted(home: AggregatorHome) -> None:
    """Raise NotAccepted, see `check_kit_accepted`."""
    check_kit_accepted(home, "aggregator", NodePolicy, LIMITS, policy_request)


def policy_request(home: AggregatorHome, terms: Terms) -> PolicyRequest:
    """All that these terms ask, beside the defaults and what was accepted before. Raises ConfigError (a file of the kit
    cannot be read, or its terms are none), LedgerError (its state cannot)."""
    action = "Do not serve: ask the operator"
    return refused_is_wrong(lambda: _policy_request(home, terms), "terms.json", action, CURES_OF_SECOND)


def _policy_request(home: AggregatorHome, terms: Terms) -> PolicyRequest:
    federation, release, roster = load_federation_part(home.folder), release_of(terms.promise), home.roster()
    known, past = read_policy(home.folder, NodePolicy, LIMITS), given_in(home, terms)
    unit, neighbouring, delta = release.unit, release.neighbouring, federation.privacy.delta
    requested: dict[str, Any] = {
        "unit": unit.value,
        "neighbouring": neighbouring.value,
        "delta": delta,
        "most_queries": past.elsewhere + past.promised,
        "least_parties": roster.sure,
        "allow_simulation": terms.simulation,
    }
    counted_by = NodePolicy.model_validate(counting(LIMITS, requested, known))
    theirs = counted_by.model_copy(update={"unit": unit, "neighbouring": neighbouring, "delta": delta})
    nodes, student = (epsilon((promise,), theirs) for promise in (terms.promise, terms.student or terms.promise))
    together = epsilon((*past.earlier, terms.promise), counted_by)
    by = f"at delta {counted_by.delta:g} for a {counted_by.unit}"
    return PolicyRequest(
        kind="aggregator",
        name=home.name,
        federation=federation.name,
        terms=terms,
        model=NodePolicy,
        known=known,
        lines=lines_of(LIMITS, {**requested, "most_epsilon": rounded_up(together)}, NodePolicy, known),
        guarantees=guarantees(federation.privacy, terms.collection, student, nodes, neighbouring.value),
        facts=past_in_words(len(past.earlier), past.elsewhere, epsilon(past.earlier, counted_by), together, by),
    )
