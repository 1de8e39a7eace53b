"""A node runs its installed code: the names inside Flower that this rests on, forks that answer, and a foreign bundle.

The last is a real run: SuperLink and SuperNode, and an app that somebody submits."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tomli_w
from flwr.clientapp import ClientApp
from flwr.supercore.constant import TaskType
from flwr.supercore.superexec.executor.types import ExecutionSpec, LaunchResultStatus

import consilium.node.flower
from consilium.node import apps
from consilium.node.apps import PROGRAM, Forks, check_flower, write_programs
from consilium.node.flower import (
    BEFORE,
    FIRST,
    FLEET_NAMES,
    fleet_scheme,
    flower_environment,
    free_port,
    program,
    require_flower,
)
from consilium.node.supervisor import Program, end, started
from consilium.protocol.errors import EngineError
from consilium.simulations.engines import flower as of_simulations
from tests.deploy.edge import until

runtime = import_module(apps.RUNTIME)
SAYS = r"flwr \d+\.\d+.* is installed, .* needs flwr >= 1\.42, < 1\.44"
ALL = [
    pytest.param(check, module, name, id=f"{module}.{name}")
    for check, names in (
        (check_flower, apps.NAMES),
        (fleet_scheme, FLEET_NAMES),
        (lambda: of_simulations._task_identity.__wrapped__(), of_simulations.NAMES),
    )
    for module, wanted in names.items()
    for name in wanted
]


class TestFlower:
    """Without one of the names nothing starts. The control is what was done before: it set names whether Flower looked
    there or not, and raised nothing; Flower unpacked the bundle."""

    @pytest.mark.parametrize(("check", "module", "name"), ALL)
    def test_without_a_name_nothing_starts(self, monkeypatch, check, module: str, name: str) -> None:
        owner, _, attribute = name.rpartition(".")
        holder = getattr(import_module(module), owner) if owner else import_module(module)
        monkeypatch.delattr(holder, attribute)
        with pytest.raises(EngineError, match=SAYS) as error:
            check()
        assert f"{module}.{name}" in str(error.value)

    @pytest.mark.parametrize(
        ("version", "known"), [("1.41.9", False), ("1.42.0", True), ("1.44.0", False), ("nightly", False)]
    )
    def test_another_version_is_refused(self, monkeypatch, version: str, known: bool) -> None:
        monkeypatch.setattr(consilium.node.flower, "version", lambda _: version)
        if known:
            return require_flower({})
        with pytest.raises(EngineError, match="it is another version"):
            require_flower({})

    def test_the_versions_are_those_of_the_package(self) -> None:
        project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
        first, before = (".".join(map(str, end)) for end in (FIRST, BEFORE))
        every = [project["dependencies"], *project["optional-dependencies"].values()]
        named = [text for group in every for text in group if re.match(r"flwr\W", text)]
        ranges = {re.sub(r"\[.*?\]", "", text) for text in named if "flwr-datasets" not in text}
        assert ranges == {f"flwr>={first},<{before}"}

    @pytest.mark.parametrize(
        ("module", "name", "other", "said"),
        [
            (apps.RUNTIME, "install_from_fab", None, "does not call install_from_fab"),
            (apps.LOOP, "run_superexec", lambda **_: None, "run_superexec is from elsewhere"),
            (apps.RUNTIME, "run_clientapp", lambda **_: None, "run_clientapp is from elsewhere"),
            (apps.STARTER, "subprocess", SimpleNamespace(Popen=subprocess.Popen), "another program than"),
            (apps.STARTER, "start_client_internal", lambda: subprocess.Popen(["flower-exec"]), "another program than"),
        ],
    )
    def test_what_is_done_in_another_way_is_refused(self, monkeypatch, module, name, other, said) -> None:
        if other is None:  # a process that unpacks bundles by other means
            made = SimpleNamespace()
            calls = "\n    ".join(f"{called}()" for called in apps.REPLACED if called != name)
            exec(f"def process():\n    unpack_bundle('bundle')\n    {calls}\n", vars(runtime), vars(made))
            name, other = "run_clientapp", made.process
        monkeypatch.setattr(import_module(module), name, other)
        with pytest.raises(EngineError, match=said):
            check_flower()


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("flwr-serverapp", 1, "a node runs its own code only"),
        ("flwr-clientapp", 1, "a node runs its own code only"),
        (PROGRAM, 2, "usage: flower-superexec"),
    ],
)
def test_programs_come_first_in_the_path_and_others_refuse(tmp_path: Path, name: str, code: int, said: str) -> None:
    folder = write_programs(tmp_path / "programs", "consilium.party.client_app")
    found = flower_environment(tmp_path / "flower", folder)
    assert found["PATH"].startswith(str(folder))
    done = subprocess.run([name], env=found, capture_output=True, text=True, check=False)
    assert done.returncode == code and said in done.stderr


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in apps.REPLACED:
        monkeypatch.setattr(runtime, name, getattr(runtime, name))


def test_of_a_bundle_nothing_is_unpacked_and_the_installed_app_is_loaded(restored) -> None:
    app = ClientApp()
    Forks(app)
    assert runtime.install_from_fab(b"not even a zip", skip_prompt=True) is None
    assert runtime.install_app_dependencies(Path(), launch_id="", run_id=1, index_context={}) is None
    load = runtime.get_load_client_app_fn(default_app_ref="", app_path=None, multi_app=True)
    assert load("someone/app", "1.0", "hash") is app


def task(kind: TaskType = TaskType.CLIENT_APP) -> ExecutionSpec:
    return ExecutionSpec(kind, "127.0.0.1:1", "secret-token", True, None, False, os.getpid(), False, 1)


def forks(monkeypatch: pytest.MonkeyPatch, run: Callable[..., None]) -> Forks:
    """Whose children run this in place of Flower's process."""
    monkeypatch.setattr(runtime, "run_clientapp", run)
    return Forks(ClientApp())


