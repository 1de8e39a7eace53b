"""Flower ServerApp of the coordinator: Grid and Context in, one call of `FederationRun`.

run_config: `kit` (the coordinator's: its list of nodes says who is waited for, and its label service uses mutual TLS
and serves one student after another until the file `close` is in the run folder); `federation-file` (configuration),
`run-dir` (where ledger and events go); for all but plaintext votes `roster-file` and `identity-file` (the coordinator's
signing key), for verified ones `sealing-file` as well (its key of the link to the second aggregator); `public-file`
(all rows that may be asked, where they were fixed beforehand).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from consilium.coordinator.collection.exchange import FlowerTransport, Transport
from consilium.coordinator.collection.means import VoteKeys
from consilium.coordinator.collection.ways import IDENTITY_FILE, ROSTER_FILE, SEALING_FILE, WAYS
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.deploy.runs import CLOSE, KitRun, asked_before
from consilium.coordinator.door import Door
from consilium.coordinator.events import EventLog
from consilium.coordinator.federation import FederationRun
from consilium.coordinator.rosters import RegisteredNodes
from consilium.node.kit import Kit, joined, open_kit
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError, ConsiliumError
from consilium.protocol.files import replace_private, typed
from consilium.protocol.identity import Identity, SealingKey
from consilium.protocol.messages import CollectionMode
from consilium.protocol.pool import PoolTree
from consilium.sums.modes import load_roster

app = ServerApp()


READERS: Mapping[str, Callable[[CollectionMode, Path], Any]] = {
    ROSTER_FILE: load_roster,
    IDENTITY_FILE: lambda _, path: Identity.load(path),
    SEALING_FILE: lambda _, path: SealingKey.load(path),
}


def keys_of(context: Context, collection: CollectionMode) -> VoteKeys:
    """Roster and keys from the files that the run config names. Raises ConfigError."""
    way = WAYS[collection]
    paths = {key: str(context.run_config.get(key) or "") for key in way.files}
    if missing := [key for key, path in paths.items() if not path]:
        raise ConfigError(
            f"run_config has no {' or '.join(missing)}",
            f"{collection} votes need {', '.join(way.files)}; see docs/flower.md",
        )
    return way.keys(*(READERS[key](collection, Path(path)) for key, path in paths.items()))


def pool_tree(context: Context) -> PoolTree | None:
    """The public pool whose file the run config names, if it names one. Raises ConfigError."""
    name = str(context.run_config.get("public-file") or "")
    return PoolTree.load(Path(name)) if name else None


def door_of(kit: Kit, run_dir: Path) -> Door:
    """Where students come in: at the port that kit.json says now, whatever it was when the kits were made."""
    place = kit.coordinator
    address = joined(place.listen, place.label_port)
    return Door(kit.server_tls, kit / "students.json", run_dir / CLOSE, address)


@app.main()
def main(grid: Grid, context: Context) -> None:
    """One run; see `serve`."""
    serve(FlowerTransport(grid), context)


def serve(transport: Transport, context: Context) -> None:
    """One run."""
    given = {key: str(context.run_config.get(key) or "") for key in ("kit", "federation-file", "run-dir")}
    if missing := [key for key, value in given.items() if not value]:
        raise ConfigError(
            f"run_config has no {' or '.join(missing)}", "Start it with `consilium node start` in the coordinator's kit"
        )
    run_dir = Path(given["run-dir"])
    run_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = EventLog(run_dir / "events.jsonl")
    with contextlib.closing(log), telling_failure(run_dir, log):
        config = load(Path(given["federation-file"]), FederationConfig)
        keys, kit = keys_of(context, config.collection), open_kit(Path(given["kit"]), "coordinator")
        spent = asked_before(kit, KitRun(run_dir, config))
        pool, nodes = pool_tree(context), RegisteredNodes(kit.folder)
        FederationRun(transport, config, run_dir, log, None, keys, door_of(kit, run_dir), pool, nodes, spent).run()


@contextlib.contextmanager
def telling_failure(run_dir: Path, log: EventLog) -> Iterator[None]:
    """A typed error is written to the run folder as `failure.json`, and into its event log, before it is raised."""
    try:
        yield
    except (ConsiliumError, OSError) as error:
        known = error if isinstance(error, ConsiliumError) else typed(error, run_dir)
        if known is None:
            raise
        failure = {"error": type(known).__name__, "what": known.what, "action": known.action}
        with contextlib.suppress(OSError):  # on a full disk the error itself is what matters
            replace_private(run_dir / "failure.json", json.dumps(failure) + "\n")
            log.write("failed", **failure)
        raise
