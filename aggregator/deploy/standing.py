"""Where the second aggregator stands, from its own files; it asks nobody: for `status`, its log and its metrics."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from consilium.aggregator.home import AggregatorHome, open_home
from consilium.aggregator.policy import check_terms
from consilium.aggregator.promise import events_of
from consilium.aggregator.store import GivenStore
from consilium.protocol.aggregators.cures import CURES_OF_SECOND
from consilium.protocol.errors import ConfigError, ConsiliumError
from consilium.protocol.files import is_held
from consilium.protocol.node.connection import read_connection
from consilium.protocol.node.kit import Kit
from consilium.protocol.parties.cures import cure_of
from consilium.protocol.parties.messages import Terms
from consilium.protocol.parties.refusals import Refused

NOT_YET = "not asked yet"


@dataclass(frozen=True)
class GivenSoFar:
    """introduced: the coordinator came with this federation's terms. here, elsewhere: queries in sums that it gave its
    half of. promised: queries that this federation may ask; earlier: promises of others that it gave sums in."""

    introduced: bool
    here: int
    elsewhere: int
    promised: int
    earlier: tuple[str, ...]


@dataclass(frozen=True)
class AggregatorStatus:
    """For its own people. federation: digest, as far as people compare it. connection, standing: in words. problem: why
    its own policy refuses, and what to do."""

    aggregator: str
    federation: str
    running: bool
    connection: str
    standing: str
    queries: int
    most_queries: int
    most_epsilon: float
    problem: str

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def terms_of(home: AggregatorHome) -> Terms:
    """The terms of the one federation that a kit serves. Raises ConfigError."""
    pinned = home.pinned_terms()
    if pinned is None:
        raise ConfigError(
            "aggregator.toml pins no terms, so this node would serve in whatever a coordinator asks",
            'Set terms = "terms.json" in aggregator.toml',
        )
    return pinned


def given_in(home: AggregatorHome, terms: Terms) -> GivenSoFar:
    """What it has given, of this federation and of others.

    Raises
    ------
    LedgerError : its state cannot be read. Refused : the promise cannot be read.
    """
    releases = [event for event in events_of(terms.promise) if not event.closing]
    promised = sum(release.queries_in(1) for release in releases)
    if not (home.folder / "state" / "given.db").exists():
        return GivenSoFar(False, 0, 0, promised, ())
    with GivenStore(home.store_file).transaction() as given:
        here = sum(given.charged(terms.federation, number, 1) for number in range(1, len(releases) + 1))
        ever, earlier = given.answered(), tuple(given.other_promises(terms.federation))
        return GivenSoFar(given.terms(terms.federation) is not None, here, ever - here, promised, earlier)


def standing(home: AggregatorHome) -> str:
    """In words."""
    found = given_in(home, terms_of(home))
    if not found.introduced:
        return NOT_YET
    return f"serves, {found.here} queries in sums of this federation" if found.here else "serves, no sum given yet"


def standing_now(kit: Kit) -> str:
    """The same for whoever only tells of it; "cannot be read" where its files cannot be."""
    try:
        return standing(open_home(kit.folder))
    except (ConsiliumError, Refused):
        return "its files cannot be read: consilium doctor"


def status(kit: Kit) -> AggregatorStatus:
    """Raises ConfigError if its settings or terms cannot be read, LedgerError if its state cannot be."""
    home = open_home(kit.folder)
    terms, running, problem = terms_of(home), is_held(kit.folder / "state" / "lock"), ""
    try:
        found = given_in(home, terms)
        check_terms(home.policy, terms, home.roster(), list(found.earlier))
    except Refused as error:
        cure = cure_of(f"refused: {error.refusal}", CURES_OF_SECOND)
        problem = f"its own policy refuses this federation: {error}. {cure}"
        found = GivenSoFar(False, 0, 0, 0, ())
    return AggregatorStatus(
        aggregator=kit.name,
        federation=terms.federation[:12],
        running=running,
        connection=read_connection(kit) if running else "not started",
        standing=standing(home) if not problem else "its own policy refuses this federation",
        queries=found.here + found.elsewhere,
        most_queries=home.policy.most_queries,
        most_epsilon=home.policy.most_epsilon,
        problem=problem,
    )
