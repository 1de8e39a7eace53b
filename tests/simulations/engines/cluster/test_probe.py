"""What is wrong with a cluster is one line, before a run folder is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from consilium.protocol.errors import ConfigError, EngineError
from consilium.simulations.engines.cluster_probe import CODE, RaySpec, check_cluster, judge, not_joined, own_versions
from consilium.simulations.run import Order, run_scenario
from consilium.simulations.scenario import load_scenario

HERE = own_versions()


def node(**changes: Any) -> dict[str, Any]:
    return {"name": "far", "cpus": 4.0, "gpus": 0.0, "versions": dict(HERE), "why": "", **changes}


def test_a_cluster_that_fits() -> None:
    judge(RaySpec(address="h:1"), [node(), node(cpus=1.0)], HERE)
    judge(RaySpec(address="h:1", party_cpus=4), [node(), node(cpus=1.0)], HERE)
    judge(RaySpec(address="h:1", party_gpus=0.25), [node(), node(gpus=1.0)], HERE)


@pytest.mark.parametrize(
    ("spec", "nodes", "told"),
    [
        ({"party_gpus": 0.5}, [node()], "needs 0.5 of a GPU, and no node of the cluster at h:1 has one"),
        ({"party_gpus": 2.0}, [node(gpus=1.0)], "needs 2 of a GPU"),
        # on a node that has the processors too
        ({"party_gpus": 1.0, "party_cpus": 4}, [node(), node(cpus=1.0, gpus=1.0)], "needs 1 of a GPU"),
        ({"party_cpus": 8}, [node()], "a party needs 8 CPUs, and no node of the cluster has more than 4"),
        ({}, [], "a party needs 1 CPUs, and no node of the cluster has more than 0"),
        ({}, [node(versions={}, why="ModuleNotFoundError")], "node far.*cannot load this program .ModuleNotFoundError"),
        ({}, [node(), node(versions={**HERE, "numpy": "0.1"})], r"node far of the cluster has numpy 0\.1 \(here "),
        ({}, [node(versions={**HERE, "python": "3.1.0"})], r"has python 3\.1\.0"),
        ({}, [node(versions={**HERE, CODE: "0" * 12})], "node far of the cluster has code 000000000000"),
        ({}, [node(versions={name: each for name, each in HERE.items() if name != "flwr"})], "has flwr missing"),
    ],
)
def test_a_cluster_that_does_not_fit(spec: dict[str, Any], nodes: list[dict[str, Any]], told: str) -> None:
    with pytest.raises(EngineError, match=told):
        judge(RaySpec(address="h:1", **spec), nodes, HERE)


def test_rays_own_words_on_other_versions_become_one_line() -> None:
    ray_utils = pytest.importorskip("ray._private.utils", reason="Ray is not installed (extra `ray`)")
    with pytest.raises(RuntimeError) as said:
        ray_utils.check_version_info({"ray_version": "2.9.0", "python_version": "3.10.1"}, "node 10.0.0.1:6379")
    error = not_joined("h:1", "RuntimeError", str(said.value))
    assert "the cluster at h:1 runs Ray 2.9.0 on Python 3.10.1, this machine Ray 2." in error.what
    assert "\n" not in error.what


def test_any_other_words_become_one_line_too() -> None:
    assert "no Ray cluster answers at h:1 (ValueError" in not_joined("h:1", "ValueError", "what\never").what


@pytest.mark.parametrize(
    "address", ["127.0.0.1:1", "127.0.0.1", ":6379", "nowhere.invalid:6379", "h:99999", "h:-1", "ray://127.0.0.1:10001"]
)
def test_nobody_there_is_told_at_once_and_nothing_is_made(tmp_path: Path, address: str) -> None:
    with pytest.raises(EngineError, match="no Ray cluster answers at"):
        check_cluster(RaySpec(address=address))
    pytest.importorskip("ray", reason="Ray is not installed (extra `ray`)")
    with pytest.raises(EngineError, match="no Ray cluster answers at"):
        run_scenario("stroke", load_scenario("stroke"), "ray", 0, tmp_path / "out", ray=RaySpec(address=address))
    assert not (tmp_path / "out").exists()


def order(engine: str, device: str = "auto", **ray: Any) -> Order:
    return Order("stroke", load_scenario("stroke"), engine, 0, "now", device, RaySpec(**ray))  # pyright: ignore


def test_what_belongs_to_ray_is_refused_elsewhere() -> None:
    asked: list[dict[str, Any]] = [{"address": "h:1"}, {"party_cpus": 2}, {"party_gpus": 0.5}]
    for ray in asked:
        with pytest.raises(ConfigError, match="belongs to the engine ray"):
            order("local", **ray).resolved_device()


def test_a_gpu_for_parties_is_asked_by_its_own_option() -> None:
    with pytest.raises(ConfigError, match="gives its parties no GPU"):
        order("ray", "cuda").resolved_device()
    assert order("ray").resolved_device() == "cpu"


def test_what_flower_is_told() -> None:
    assert RaySpec().federation_config(7) == "num-supernodes=7 client-resources-num-cpus=1"
    assert RaySpec(party_cpus=2, party_gpus=0.25).federation_config(7) == (
        "num-supernodes=7 client-resources-num-cpus=2 client-resources-num-gpus=0.25"
    )
