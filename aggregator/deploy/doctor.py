"""Checks of a second aggregator's kit before, and while, it serves."""

from __future__ import annotations

from importlib.metadata import version

from consilium.aggregator.acceptance import check_is_accepted, given_in, terms_of
from consilium.aggregator.deploy.keys import check_own, lacks_own_keys, roster_of
from consilium.aggregator.home import AggregatorHome, open_home
from consilium.aggregator.policy import AggregatorPolicy, check_terms
from consilium.aggregator.promise import cost_of, events_of
from consilium.node.acceptance import LIMITS, accepted_in_words, is_answered, read_policy
from consilium.node.checks import (
    Advice,
    Check,
    check_authority,
    check_clock,
    check_coordinator,
    check_disk,
    check_kit,
    check_port,
    check_roster,
    check_signature,
    refused_is_wrong,
)
from consilium.node.flower import program
from consilium.node.health import monitor_checks
from consilium.node.installed_app import check_flower
from consilium.node.keys import IDENTITY, NODE_KEY, SEALING
from consilium.node.kit import Kit
from consilium.node.state import check_versions
from consilium.protocol.errors import ConfigError
from consilium.protocol.refusals import CURES_OF_SECOND, Rule
from consilium.protocol.releases import ReleaseKind
from consilium.report.disclosure import Disclosure, epsilon_text

LEAST_FREE_BYTES = 500_000_000


def set_up(kit: Kit) -> list[Check]:
    """What a start rests on: it is refused in the same words."""
    return [
        ("flower", _flower),
        ("place", lambda: _place(kit)),
        ("state", lambda: _state(kit)),
        ("accepted", lambda: _accepted(kit)),
    ]


def terms_checks(kit: Kit) -> list[Check]:
    """What the coordinator will be refused: it starts all the same, and serves once that is mended."""
    return [
        ("policy", lambda: _policy(kit)),
        ("roster", lambda: _roster(kit)),
        ("queries", lambda: _queries(kit)),
    ]


def port_check(kit: Kit) -> Check:
    """The loopback port of its SuperNode."""
    return ("port", lambda: check_port(kit.node_port, "127.0.0.1", "node_port"))


def checks(kit: Kit, running: bool) -> list[Check]:
    """In the order in which to mend. running: it is started, so that its own port is taken by itself."""
    joined = not lacks_own_keys(kit)
    unjoined: list[Check] = [
        ("signature", lambda: check_signature(kit)),
        ("authority", lambda: check_authority(kit.authority)),
    ]
    found: list[Check] = [
        *(check_kit(kit, [NODE_KEY, IDENTITY, SEALING]) if joined else unjoined),
        ("versions", lambda: check_versions(kit)),
        ("clock", lambda: check_clock(kit)),
        *set_up(kit),
        ("own keys", lambda: check_own(kit)),
        *(terms_checks(kit) if joined and is_answered(kit) else []),
        ("disk", lambda: check_disk(kit.state, LEAST_FREE_BYTES)),
        *monitor_checks(kit, running),
    ]
    if not running:
        found.append(port_check(kit))
    return [*found, ("coordinator", lambda: check_coordinator(kit))]


def _flower() -> str:
    check_flower()
    program("flower-supernode")
    return f"flwr {version('flwr')} is one that was tested, and runs no code but this node's own"


def _place(kit: Kit) -> str:
    home = open_home(kit.folder)
    if home.name != kit.name:
        raise ConfigError(
            f"aggregator.toml says name {home.name!r}, the kit is that of {kit.name!r}",
            "Set name back in aggregator.toml",
        )
    if '"' in str(kit.folder) or " " in str(kit.folder):
        raise ConfigError(f"{kit.folder}: a path with spaces or quotes", "Move the kit: Flower cannot pass it on")
    return f"{kit.folder}"


def _accepted(kit: Kit) -> str:
    """That its people have allowed what is asked: before that, nothing else of the policy can be said."""
    check_is_accepted(open_home(kit.folder))
    return accepted_in_words(read_policy(kit.folder, AggregatorPolicy, LIMITS))


def _state(kit: Kit) -> str:
    home, told = open_home(kit.folder), []
    refused_is_wrong(
        lambda: told.append(given_in(home, terms_of(home))),
        "terms.json",
        "Unpack the kit again",
        CURES_OF_SECOND,
    )
    return f"{told[0].here + told[0].elsewhere} queries ever in sums that it gave its half of"


def _policy(kit: Kit) -> str:
    home = open_home(kit.folder)
    terms, policy, roster = terms_of(home), home.policy, home.roster()
    costs: list[float] = []

    def allowed() -> None:
        earlier = list(given_in(home, terms).earlier)
        check_terms(policy, terms, roster, earlier)
        for promise in (terms.promise, terms.student or terms.promise):
            events = [event for text in (*earlier, promise) for event in events_of(text)]
            costs.append(cost_of(events, policy.unit, policy.neighbouring, policy.delta))

    refused_is_wrong(
        allowed,
        "policy in policy.toml",
        "Change the policy, or do not serve: the coordinator will ask exactly this",
        CURES_OF_SECOND,
    )
    noisy = all(event.noise_by_parties for event in events_of(terms.promise))
    disclosed = Disclosure(ReleaseKind.COUNTS, "verified", noisy, explicit=noisy and not terms.student)
    nodes = disclosed.towards_nodes(costs[0])
    student = f"epsilon at most {epsilon_text(costs[-1])} towards the student and the public"
    return (
        f"allows this federation: {'sums with noise of its own' if noisy else 'exact sums'}; {student}; {nodes}; at"
        f" delta {policy.delta:g} for a {policy.unit}, with all earlier federations"
    )


def _roster(kit: Kit) -> str:
    found = roster_of(kit)
    listed = None if found.second is None else found.second.ed25519_pk
    said = check_roster(kit, found, terms_of(_home(kit)).roster, listed)
    _home(kit).roster()  # the sealing key too
    return said


def _queries(kit: Kit) -> str:
    """Whether the policy's most_queries lasts."""
    home = _home(kit)
    found, most = given_in(home, terms_of(home)), home.policy.most_queries
    told = f"{found.elsewhere} in sums of other federations, at most {found.promised} in this one; policy: {most}"
    if found.elsewhere + found.promised > most:
        raise Advice(told, CURES_OF_SECOND[Rule.MOST_QUERIES])
    return told


def _home(kit: Kit) -> AggregatorHome:
    return open_home(kit.folder)