class TestForks:
    def test_only_tasks_of_the_own_kind_are_asked_for_and_taken(self, restored) -> None:
        executor = Forks(ClientApp())
        assert executor.get_eligible_capacity({*TaskType}, insecure=True) == ({TaskType.CLIENT_APP}, set())
        for kind in {*TaskType} - {TaskType.CLIENT_APP}:
            assert executor.launch(task(kind)).status is LaunchResultStatus.FAILED

    def test_a_child_gets_the_task_and_its_token_stands_in_no_list_of_processes(
        self, restored, monkeypatch, tmp_path
    ) -> None:
        def run(**given: Any) -> None:
            found = Path("/proc/self/cmdline").read_bytes() if Path("/proc/self").exists() else b""
            (tmp_path / "done").write_text(f"{given['token']} {os.getpid()} {b'secret-token' in found}")
            sys.exit(0)

        executor = forks(monkeypatch, run)
        assert executor.launch(task()).status is LaunchResultStatus.ACCEPTED
        done = tmp_path / "done"
        until(lambda: done.exists() and done.read_text())
        token, pid, listed = done.read_text().split()
        assert (token, listed) == ("secret-token", "False")
        assert int(pid) != os.getpid()

    @pytest.mark.parametrize("end", [lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: 1 / 0, sys.exit])
    def test_whatever_a_child_does_it_ends_there_and_leaves_nothing(self, restored, monkeypatch, end) -> None:
        executor = forks(monkeypatch, lambda **_: end())
        before, others = os.getpid(), children()
        executor.launch(task())
        assert os.getpid() == before
        while children() - others:  # the time limit of all tests is the only one
            executor.reconcile()


def children() -> set[str]:
    """Numbers of this process's children, of all its threads, also of those that nobody has let go of."""
    return {number for path in Path("/proc/self/task").glob("*/children") for number in path.read_text().split()}


SERVER_PY = """
from pathlib import Path
import time
from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()

@app.main()
def main(grid, context):
    while len(nodes := list(grid.get_node_ids())) < 2:
        time.sleep(0.2)
    messages = [Message(RecordDict(), dst_node_id=n, message_type="query.steal", group_id="0") for n in nodes]
    replies = list(grid.send_and_receive(messages, timeout=300))
    Path(OUTCOME).write_text(" ".join(sorted("error" if reply.has_error() else "answered" for reply in replies)))
"""
CLIENT_PY = """
import os
from pathlib import Path
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp

Path(os.environ["FLWR_HOME"], "imported").touch()
app = ClientApp()

@app.query("steal")
def steal(message, context):
    return Message(RecordDict(), reply_to=message)
"""


def write_foreign_app(folder: Path, outcome: Path) -> Path:
    package = folder / "foreign"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "server.py").write_text(f"OUTCOME = {str(outcome)!r}\n{SERVER_PY}")
    (package / "client.py").write_text(CLIENT_PY)
    components = {"serverapp": "foreign.server:app", "clientapp": "foreign.client:app"}
    app = {"publisher": "someone", "components": components, "fab-include": ["foreign/*.py"], "config": {}}
    project = {"name": "foreign", "version": "1.0.0", "description": "x", "license": "x", "dependencies": []}
    (folder / "pyproject.toml").write_text(tomli_w.dumps({"project": project, "tool": {"flwr": {"app": app}}}))
    return folder


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.deploy
@pytest.mark.timeout(240)
def test_a_foreign_bundle_runs_nothing_at_a_party(tmp_path: Path) -> None:
    """The control is a SuperNode of Flower's own beside it, which runs it."""
    port, told = free_port(), tmp_path / "outcome"
    app = write_foreign_app(tmp_path / "app", told)
    party = write_programs(tmp_path / "programs", "consilium.party.client_app")
    at, home = ["--host", "127.0.0.1", "--port"], tmp_path / "home"
    link = [program("flower-superlink"), "--insecure", *at, str(port)]
    node = [program("flower-supernode"), "--insecure", "--superlink", f"127.0.0.1:{port}", *at]
    nodes = [[*node, str(free_port())] for _ in range(2)]
    commands = {"link": (link, ()), "party": (nodes[0], (party,)), "other": (nodes[1], ())}
    with ExitStack() as stack:
        running = [
            started(Program(name, command, tmp_path, flower_environment(tmp_path / name, *programs)))
            for name, (command, programs) in commands.items()
        ]
        for process in running:
            stack.callback(end, process)
        home.mkdir()
        table = {"default": "own", "own": {"address": f"127.0.0.1:{port}", "insecure": True}}
        (home / "config.toml").write_text(tomli_w.dumps({"superlink": table}))
        until(lambda: listens(port))
        submit = [program("flwr"), "run", str(app), "own"]
        done = subprocess.run(submit, env=flower_environment(home), capture_output=True, text=True, check=False)
        assert "uccess" in done.stdout, done.stdout + done.stderr
        until(lambda: told.exists() or any(process.poll() is not None for process in running))
    assert told.read_text() == "answered error"
    assert [(tmp_path / name / "imported").exists() for name in ("party", "other")] == [False, True]
    assert [bool(list((tmp_path / name).rglob("*foreign*"))) for name in ("party", "other")] == [False, True]
