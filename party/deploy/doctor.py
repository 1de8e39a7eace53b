"""Checks of a party's kit before, and while, it serves."""

from __future__ import annotations

from importlib.metadata import version

from consilium.data.private_rows import there
from consilium.node.acceptance import accepted_in_words, is_answered, read_policy
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
    check_second,
    check_signature,
    expectation,
    refused_is_wrong,
)
from consilium.node.flower import program
from consilium.node.health import monitor_checks
from consilium.node.installed_app import check_flower
from consilium.node.keys import IDENTITY, NODE_KEY
from consilium.node.kit import Kit
from consilium.node.state import check_versions
from consilium.party.acceptance import check_is_accepted
from consilium.party.deploy.keys import check_own, lacks_own_keys, pinned_roster
from consilium.party.deploy.status import terms_of
from consilium.party.dry_run import check, usable
from consilium.party.expectation import agreed_weight, own_share, party_warnings, promise_in_words
from consilium.party.federation import load_federation
from consilium.party.home import open_home, read_party
from consilium.party.policy import LIMITS, Policy, check_terms
from consilium.party.promise import check_promised_unit, promise_of
from consilium.party.spend import Share, SpendStore
from consilium.party.sum_store import SessionStore, UploadStore
from consilium.protocol.errors import ConfigError, ConsiliumError, DataError
from consilium.protocol.messages import Terms
from consilium.protocol.refusals import CURES, Rule
from consilium.report.warnings import RunWarning

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
    """What the coordinator will be refused, or is promised: a party whose policy forbids it starts all the same, and
    joins once that is mended."""
    return [
        ("policy", lambda: _policy(kit)),
        ("roster", lambda: _roster(kit)),
        ("second", lambda: check_second(kit, pinned_roster(open_home(kit.folder)))),
        ("promise", lambda: promise_in_words(_asked(kit), open_home(kit.folder).policy, _share(kit))),
        ("expectation", lambda: _expectation(kit)),
        ("queries", lambda: _queries(kit)),
    ]


def port_check(kit: Kit) -> Check:
    """The loopback port of its SuperNode."""
    return ("port", lambda: check_port(kit.node_port, "127.0.0.1", "node_port"))


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
        ("clock", lambda: check_clock(kit)),
        *set_up(kit),
        ("own keys", lambda: check_own(kit)),
        *(terms_checks(kit) if joined and is_answered(kit) else []),
        ("data", lambda: _data(kit)),
        ("disk", lambda: check_disk(kit.state, LEAST_FREE_BYTES)),
        *monitor_checks(kit, running),
    ]
    if not running:
        found.append(port_check(kit))
    return [*found, ("coordinator", lambda: check_coordinator(kit))]


def _flower() -> str:
    check_flower()
    program("flower-supernode")
    return f"flwr {version('flwr')} is one that was tested, and runs no code but this party's own"


def _place(kit: Kit) -> str:
    home = open_home(kit.folder)
    if home.name != kit.name:
        raise ConfigError(
            f"party.toml says name {home.name!r}, the kit is that of {kit.name!r}", "Set name back in party.toml"
        )
    if '"' in str(kit.folder) or " " in str(kit.folder):
        raise ConfigError(f"{kit.folder}: a path with spaces or quotes", "Move the kit: Flower cannot pass it on")
    return f"{kit.folder}"


def _accepted(kit: Kit) -> str:
    """That the party's people have allowed what is asked: before that, nothing else of the policy can be said."""
    check_is_accepted(open_home(kit.folder))
    return accepted_in_words(read_policy(kit.folder, Policy, LIMITS))


def _state(kit: Kit) -> str:
    """What it gave is in three files, all of which this program must be able to read."""
    given, sessions, uploads = 0, kit.state / "sessions.db", kit.state / "uploads.db"

    def read() -> None:
        nonlocal given
        given = SpendStore(open_home(kit.folder).spend_file).answered()
        if sessions.exists():
            with SessionStore(sessions).transaction():
                pass
        if uploads.exists():
            UploadStore(uploads).find("")

    refused_is_wrong(read, "state", "Restore the newest backup of state/")
    return f"{given} queries answered ever"


def _queries(kit: Kit) -> str:
    """Whether the policy's most_queries lasts. With secure votes a party refuses beforehand where it does not."""
    home, asked = open_home(kit.folder), _asked(kit)
    before, most = SpendStore(home.spend_file).past(asked.federation).elsewhere, home.policy.most_queries
    told = f"{before} answered in other federations, at most {promise_of(asked).asked} in this one; policy: {most}"
    if before + promise_of(asked).asked > most:
        raise Advice(told, CURES[Rule.MOST_QUERIES])
    return told


def _asked(kit: Kit) -> Terms:
    return terms_of(open_home(kit.folder))


def _policy(kit: Kit) -> str:
    home, asked = open_home(kit.folder), _asked(kit)
    refused_is_wrong(
        lambda: (check_terms(home.policy, asked), check_promised_unit(asked, home.rules)),
        "policy in policy.toml",
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
    refused_is_wrong(
        lambda: found.append(own_share(open_home(kit.folder), _asked(kit))),
        "policy in policy.toml",
    )
    return found[0]


def _expectation(kit: Kit) -> str:
    home, asked = open_home(kit.folder), _asked(kit)
    found: list[RunWarning] = []
    weight = _share(kit).weight if promise_of(asked).weight > 1 else 1
    refused_is_wrong(lambda: found.extend(party_warnings(asked, home.policy, weight)), "terms", "Unpack the kit again")
    return expectation(found)


def _data(kit: Kit) -> str:
    """As `consilium party check` does; that command shows every problem of every column."""
    home, command = open_home(kit.folder), f"Run: consilium party check {kit.folder} {kit / 'federation.json'}"
    if not there(home.data_file):
        raise DataError(
            f"{home.data_file} is missing", "Put the party's rows there; docs/parties.md says in which form"
        )
    rows, found = check(read_party(kit.folder), kit.folder, load_federation(kit / "federation.json"))
    try:
        count = len(usable(rows, found).y)
    except ConsiliumError as error:
        raise DataError(error.what, command) from None
    return f"{home.data_file.name}: {count} rows fit the federation's columns and classes"


def _roster(kit: Kit) -> str:
    asked = _asked(kit)
    if not asked.roster:
        return "none: votes are clear"
    found = pinned_roster(open_home(kit.folder))
    if found is None:
        raise ConfigError("there is no roster for these votes", "Unpack the kit again")
    said = check_roster(kit, found, asked.roster, found.parties.get(kit.name))
    refused_is_wrong(
        lambda: agreed_weight(open_home(kit.folder), asked),
        "policy in policy.toml",
    )
    return said
