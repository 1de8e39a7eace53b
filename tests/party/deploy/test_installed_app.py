"""A party runs its installed code: the names inside Flower that this rests on, and a foreign bundle that finds nothing.

The second is a real run: SuperLink, gateway and a party from kits; somebody on the coordinator's machine submits an app
of their own.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from pathlib import Path

import pytest
import tomli_w
from flwr.supercore.constant import TASK_TYPE_TO_COMMAND
from flwr.supercore.superexec.executor import subprocess_executor
from flwr.supernode.runtime import run_clientapp as flower

import consilium.party.client_app
from consilium.coordinator.deploy.start import gateway, listens
from consilium.coordinator.deploy.superlink import (
    CONNECTION,
    environment,
    loopback_tls,
    prepare,
    super_link,
    sync_nodes,
)
from consilium.node.flower import flower_environment, program
from consilium.node.installed_app import OTHERS, PROGRAM, REPLACED, ignore_bundles, write_programs
from consilium.node.kit import open_kit
from consilium.node.supervisor import Supervisor
from consilium.party.deployed import PARTY
from tests.deploy.kits import make_kits

pytestmark = pytest.mark.slow


def test_flower_starts_what_is_replaced() -> None:
    assert sorted(TASK_TYPE_TO_COMMAND.values()) == sorted([PROGRAM, *OTHERS])
    assert subprocess_executor.subprocess is subprocess  # by name, so that PATH decides


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is replaced comes back after the test."""
    for name in REPLACED:
        monkeypatch.setattr(flower, name, getattr(flower, name))


def test_the_replacement_runs_the_installed_app_and_unpacks_nothing(restored) -> None:
    before = {name: getattr(flower, name) for name in REPLACED}
    ignore_bundles(consilium.party.client_app.app)
    assert all(getattr(flower, name) is not before[name] for name in REPLACED)
    assert flower.install_from_fab(b"not even a zip", skip_prompt=True) is None
    assert flower.install_app_dependencies(Path(), launch_id="", run_id=1, index_context={}) is None
    load = flower.get_load_client_app_fn(default_app_ref="", app_path=None, multi_app=True)
    assert load("someone/app", "1.0", "hash") is consilium.party.client_app.app


@pytest.mark.slow
def test_programs_come_first_in_the_path_and_others_refuse(tmp_path: Path) -> None:
    folder = write_programs(tmp_path / "programs", PARTY.app)
    found = flower_environment(tmp_path / "flower", folder)
    assert found["PATH"].startswith(str(folder))
    done = subprocess.run(["flwr-serverapp"], env=found, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "a node runs its own code only" in done.stderr
    done = subprocess.run([PROGRAM, "--help"], env=found, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "Run a Flower ClientApp" in done.stdout


SERVER = """
from pathlib import Path
import time
from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()

@app.main()
def main(grid, context):
    for _ in range(600):
        if list(grid.get_node_ids()):
            break
        time.sleep(0.5)
    nodes = list(grid.get_node_ids())
    messages = [Message(RecordDict(), dst_node_id=n, message_type="query.steal", group_id="0") for n in nodes]
    replies = list(grid.send_and_receive(messages, timeout=300))
    Path(OUTCOME).write_text("\\n".join("error" if reply.has_error() else "answered" for reply in replies))
"""
CLIENT = """
from pathlib import Path
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp

Path(MARKER).write_text("imported")
app = ClientApp()

@app.query("steal")
def steal(message, context):
    Path(MARKER).write_text("ran")
    return Message(RecordDict(), reply_to=message)
"""


def write_foreign_app(folder: Path, outcome: Path, marker: Path) -> Path:
    package = folder / "foreign"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "server.py").write_text(f"OUTCOME = {str(outcome)!r}\n{SERVER}")
    (package / "client.py").write_text(f"MARKER = {str(marker)!r}\n{CLIENT}")
    components = {"serverapp": "foreign.server:app", "clientapp": "foreign.client:app"}
    app = {"publisher": "someone", "components": components, "fab-include": ["foreign/*.py"], "config": {}}
    project = {"name": "foreign", "version": "1.0.0", "description": "x", "license": "x", "dependencies": []}
    (folder / "pyproject.toml").write_text(tomli_w.dumps({"project": project, "tool": {"flwr": {"app": app}}}))
    return folder


@pytest.mark.deploy
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_foreign_bundle_runs_nothing_at_a_party(tmp_path: Path) -> None:
    out = make_kits(tmp_path)
    kit, ward = open_kit(out / "coordinator"), open_kit(out / "party-ward-a")
    outcome, marker = tmp_path / "outcome", tmp_path / "marker"
    app = write_foreign_app(tmp_path / "app", outcome, marker)
    told: list[str] = []

    def tell(name: str, what: str) -> None:
        told.append(f"{name}: {what}")

    stop = threading.Event()
    prepare(kit, lambda *_: None)
    with contextlib.ExitStack() as stack:
        stack.enter_context(Supervisor([super_link(kit), gateway(kit)], tell))
        wait(lambda: listens(kit.coordinator.internal_port) and listens(kit.coordinator.superlink_port))
        sync_nodes(kit, tell)
        party = threading.Thread(target=PARTY.start, args=(ward, tell, stop))
        party.start()
        stack.callback(party.join)
        stack.callback(stop.set)
        wait(lambda: "supernode: connected to the coordinator" in told)

        def submit(address: str, authority: Path) -> str:
            home = tmp_path / "home"
            home.mkdir(exist_ok=True)
            link = {"address": address, "root-certificates": str(authority)}
            (home / "config.toml").write_text(tomli_w.dumps({"superlink": {"default": CONNECTION, CONNECTION: link}}))
            return subprocess.run(
                [program("flwr"), "run", str(app), CONNECTION], env={**environment(kit), "FLWR_HOME": str(home)},
                capture_output=True, text=True, check=False,
            ).stdout  # fmt: skip

        assert "uccess" not in submit(kit.coordinator.superlink, kit.authority)  # from anywhere but its own machine
        assert not outcome.exists()
        assert "uccess" in submit(kit.coordinator.internal, loopback_tls(kit).authority)
        wait(outcome.exists)
        assert outcome.read_text() == "error"
    assert not marker.exists()
    assert not list((ward.state / "flower").rglob("*foreign*"))


def wait(true) -> None:
    """For what must come; the test's own time limit is the only one."""
    while not true():
        time.sleep(0.1)
