"""Alarms and the dashboard name metrics that there are, Prometheus loads them, and each rings when it should."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from consilium.coordinator.run_state import TROUBLES, PartyState
from tests.docs.pages import ROOT

DOCS = ROOT / "docs"
RULES = yaml.safe_load((DOCS / "alarms.yml").read_text())["groups"][0]["rules"]
BOARD = json.loads((DOCS / "dashboard.json").read_text())
PAGE = (DOCS / "console.md").read_text()
METRICS = set(re.findall(r"`(consilium_[a-z_]+)`", PAGE))
EXPRESSIONS = [rule["expr"] for rule in RULES] + [
    target["expr"] for panel in BOARD["panels"] for target in panel["targets"]
]
NODE = 'consilium_node_info{instance="a"}'
RINGS = {  # series with a value each minute, and when to look
    "ConsiliumNodeGone": ([('up{instance="a"}', "1x5 0x20"), (NODE, "1x5 _x20")], "15m"),
    "ConsiliumNotReady": ([("consilium_ready", "0x20")], "15m"),
    "ConsiliumKeepsEnding": ([("consilium_process_ended_total", "0+1x20")], "15m"),
    "ConsiliumPartyAway": ([('consilium_party_connected{party="a"}', "0x100")], "90m"),
    "ConsiliumAggregatorAway": ([('consilium_aggregator_connected{aggregator="b"}', "0x20")], "10m"),
    "ConsiliumPartyLeftOut": ([('consilium_party_state{party="a", state="left out"}', "1x5")], "5m"),
    "ConsiliumQuestionFailed": ([('consilium_troubles_total{kind="not-answered"}', "0x5 1x20")], "15m"),
    "ConsiliumFalseVotes": ([('consilium_troubles_total{kind="false-votes"}', "0x5 1x20")], "15m"),
    "ConsiliumRunFailed": ([('consilium_troubles_total{kind="failed"}', "0x5 1x20")], "15m"),
    "ConsiliumCertificateEnds": ([("consilium_certificate_not_after_timestamp_seconds", "1000x5")], "5m"),
    "ConsiliumDiskFull": ([("consilium_disk_free_bytes", "1000x5")], "5m"),
    "ConsiliumBudgetNearlySpent": (
        [("consilium_queries_asked_total", "91x5"), ("consilium_queries_most", "100x5")],
        "5m",
    ),
    "ConsiliumPolicyNearlySpent": ([("consilium_queries_given", "91x5"), ("consilium_queries_most", "100x5")], "5m"),
}
QUIET = {
    "ConsiliumPartyAway": [
        ('consilium_party_connected{party="a"}', "0x100"),
        ('consilium_party_state{party="a", state="revoked"}', "1x100"),
    ],
    "ConsiliumNodeGone": [('up{instance="another program"}', "0x100")],
}


def test_every_alarm_stands_on_the_page_and_says_what_to_do() -> None:
    assert {rule["alert"] for rule in RULES} == set(re.findall(r"`(Consilium[A-Z]\w+)`", PAGE)) == set(RINGS)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert {"summary", "action"} == rule["annotations"].keys()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_metrics_and_labels_are_those_that_nodes_have(expression: str) -> None:
    assert set(re.findall(r"consilium_[a-z_]+", expression)) <= METRICS
    states = {str(state) for state in PartyState}
    for label, wanted in re.findall(r'(kind|state)=~?"([^"]+)"', expression):
        assert set(wanted.split("|")) <= (set(TROUBLES) if label == "kind" else states)


def test_panels_of_the_dashboard_do_not_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken and max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool of Prometheus is not installed")
@pytest.mark.parametrize("ringing", [True, False])
def test_prometheus_loads_them_and_they_ring(tmp_path: Path, ringing: bool) -> None:
    cases = RINGS if ringing else {name: (series, "90m") for name, series in QUIET.items()}
    tests: list[dict[str, Any]] = [
        {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in series],
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{alarm}", alertstate="firing"}})',
                    "eval_time": when,
                    "exp_samples": [{"labels": "{}", "value": 1}] if ringing else [],
                }
            ],
        }
        for alarm, (series, when) in cases.items()
    ]
    path = tmp_path / "tests.yml"
    path.write_text(
        yaml.safe_dump({"rule_files": [str(DOCS / "alarms.yml")], "evaluation_interval": "1m", "tests": tests})
    )
    for command in (["check", "rules", str(DOCS / "alarms.yml")], ["test", "rules", str(path)]):
        done = subprocess.run(["promtool", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
