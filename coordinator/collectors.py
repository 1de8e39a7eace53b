"""Who collects votes, by how they are collected; and what must be there before parties train."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

from consilium.coordinator.collection.admission import Member
from consilium.coordinator.collection.clear import ClearCollector, Standing
from consilium.coordinator.collection.exchange import Transport
from consilium.coordinator.collection.greeting import Greeting
from consilium.coordinator.collection.kept_votes import keeping
from consilium.coordinator.collection.second import SecondAggregator
from consilium.coordinator.collection.secure import SecureCollector, SecureKeys
from consilium.coordinator.collection.verified import VerifiedCollector
from consilium.coordinator.collection.verified_keys import VerifiedKeys
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.labels.service import Collector
from consilium.coordinator.run_log import EventLog
from consilium.protocol.parties.messages import VotesMode

SESSIONS = "sessions"
"""Folder of a run in which open sessions are kept."""


class VoteKeys(Protocol):
    """What all but clear votes need: a roster and the coordinator's keys."""

    def check(self, config: FederationConfig) -> None:
        """Raise ConfigError or SecAggError unless they are those of the federation."""
        ...

    def weights(self) -> dict[str, int]:
        """How often the answers of each party count, by name."""
        ...

    @property
    def least_sum(self) -> int:
        """Parties that must be in a sum."""
        ...


@dataclass(frozen=True)
class Collecting:
    """What collectors are made from. members: those that serve; others may be added to the list."""

    transport: Transport
    config: FederationConfig
    members: list[Member]
    run_dir: Path
    standing: Standing
    greeting: Greeting
    log: EventLog
    keys: VoteKeys | None

    def second(self) -> SecondAggregator:
        """The second aggregator of verified votes."""
        roster = cast(VerifiedKeys, self.keys).roster
        nodes = self.members

        def members() -> list[int]:
            return [member.node for member in nodes]

        return SecondAggregator(self.transport, self.config, roster, self.greeting, members, self.log)

    def collector(self, number: int | None) -> Collector:
        """Of the federation's phase with this number, from 1; None where there is no schedule."""
        return MAKERS[self.config.votes](self, number)


def _clear(given: Collecting, number: int | None) -> Collector:
    sinks: Any = partial(keeping, given.run_dir / "private") if given.config.record_votes else None
    return ClearCollector(given.transport, given.config, given.members, given.standing, given.log, sinks, number or 1)


def _secure(given: Collecting, number: int | None) -> Collector:
    keys, folder = cast(SecureKeys, given.keys), given.run_dir / SESSIONS
    return SecureCollector(
        given.transport, given.config, given.members, keys, folder, given.standing, given.log, number
    )


def _verified(given: Collecting, number: int | None) -> Collector:
    keys, folder = cast(VerifiedKeys, given.keys), given.run_dir / SESSIONS
    return VerifiedCollector(
        given.transport, given.config, given.members, keys, given.second(), folder, given.standing, given.log, number
    )


MAKERS: Mapping[VotesMode, Callable[[Collecting, int | None], Collector]] = {
    "clear": _clear,
    "secure": _secure,
    "distributed": _secure,
    "verified": _verified,
}


def _nobody_else(given: Collecting) -> None:
    """Parties are all that is needed."""


def _second_is_there(given: Collecting) -> None:
    given.second().find()


NEEDED: Mapping[VotesMode, Callable[[Collecting], None]] = {
    "clear": _nobody_else,
    "secure": _nobody_else,
    "distributed": _nobody_else,
    "verified": _second_is_there,
}
"""Raises AggregatorAway or AggregatorRefuses where votes could not be collected, before anybody trains."""
