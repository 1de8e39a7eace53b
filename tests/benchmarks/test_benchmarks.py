"""Each benchmark behind a table writes it: from measurements that were made before, or from a made-up study."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import exact, held_out, hidden_sums, papers, results, worth
from consilium.report.words import STUDENT


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """What was written, by its id."""
    found: dict[str, dict[str, Any]] = {}
    monkeypatch.setenv("RECORD", "1")
    monkeypatch.setattr(results, "record", lambda name, result, seconds: found.update({name: result}))
    return found


PAPER = {"scenario": "mnist-250", "seed": 0, "row": "lnmax-100", "asked": 100, "answered": 100, "right": 0.9}
EPSILONS = {"data-dependent": 0.5, "worst": 3.0, "promised": 3.0, "accuracy": 0.9}
FIGURES = dict.fromkeys((*worth.MODELS, *worth.COUNTED), 0.7)
RUN = {"epsilon": 0.8, "released": 30, "models": {STUDENT: 0.8, "pooled": 0.9}}
KEPT: dict[str, tuple[Callable[[list[str]], None], list[str], list[dict[str, Any]], set[str]]] = {
    "papers": (
        papers.main,
        ["--seeds", "--rows"],
        [
            {"scenario": "mnist-250", "seed": 0, "row": "teachers", "teacher": 0.96, "plurality": 0.98, "trainer": ""},
            *({**PAPER, **EPSILONS, "trainer": trainer} for trainer in ("", "graph")),
        ],
        {"mnist-250-votes", "mnist-250-students"},
    ),
    "held_out": (
        held_out.main,
        ["--seeds", "0"],
        [
            {"scenario": "mnist-250", "seed": 0, "fold": fold, "accuracy": 0.98, "right": 1.0, "plurality": 0.97}
            for fold in range(10)
        ],
        {"mnist-250-held-out"},
    ),
    "worth": (
        worth.main,
        ["--seeds", "2"],
        [
            {"part": part, "case": case, "seed": seed, "found": RUN if part in ("stroke", "digits") else FIGURES}
            for part, (cases, *_) in worth.PARTS.items()
            for case in cases
            for seed in range(2)
        ],
        {"worth-divisions", "worth-rule", "worth-records", "releases", "digits-0.4", "digits-0.8", "worth-classes"},
    ),
}
"""Its main function, arguments, what was measured before, and the tables."""


@pytest.mark.parametrize("name", KEPT)
def test_what_was_measured_before_makes_the_tables(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: dict[str, dict[str, Any]]
) -> None:
    monkeypatch.setattr(held_out, "measure", lambda *_: None)  # it would train teachers before it looks
    main, arguments, items, tables = KEPT[name]
    kept = tmp_path / "kept.jsonl"
    kept.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
    main([*arguments, "--out", str(kept)])
    assert set(recorded) == tables
    assert all(result["values"] and "kept.jsonl" not in result["command"] for result in recorded.values())


def test_what_a_label_costs(monkeypatch: pytest.MonkeyPatch, recorded: dict[str, dict[str, Any]]) -> None:
    monkeypatch.setattr(exact, "LABELLED", {"mnist-250": exact.LABELLED["mnist-250"]})
    exact.main(["--promises"])
    cells = recorded["label-cost"]["values"]
    assert float(cells["mnist-250 / as labels"]) < float(cells["mnist-250 / as a whole histogram"])


def test_what_hidden_sums_cost(recorded: dict[str, dict[str, Any]]) -> None:
    hidden_sums.main(["10x4x2"])
    assert {f"hidden-sums-{title}" for title in ("party", "coordinator", "bytes")} == set(recorded)
    assert "–" not in {cell for result in recorded.values() for cell in result["values"].values()}
