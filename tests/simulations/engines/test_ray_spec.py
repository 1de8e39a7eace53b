"""An address where no cluster is, and what belongs to the engine alone, is one line, before a run folder is made."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from consilium.coordinator.collection.exchange import Failure, no_node, tell_left_out
from consilium.coordinator.events import EventLog
from consilium.protocol.errors import ConfigError, EngineError
from consilium.simulations.engines import ray
from consilium.simulations.engines.ray import run_ray
from consilium.simulations.engines.ray_spec import RaySpec
from consilium.simulations.run import Order, run_scenario
from consilium.simulations.scenario import load_scenario


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere.invalid:6379", "ray://127.0.0.1:10001"])
def test_nobody_there_is_told_at_once_and_nothing_is_made(tmp_path: Path, address: str) -> None:
    pytest.importorskip("ray", reason="Ray is not installed (extra `ray`)")
    with pytest.raises(EngineError, match="no Ray cluster answers at"):
        run_scenario("stroke", load_scenario("stroke"), "ray", 0, tmp_path / "out", ray=RaySpec(address=address))
    assert not (tmp_path / "out").exists()


def order(engine: str, device: str = "auto", **ray: Any) -> Order:
    return Order("stroke", load_scenario("stroke"), engine, 0, "now", device, RaySpec(**ray))  # pyright: ignore


def test_what_belongs_to_ray_is_refused_elsewhere() -> None:
    asked: list[dict[str, Any]] = [{"address": "h:1"}, {"party_cpus": 2}, {"party_gpus": 0.5}]
    for settings in asked:
        with pytest.raises(ConfigError, match="belongs to the engine ray"):
            order("local", **settings).resolved_device()


def test_a_gpu_for_parties_is_asked_by_its_own_option() -> None:
    with pytest.raises(ConfigError, match="gives its parties no GPU"):
        order("ray", "cuda").resolved_device()
    assert order("ray").resolved_device() == "cpu"


def test_what_flower_is_told() -> None:
    assert RaySpec().federation_config(7) == "num-supernodes=7 client-resources-num-cpus=1"
    assert RaySpec(party_cpus=2, party_gpus=0.25).federation_config(7) == (
        "num-supernodes=7 client-resources-num-cpus=2 client-resources-num-gpus=0.25"
    )


@pytest.mark.parametrize(("lost", "fails"), [(1, False), (2, True)])
def test_a_run_that_lost_parties_with_a_process_does_not_end_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int, fails: bool
) -> None:
    def ends_well(*_: object, **__: object) -> int:
        log = EventLog(tmp_path / "events.jsonl")
        for party in range(lost):
            tell_left_out(log, "train", {f"p{party}": no_node("error 0")})
        tell_left_out(log, "train", {"another": Failure("refused: storage")})
        (tmp_path / "coordinator.json").write_text("{}")
        return 0

    monkeypatch.setattr(ray, "super_link", lambda *_: contextlib.nullcontext("127.0.0.1:1"))
    monkeypatch.setattr(ray, "flwr_run", ends_well)
    with pytest.raises(EngineError, match=f"lost {lost} of 100 parties") if fails else contextlib.nullcontext():
        run_ray({}, 8, 100, tmp_path, tmp_path / "work")
