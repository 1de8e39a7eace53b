"""Checks of a party's kit before, and while, it serves."""

from __future__ import annotations

from collections.abc import Callable

from consilium.party.data.federation import load_federation
from consilium.party.data.files import there
from consilium.party.deploy.keys import check_own, lacks_own_keys
from consilium.party.dry_run import check, usable
from consilium.party.expectation import own_share, party_warnings
from consilium.party.home import SETTINGS, open_home
from consilium.party.policy import PartyFile, check_terms
from consilium.party.promise import promise_of
from consilium.party.secagg.votes import check_roster as check_served_roster
from consilium.party.spend import Share
from consilium.party.units import check_promised_unit
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError, ConsiliumError, DataError
from consilium.protocol.monitor.checks import monitor_checks
from consilium.protocol.node.checks import (
    Advice,
    Check,
    check_authority,
    check_coordinator,
    check_disk,
    check_kit,
    check_port,
    check_roster,
    check_signature,
    expectation,
)
from consilium.protocol.node.enrolment import IDENTITY, NODE_KEY
from consilium.protocol.node.kit import Kit
from consilium.protocol.node.state import check_versions
from consilium.protocol.parties.cures import CURES
from consilium.protocol.parties.messages import Terms
from consilium.protocol.parties.refusals import Refused
from consilium.protocol.warnings.kinds import RunWarning

LEAST_FREE_BYTES = 500_000_000


def checks(kit: Kit, running: bool) -> list[Check]:
    """In the order in which to mend. running: the party is started, so that its own port is taken by itself."""
    joined = not lacks_own_keys(kit)
    unjoined: list[Check] = [
        ("signature", lambda: check_signature(kit)),
        ("authority", lambda: check_authority(kit.authority)),
    ]
    found: list[Check] = [
        *(check_kit(kit, [NODE_KEY, IDENTITY]) if joined else unjoined),
        ("versions", lambda: check_versions(kit)),
        ("own keys", lambda: check_own(kit)),
        ("policy", lambda: _policy(kit)),
        ("expectation", lambda: _expectation(kit)),
        ("data", lambda: _data(kit)),
        ("disk", lambda: check_disk(kit.state, LEAST_FREE_BYTES)),
        *monitor_checks(kit, running),
    ]
    if joined and ((kit / "roster.json").exists() or _asked(kit).roster):
        found.append(("roster", lambda: _roster(kit)))
    if not running:
        found.append(("port", lambda: check_port(kit.node_port, "127.0.0.1", "node_port")))
    return [*found, ("coordinator", lambda: check_coordinator(kit))]


def _asked(kit: Kit) -> Terms:
    """The terms of the one federation that this kit takes part in. Raises ConfigError."""
    pinned = open_home(kit.folder).pinned_terms()
    if pinned is None:
        raise ConfigError(
            "party.toml pins no terms, so the party would take part in whatever a coordinator asks",
            'Set terms = "terms.json" in party.toml',
        )
    return pinned


def _policy(kit: Kit) -> str:
    home, asked = open_home(kit.folder), _asked(kit)
    if home.name != kit.name:
        raise ConfigError(f"party.toml says name {home.name!r}, the kit is that of {kit.name!r}", "Set name back")
    _refused_is_wrong(
        lambda: (check_terms(home.policy, asked), check_promised_unit(asked, home.rules)),
        "policy in party.toml",
        "Change the policy, or do not take part: the coordinator will ask exactly this",
    )
    share, policy = _share(kit), home.policy
    promise = promise_of(asked)
    most, phases = promise.weight, f" over its {len(promise.each)} phases" if promise.later else ""
    weight = f", weight {share.weight} of {most}" if most > 1 else ""
    return (
        f"allows this federation: {asked.votes} votes{weight}, epsilon at most {share.epsilon:.3f}{phases}"
        f" at delta {policy.delta:g} for a {policy.unit}"
    )


def _share(kit: Kit) -> Share:
    found: list[Share] = []
    _refused_is_wrong(
        lambda: found.append(own_share(open_home(kit.folder), _asked(kit))),
        "policy in party.toml",
    )
    return found[0]


def _expectation(kit: Kit) -> str:
    home, asked = open_home(kit.folder), _asked(kit)
    found: list[RunWarning] = []
    weight = _share(kit).weight if promise_of(asked).weight > 1 else 1
    _refused_is_wrong(lambda: found.extend(party_warnings(asked, home.policy, weight)), "terms", "Unpack the kit again")
    return expectation(found)


def _data(kit: Kit) -> str:
    """As `consilium party check` does; that command shows every problem of every column."""
    home, command = open_home(kit.folder), f"Run: consilium party check {kit.folder} {kit / 'federation.json'}"
    if not there(home.data_file):
        raise DataError(
            f"{home.data_file} is missing", "Put the party's rows there; docs/parties.md says in which form"
        )
    rows, found = check(load(kit / SETTINGS, PartyFile), kit.folder, load_federation(kit / "federation.json"))
    try:
        count = len(usable(rows, found).y)
    except ConsiliumError as error:
        raise DataError(error.what, command) from None
    return f"{home.data_file.name}: {count} rows fit the federation's columns and classes"


def _roster(kit: Kit) -> str:
    asked = _asked(kit)
    if not asked.roster:
        raise Advice("there is a roster.json, but votes are clear and use none", "Nothing to do")
    said = check_roster(kit, asked.roster, kit.name)
    _refused_is_wrong(
        lambda: check_served_roster(open_home(kit.folder), asked),
        "policy in party.toml",
    )
    return said


def _refused_is_wrong(allows: Callable[[], object], what: str, action: str = "") -> None:
    """What the party would refuse, with the cure that the coordinator is told too."""
    try:
        allows()
    except Refused as error:
        cure = CURES[error.refusal.rule]
        raise ConfigError(f"{what}: {error}", f"{cure}. {action}" if action else cure) from None
