"""The round in Flower's Simulation Engine: `python -m benchmarks.peers.flower ROWS OUT`.

A plain app: the server asks every node once, a node says its votes. SuperLink and Ray start before the round is timed;
nodes read rows and questions from a file that all of them map, which is less than Flower would send.
"""

from __future__ import annotations

import os
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

import tomli_w

from benchmarks.peers.processes import MARK
from benchmarks.peers.task import Rows
from consilium.node.flower import flower_environment
from consilium.simulations.engines.flower import RAY_ALONE, flwr_run, super_link

PACKAGE = "plain_round"
PARTS = {"task.py": "task.py", "processes.py": "processes.py", "flower_server.py": "server.py",
         "flower_client.py": "client.py"}  # fmt: skip


def write_app(folder: Path, rows: Path, out: Path) -> Path:
    """The app's folder, of copies of modules that lie here."""
    package = folder / PACKAGE
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('"""A plain round."""\n')
    for source, target in PARTS.items():
        shutil.copy(Path(__file__).with_name(source), package / target)
    app = {
        "publisher": "consilium",
        "fab-include": [f"{PACKAGE}/*.py"],
        "components": {"serverapp": f"{PACKAGE}.server:app", "clientapp": f"{PACKAGE}.client:app"},
        "config": {"rows": str(rows), "out": str(out)},
    }
    project = {
        "name": "plain-round",
        "version": "1.0.0",
        "description": "One round",
        "license": "Apache-2.0",
        "dependencies": [f"flwr=={version('flwr')}"],
    }
    (folder / "pyproject.toml").write_text(tomli_w.dumps({"project": project, "tool": {"flwr": {"app": app}}}))
    return folder


def main(rows: Path, out: Path) -> None:
    """See `task.measured`. Raises SystemExit where the app did not end well."""
    work = out / "flower"
    environment = {**flower_environment(work / "home"), **RAY_ALONE, MARK: os.environ[MARK]}
    app = write_app(work / "app", rows, out)
    (out / "version").write_text(f"Flower {version('flwr')}, Ray {version('ray')}")
    nodes = f"num-supernodes={len(Rows.load(rows).ends)} client-resources-num-cpus=1"
    with super_link(work, environment, "--simulation", "--isolation", "subprocess") as address:
        flwr_run(app, address, work, environment, "--federation-config", nodes)
    if not (out / "seconds.json").exists():
        raise SystemExit(f"Flower's app did not end well, see {work / 'superlink.log'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
