"""Runs on a Ray cluster of two machines that share no folder, one of which loses power in the middle.

A machine is a network, mount and process namespace. It takes about four minutes: `make proofs`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import tomli_w

from consilium.coordinator.verify import holds
from consilium.simulations.audit import audit_path
from consilium.simulations.engines.block import Block
from consilium.simulations.engines.cluster_node import FOLDER
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from tests.simulations.engines.cluster.two_machines import TwoMachines, why_not
from tests.simulations.study.tiny import SCENARIO, rows

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.proofs,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "can be made"),
]
SABOTAGE = Path(__file__).parent / "sabotage"
PARTIES = 8
SECONDS = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of runs and rows, on the first machine alone."""
    made = tmp_path_factory.mktemp("runs")
    rows().write_csv(made / "rows.csv")
    federation = {**SCENARIO["federation"], "minimum_parties": PARTIES}
    (made / "tiny.toml").write_text(tomli_w.dumps({**SCENARIO, "federation": federation}))
    return made


@pytest.fixture(scope="module")
def machines(folder: Path) -> Iterator[TwoMachines]:
    with TwoMachines([folder]) as made:
        yield made


def on_cluster(machines: TwoMachines, folder: Path, out: str, votes: str) -> int:
    """Exit code of a run there."""
    arguments = ["--engine", "ray", "--address", machines.address, "--out", str(folder / out), "--keep-work"]
    arguments += ["--set", f"federation.collection={votes}", "--quiet"]
    process = machines.start(folder / f"{out}.log", "run", str(folder / "tiny.toml"), *arguments)
    try:
        return process.wait(SECONDS)
    finally:
        process.kill()


def here(folder: Path, votes: str) -> Path:
    """The same run with the local engine."""
    out = folder / f"local-{votes}"
    if not out.exists():
        scenario = load_scenario(str(folder / "tiny.toml"), [f"federation.collection={votes}"])
        run_scenario("tiny", scenario, "local", 0, out, keep_work=True)
    return out


def same(there: Path, local: Path) -> None:
    """Whatever the run says, and what each party has written down, is the same; and the audit holds."""
    assert pl.read_parquet(there / "labels.parquet").equals(pl.read_parquet(local / "labels.parquet"))
    summaries = [json.loads((out / "summary.json").read_text()) for out in (there, local)]
    for summary in summaries:
        for key in ("engine", "seconds", "out"):
            del summary[key]
    assert summaries[0] == summaries[1]
    names = [{path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()} for out in (there, local)]
    flower = {name for name in names[0] if name.startswith("private/work/flower/")}
    assert names[0] - flower - {"private/cluster.json"} == names[1]
    for party in range(PARTIES):
        homes = [out / "private/work/parties" / f"{party:05d}" for out in (there, local)]
        blocks = [Block.open(home) for home in homes]
        assert len(blocks[1].settings.names) == 1
        assert given(blocks[0]) == given(blocks[1])
        for path in homes[1].rglob("*"):
            if path.is_file() and path.suffix not in (".db", ".pickle"):
                assert (homes[0] / path.relative_to(homes[1])).read_bytes() == path.read_bytes()
    assert holds(audit_path(there).findings)


def given(block: Block) -> tuple[Any, ...]:
    """What the block's one party has given, without what says only which ledger it was for, and what it has trained."""
    ((federation, _), trained), *_ = block.teachers.items()
    return block.node(0).spend.answered_in(federation), block.node(0).spend.past(federation), trained.digest


def figures(out: Path) -> dict[str, Any]:
    return json.loads((out / "private/cluster.json").read_text())


def test_a_run_without_a_common_folder_is_the_run_of_one_machine(machines: TwoMachines, folder: Path) -> None:
    assert on_cluster(machines, folder, "far", "plaintext") == 0, (folder / "far.log").read_text()
    same(folder / "far", here(folder, "plaintext"))
    told = figures(folder / "far")
    assert sorted(node["of_the_run"] for node in told["nodes"]) == [False, True]
    assert all(node["messages"] > 0 for node in told["nodes"])
    assert told["lost"] == 0
    # nothing of any party stays on a machine that computed
    assert not machines.files("other", f"tmp/{FOLDER}-*/*/parties")
    assert not list(Path("/tmp").glob(f"{FOLDER}-*/*/parties"))


def test_a_machine_that_loses_power_changes_nothing(machines: TwoMachines, folder: Path) -> None:
    """Right after a block there has answered, and before anybody has its answer."""
    name = "dies"
    path = f"{SABOTAGE}:{machines.environment()['PYTHONPATH']}"
    machines.add(name, POWER_FAILS_AT="query.sa_masked", PYTHONPATH=path)
    assert on_cluster(machines, folder, name, "secure") == 0, (folder / f"{name}.log").read_text()
    assert machines.off(name), "the machine lost no power"
    told = figures(folder / name)
    assert told["lost"] > 0
    assert len(told["nodes"]) == 3, "one of the three machines computed nothing"
    same(folder / name, here(folder, "secure"))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--party-gpus", "0.5"], "needs 0.5 of a GPU, and no node of the cluster"),
        (["--party-cpus", "2"], "a party needs 2 CPUs, and no node of the cluster has more than 1"),
    ],
)
def test_what_the_cluster_has_not_is_told_before_anything_is_made(
    machines: TwoMachines, folder: Path, options: list[str], told: str
) -> None:
    out = folder / "nothing"
    arguments = ["run", str(folder / "tiny.toml"), "--engine", "ray", "--address", machines.address, *options]
    process = machines.start(folder / "nothing.log", *arguments, "--out", str(out))
    assert process.wait(SECONDS) == 8
    assert told in " ".join((folder / "nothing.log").read_text().split())
    assert not out.exists()
