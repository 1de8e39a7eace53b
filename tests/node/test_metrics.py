"""What is scraped: parsed by Prometheus' own parser; labels are names, stages, states and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from consilium.coordinator.provision.authority import Authority
from consilium.node.log import Heard, MonitorSettings
from consilium.node.metrics import (
    OWN,
    MetricFamily,
    ages,
    exposition,
    node_metrics,
    one,
    processes_of,
    use_of,
    use_of_trees,
)
from consilium.node.monitor import METRICS_MEDIA, Watched, monitored
from tests.deploy.kits import free_ports
from tests.node.nodes import ask, kit_in

LABELS = {"node", "kind", "version", "flower_version", "level", "process", "certificate"}


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Values by name and the labels' values."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_node_has_these(tmp_path: Path) -> None:
    kit, heard = kit_in(tmp_path, "party", "ward-a"), Heard(lambda *_: None)
    heard.tell("supernode", "ended (exit code 1); starts again in 1 s; log: x")
    Authority.create("wards").save(tmp_path)
    text = exposition(node_metrics(kit, heard, True, [tmp_path / "ca.crt", tmp_path / "lost.crt"])).decode()
    found = samples(text)
    assert found[("consilium_ready",)] == 1
    assert found[("consilium_start_time_seconds",)] == heard.began
    assert found[("consilium_process_ended_total", "supernode")] == 1
    assert found[("consilium_log_lines_total", "error")] == 1
    assert found[("consilium_process_resident_bytes", OWN)] > 1e6
    until = found[("consilium_certificate_not_after_timestamp_seconds", "ca.crt")]
    assert until - found[("consilium_certificate_not_before_timestamp_seconds", "ca.crt")] > 3e8
    assert not any("lost.crt" in name for name in found)
    families = list(text_string_to_metric_families(text))
    assert {label for family in families for sample in family.samples for label in sample.labels} == LABELS
    assert all(family.documentation.endswith(".") for family in families)


def test_hostile_names_stay_values() -> None:
    hostile = 'a"} 1\nconsilium_ready 1\n\\'
    found = samples(exposition([MetricFamily("party_state", "S.", {(hostile, "x"): 1.0}, ("party", "state"))]).decode())
    assert found == {("consilium_party_state", hostile, "x"): 1.0}


def test_the_port_tells_health_and_metrics(tmp_path: Path) -> None:
    missing = ["no connection"]
    port = free_ports(1)[0]

    def own() -> Iterator[MetricFamily]:
        yield one("connected", "C.", not missing)

    watched = Watched(kit_in(tmp_path, "party", "ward-a"), Heard(lambda *_: None), lambda: list(missing), (), own)
    with monitored(MonitorSettings(port=port), watched):
        assert json.loads(ask(port, "/healthz").body) == {"alive": True, "node": "ward-a", "kind": "party"}
        waiting = ask(port, "/readyz")
        assert (waiting.status, json.loads(waiting.body)["waits_for"]) == (503, ["no connection"])
        scraped = ask(port, "/metrics")
        assert scraped.headers["content-type"] == METRICS_MEDIA
        assert samples(scraped.body.decode())[("consilium_connected",)] == 0
        assert ask(port, "/").status == 404
    missing.clear()
    with monitored(MonitorSettings(port=port), watched):
        assert ask(port, "/readyz").status == 200


def test_without_a_port_nothing_listens(tmp_path: Path) -> None:
    def never() -> list[str]:
        raise AssertionError

    with monitored(MonitorSettings(), Watched(kit_in(tmp_path), Heard(lambda *_: pytest.fail("told")), never, ())):
        pass


def test_processes_with_all_that_they_started(tmp_path: Path) -> None:
    kit = kit_in(tmp_path)
    nested = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
    with subprocess.Popen(
        [sys.executable, "-c", nested], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as child:
        assert child.stdout is not None and child.stdin is not None
        child.stdout.readline()
        (kit.logs / "superlink.pid").write_text(str(child.pid))
        (kit.logs / "gone.pid").write_text("999999999")
        (kit.logs / "torn.pid").write_text("")
        found = processes_of(kit)
        child.stdin.close()
    assert set(found) == {OWN, "superlink"}
    assert found["superlink"].processes == 2
    assert found["superlink"].resident_bytes > 4e6
    assert found["superlink"].open_files >= 6
    assert found[OWN].processes == 1


def test_a_process_that_is_gone() -> None:
    assert use_of(999999999) is None
    assert use_of_trees([999999999]) == {}
    assert use_of(os.getpid()) is not None


def test_a_certificate_that_cannot_be_read_has_no_age(tmp_path: Path) -> None:
    (tmp_path / "server.crt").write_text("no certificate")
    Authority.create("wards").save(tmp_path)
    bad, good = ages([tmp_path / "server.crt", tmp_path / "ca.crt"])
    assert good.since is not None and good.until is not None
    assert (bad.age_days(good.since), bad.days_left(good.since)) == (None, None)
    assert (good.age_days(good.since), good.days_left(good.until)) == (0, 0)
    assert good.days_left(good.since) == (good.until - good.since).days
