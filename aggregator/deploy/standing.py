"""Where the second aggregator stands, from its own files; it asks nobody: for `status`, its log and its metrics."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from consilium.aggregator.acceptance import GivenSoFar, check_is_accepted, given_in, terms_of
from consilium.aggregator.home import AggregatorHome, open_home
from consilium.aggregator.policy import check_terms
from consilium.node.kit import Kit
from consilium.node.supernode import read_connection
from consilium.protocol.errors import ConsiliumError, NotAccepted
from consilium.protocol.files import is_held
from consilium.protocol.refusals import CURES_OF_SECOND, Refused, cure_of

NOT_YET = "not asked yet"


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
    """Raises ConfigError if its settings or terms cannot be read, or nothing was accepted yet, LedgerError if its state
    cannot be read."""
    home = open_home(kit.folder)
    terms, running, problem = terms_of(home), is_held(kit.folder / "state" / "lock"), ""
    try:
        found = given_in(home, terms)
        check_is_accepted(home)
        check_terms(home.policy, terms, home.roster(), list(found.earlier))
    except Refused as error:
        cure = cure_of(f"refused: {error.refusal}", CURES_OF_SECOND)
        problem = f"its own policy refuses this federation: {error}. {cure}"
        found = GivenSoFar(False, 0, 0, 0, ())
    except NotAccepted as error:
        problem = str(error)
    return AggregatorStatus(
        aggregator=kit.name,
        federation=terms.federation[:12],
        running=running,
        connection=read_connection(kit) if running else "not started",
        standing=standing(home) if not problem else "does not serve this federation",
        queries=found.here + found.elsewhere,
        most_queries=home.policy.most_queries,
        most_epsilon=home.policy.most_epsilon,
        problem=problem,
    )
