"""What a coordinator's start rests on: `doctor` shows the same checks, so that a start is refused in the same words."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

from pydantic import TypeAdapter, ValidationError

from consilium.coordinator.collection.admission import SEEN_FILE, SeenPositions
from consilium.coordinator.config import check_sanitised, check_threshold
from consilium.coordinator.deploy.runs import ROSTER, KitRun
from consilium.coordinator.kit_runs import LEDGER, use_of_budget
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.privacy import promise_in_words, promised
from consilium.coordinator.rosters import NodeKeys, NodesFile, check_sums, least_together
from consilium.node.checks import Advice, Check, check_certificate, check_port, check_roster, check_second
from consilium.node.flower import program
from consilium.node.keys import ENROLMENT, held_keys
from consilium.node.kit import THE_COORDINATOR, Kit
from consilium.protocol.config_files import load
from consilium.protocol.digests import Hash
from consilium.protocol.errors import ConfigError
from consilium.protocol.pool import PoolTree
from consilium.report.disclosure import epsilon_text
from consilium.sums.modes import load_roster
from consilium.sums.roster import SumRoster

NEWEST = "Open the newest update that the operator sent into this kit"
STUDENTS = TypeAdapter(dict[str, list[Hash]])
"""students.json: fingerprints of certificates, by student."""
ServedRun = Callable[[], KitRun]
"""The federation that is to be served; raises ConfigError or LedgerError where its files cannot be read."""


def set_up(kit: Kit, run: ServedRun) -> list[Check]:
    """In the order in which to mend."""
    own = [("own keys", lambda: _own_keys(kit))] if (kit / ENROLMENT).exists() else []
    return [
        *own,
        ("flower", lambda: _flower(kit)),
        ("certificate", lambda: _certificate(kit)),
        ("federation", lambda: _federation(run())),
        ("promise", lambda: promise_in_words(run().config)),
        ("roster", lambda: _roster(kit, run())),
        ("second", lambda: _second(kit, run())),
        ("public rows", lambda: _pool(kit, run())),
        ("nodes", lambda: _nodes(kit, run())),
        ("students", lambda: _students(kit)),
        ("ledger", lambda: _ledger(run())),
    ]


def ports(kit: Kit) -> list[Check]:
    """The three ports of the coordinator, by their keys in kit.json."""
    place = kit.coordinator
    return [
        ("superlink port", lambda: check_port(place.superlink_port, place.listen, "superlink_port")),
        label_port(kit),
        ("internal port", lambda: check_port(place.internal_port, "127.0.0.1", "internal_port")),
    ]


def label_port(kit: Kit) -> Check:
    """That at which students ask."""
    place = kit.coordinator
    return ("label port", lambda: check_port(place.label_port, place.listen, "label_port"))


def roster_of(kit: Kit, run: KitRun) -> SumRoster | None:
    """The roster that a run was begun with, or would be; None for plaintext votes. Raises ConfigError."""
    return load_roster(run.config.collection, run / ROSTER if (run / ROSTER).exists() else kit / ROSTER)


def _own_keys(kit: Kit) -> str:
    return f"made by the coordinator: {held_keys(kit, THE_COORDINATOR).fingerprint(kit.name)}"


def _certificate(kit: Kit) -> str:
    if (kit / ENROLMENT).exists():
        held_keys(kit, THE_COORDINATOR)  # else the certificate is of a key that is not there yet
    return check_certificate(kit.server_tls, kit.coordinator.hosts)


def _flower(kit: Kit) -> str:
    NodeKeys(kit / "nodes.json")
    for name in ("flower-superlink", "flwr"):
        program(name)
    return f"flwr {version('flwr')} is one that was tested"


def _federation(run: KitRun) -> str:
    config = run.config
    guarantee = promised(config)
    return (
        f"{config.collection} votes, {config.describe()}, at most {config.query_budget.queries} queries:"
        f" epsilon at most {epsilon_text(guarantee.epsilon)} at delta {config.privacy.delta:g},"
        f" unit {config.privacy.unit.value}"
    )


def _roster(kit: Kit, run: KitRun) -> str:
    roster = roster_of(kit, run)
    if roster is None:
        return "none: votes are clear"
    sentence = check_roster(kit, roster, run.config.roster, roster.coordinator_key.hex())
    check_sums(run.config, roster)
    return sentence


def _second(kit: Kit, run: KitRun) -> str:
    nodes, roster = load(kit / "nodes.json", NodesFile), roster_of(kit, run)
    if roster is not None and roster.second is not None and not nodes.aggregators:
        raise ConfigError(
            "nodes.json lets no second aggregator in: no vote could be checked",
            "Open the newest update of the operator",
        )
    return check_second(kit, roster)


def _pool(kit: Kit, run: KitRun) -> str:
    wanted = run.config.public
    if wanted is None:
        return "none is fixed: students may ask any rows"
    tree = PoolTree.load(file := kit.folder / "public.npy")
    if tree.terms(wanted.least_distance) != wanted:
        raise ConfigError(f"{file.name} holds other rows than the federation is fixed to", NEWEST)
    return f"{wanted.size} rows may be asked, and no others"


def _nodes(kit: Kit, run: KitRun) -> str:
    nodes, config, roster = load(kit / "nodes.json", NodesFile).nodes, run.config, roster_of(kit, run)
    least = least_together(config, 0 if roster is None else roster.least)
    if len(nodes) < least:
        raise ConfigError(
            f"{len(nodes)} parties may connect, {least} are required",
            "Add parties: consilium provision add. A federation that is open can be closed without them",
        )
    votes = config.teachers_per_party * len(nodes)
    check_threshold(config, votes)
    check_sanitised(config, votes)
    return f"{len(nodes)} parties may connect, {least} are required"


def _students(kit: Kit) -> str:
    path = kit / "students.json"
    try:
        listed = STUDENTS.validate_json(path.read_bytes())
    except (OSError, ValidationError):
        raise ConfigError(f"{path} is no list of students' certificates: nobody would be let in", NEWEST) from None
    if not listed:
        raise Advice("no student may ask", "Have the operator add one: consilium provision add --kind student")
    return f"{len(listed)} may ask: {', '.join(sorted(listed))}"


def _ledger(run: KitRun) -> str:
    SeenPositions(run / SEEN_FILE)
    if not (run / LEDGER).exists():
        return "none yet"
    ledger = Ledger(run / LEDGER, run.config.digest(), "", read_only=True)
    try:
        ledger.batches()  # follows the hash chain
        used = use_of_budget(run.config, ledger)
    finally:
        ledger.close()
    return used.describe()
