"""Processor seconds of a hidden sum where each node is a machine of its own, beside Flower's bare app.

    python -m benchmarks.deployment

Four hospitals, a coordinator and a student, made and started by the commands that people type, all on this machine. A
sum is four questions in `secure`, five exchanges. What counts is all that a node's `node start` and its children spent
meanwhile, less what they spend when nothing is asked. Beside it stands the least that Flower itself takes for as many
exchanges: a client app that answers with what it was sent, on Flower's own programs without TLS and keys. Processor
seconds, not seconds: other programs on the machine change little.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import tomli_w

from benchmarks.results import command_of, table
from consilium.node.flower import flower_environment, free_port, program
from consilium.node.supervisor import end
from tests.deploy.site import NOISY, family, make_site, running

HOSPITALS = ("ward-a", "ward-b", "ward-c", "ward-d")
QUESTIONS, EXCHANGES, SUMS = 4, 5, 2
IDLE_SECONDS = 30.0
COLUMNS = ("node", "a sum", "Flower's bare app", "idle, a minute", "bare app idle")
SERVER = f"""
import time
from pathlib import Path
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()
here = Path(HERE)

@app.main()
def main(grid, context):
    while len(list(grid.get_node_ids())) < {len(HOSPITALS)}:
        time.sleep(0.5)
    (here / "ready").touch()
    while not (here / "go").exists():
        time.sleep(1)
    content = RecordDict({{"sent": ConfigRecord({{"bytes": bytes(1000)}})}})
    for _ in range({EXCHANGES * SUMS}):
        nodes = list(grid.get_node_ids())
        asked = [Message(content, dst_node_id=node, message_type="query.echo", group_id="0") for node in nodes]
        assert not any(reply.has_error() for reply in grid.send_and_receive(asked, timeout=300))
    (here / "done").touch()
"""
CLIENT = """
from flwr.app import Message
from flwr.clientapp import ClientApp

app = ClientApp()

@app.query("echo")
def echo(message, context):
    return Message(message.content, reply_to=message)
"""


class Spent(NamedTuple):
    """Processor seconds of a node: of one sum more than idle, and of a minute of idleness."""

    sum: float
    idle: float


def spent(pid: int) -> float:
    """Processor seconds of a process, of all that come from it, and of those of them that have ended."""
    ticks = 0
    for each in family(pid):
        with contextlib.suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def measured(nodes: Mapping[str, int], sums: Callable[[], object]) -> dict[str, Spent]:
    """Of each node, by the id of its first process: while nothing is asked, and while `sums` ends `SUMS` of them."""
    marks = [(time.monotonic(), {name: spent(pid) for name, pid in nodes.items()})]
    for wait in (lambda: time.sleep(IDLE_SECONDS), sums):
        wait()
        marks.append((time.monotonic(), {name: spent(pid) for name, pid in nodes.items()}))
    (t0, before), (t1, between), (t2, after) = marks
    rates = {name: (between[name] - before[name]) / (t1 - t0) for name in nodes}
    return {
        name: Spent((after[name] - between[name] - rate * (t2 - t1)) / SUMS, rate * 60) for name, rate in rates.items()
    }


def consilium(folder: Path) -> dict[str, Spent]:
    """Of the deployed federation."""
    site = make_site(folder, HOSPITALS, minimum_parties=3, **NOISY)
    with running(site, ["coordinator", *HOSPITALS]) as federation:
        federation.serving()
        federation.asked("first", 0, QUESTIONS)  # teachers are trained, and all that is loaded once is loaded
        nodes = {name: service.process.pid for name, service in federation.services.items() if service.process}

        def sums() -> None:
            for number in range(SUMS):
                federation.asked(f"student-{number}", QUESTIONS * (1 + number), QUESTIONS)

        return measured(nodes, sums)


@contextlib.contextmanager
def programs(folder: Path) -> Iterator[dict[str, int]]:
    """Flower's own SuperLink, SuperNodes and `flwr run` of the bare app, which waits; ids of their processes."""
    package, at, port = folder / "app" / "bare", ["--host", "127.0.0.1", "--port"], free_port()
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "server.py").write_text(f"HERE = {str(folder)!r}\n{SERVER}")
    (package / "client.py").write_text(CLIENT)
    components = {"serverapp": "bare.server:app", "clientapp": "bare.client:app"}
    app = {"publisher": "bare", "components": components, "fab-include": ["bare/*.py"], "config": {}}
    project = {"name": "bare", "version": "1.0.0", "description": "x", "license": "x", "dependencies": []}
    (package.parent / "pyproject.toml").write_text(tomli_w.dumps({"project": project, "tool": {"flwr": {"app": app}}}))
    commands = {"coordinator": ["flower-superlink", "--insecure", *at, str(port)]}
    node = ["flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}", *at]
    commands |= {name: [*node, str(free_port())] for name in HOSPITALS}
    link = {"default": "bare", "bare": {"address": f"127.0.0.1:{port}", "insecure": True}}
    processes = {}
    try:
        for name, (first, *rest) in [*commands.items(), ("run", ["flwr", "run", "app", "bare", "--stream"])]:
            environment = flower_environment(folder / name)
            (folder / name / "config.toml").write_text(tomli_w.dumps({"superlink": link}))
            processes[name] = subprocess.Popen(
                [program(first), *rest], cwd=folder, env=environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            time.sleep(10 if name == "coordinator" else 0)  # `flwr run` does not wait for it
        yield {name: process.pid for name, process in processes.items()}
    finally:
        for process in processes.values():
            end(process)


def bare(folder: Path) -> dict[str, Spent]:
    """Of Flower alone."""

    def until(mark: str) -> None:
        while not (folder / mark).exists():
            time.sleep(0.2)

    with programs(folder) as nodes:
        until("ready")

        def sums() -> None:
            (folder / "go").touch()
            until("done")

        found = measured(nodes, sums)
    run = found.pop("run")  # it is the coordinator's too
    return {**found, "coordinator": Spent(*map(sum, zip(found["coordinator"], run, strict=True)))}


def mean(found: Iterable[Spent]) -> Spent:
    """Of several nodes."""
    return Spent(*(sum(values) / len(values) for values in zip(*found, strict=True)))


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        own, flower = consilium(Path(folder) / "own"), bare(Path(folder) / "bare")
    split = f"nobody judges: {len(HOSPITALS)} hospitals, mean of {SUMS} sums of {QUESTIONS} questions"
    with table("deployment", command_of("benchmarks.deployment", arguments or []), COLUMNS, split=split) as lines:
        for name, chosen in (("a hospital", HOSPITALS), ("the coordinator", ("coordinator",))):
            ours, theirs = (mean(found[node] for node in chosen) for found in (own, flower))
            cells = ours.sum, theirs.sum, ours.idle, theirs.idle
            lines.add(name, *(f"{value:.2f}" for value in cells))


if __name__ == "__main__":
    main(sys.argv[1:])
