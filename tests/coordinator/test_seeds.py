"""A seed decides nothing outside a simulation: neither noise nor teachers, whoever sets it."""

from __future__ import annotations

import ast
from functools import partial
from pathlib import Path

import pytest
import tomli_w

import consilium.coordinator.label_service
import consilium.party.node
from consilium.accounting.mechanisms import GNMax
from consilium.coordinator.config import QueryBudget
from consilium.coordinator.federation import FederationRun, normal_for
from consilium.coordinator.label_service import noise_for
from consilium.protocol.config_files import read_table
from consilium.protocol.label_source import LabelSource
from consilium.protocol.noise import SeededNoise, SystemNoise
from tests.federation import FakeTransport, make_config, make_homes, make_rows, make_secure
from tests.federation import HomeFile as PartyFile

ROOT = Path(__file__).resolve().parents[2]
DEPLOYED = {"simulation": False, "seed": -1, "noise_seed": None}
MAY_SEED = {
    "aggregator/node.py",  # only in a federation whose terms say that it is a simulation, at a home that allows one
    "coordinator/collection/verified.py",  # as noise_for
    "coordinator/label_service.py",  # noise_for: None in a configuration outside simulations
    "coordinator/cli.py",  # `consilium audit mechanism` draws on made-up votes
    "party/node.py",  # only in a federation whose terms say that it is a simulation
    "simulations/papers/measure.py",  # the papers' rows on their public votes, as often as there are seeds
    "simulations/attack/attacks.py",  # games on a simulated case, whose answers nobody gets
}


def test_nobody_else_can_make_seeded_noise() -> None:
    makers = set()
    for path in ROOT.glob("*/**/*.py"):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith((".", "tests/", "benchmarks/", "build/")):
            continue
        text = path.read_text(encoding="utf-8")
        for part in ast.walk(ast.parse(text)) if "SeededNoise" in text else ():
            called = part.func if isinstance(part, ast.Call) else None
            if getattr(called, "id", getattr(called, "attr", "")) == "SeededNoise":
                makers.add(name)
    assert makers == MAY_SEED


def test_the_coordinator_draws_from_the_system() -> None:
    deployed = make_config(**DEPLOYED)
    assert [type(noise_for(deployed)(batch)) for batch in range(3)] == [SystemNoise] * 3
    assert normal_for(deployed) is None
    assert isinstance(noise_for(make_config())(0), SeededNoise)  # the control: a simulation with a seed
    for seeded in ({"noise_seed": 1}, {"seed": 1}):
        with pytest.raises(ValueError, match=r"simulation = true"):
            make_config(**(DEPLOYED | seeded))


def with_seed(homes: list[Path]) -> list[Path]:
    """Every party's file names a seed for its noise, and allows simulations."""
    for home in homes:
        settings = read_table(home / "party.toml") | {"simulated_noise_seed": 5}
        (home / "party.toml").write_text(tomli_w.dumps(settings))
        assert PartyFile.model_validate(settings).policy.allow_simulation
    return homes


@pytest.mark.parametrize("simulation", [False, True])
def test_a_whole_federation_makes_no_seeded_noise(
    tmp_path: Path, log, monkeypatch: pytest.MonkeyPatch, simulation: bool
) -> None:
    """Seeds stand in every party's file; they count in a simulation only."""
    made = set[str]()

    def watched(module: str, seed: int) -> SeededNoise:
        made.add(module)
        return SeededNoise(seed)

    for module in (consilium.coordinator.label_service, consilium.party.node):
        monkeypatch.setattr(module, "SeededNoise", partial(watched, module.__name__.rpartition(".")[2]))
    homes = with_seed(make_homes(tmp_path / "homes", 5))
    keys = make_secure(homes, tmp_path)
    config = make_config(
        mechanism=GNMax(sigma=4.0),
        collection="secure",
        roster=keys.roster.digest,
        query_budget=QueryBudget(queries=10, answers=10),
        **({} if simulation else DEPLOYED),
    )
    FederationRun(FakeTransport(homes), config, tmp_path, log, ask, keys).run()
    assert made == ({"label_service", "node"} if simulation else set())


def ask(source: LabelSource) -> None:
    source.ask(make_rows(10, 3)[0])
