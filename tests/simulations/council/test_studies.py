"""Studies from Python: what a file says, a dict says too; results come as frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import consilium
from consilium.protocol.errors import ConfigError, ConsiliumError, PathError
from consilium.simulations.council.frames import WrongType
from consilium.simulations.scenario import load_scenario
from consilium.simulations.study.spec import load_study

FEW = [
    'federation.mechanism={name="histogram", sigma=112.1}',
    "data.least_rows=200",
    "federation.minimum_parties=5",
    "federation.query_budget={queries=20, answers=20}",
]
FILE = """
[study]
scenario = "stroke"
seeds = 2
methods = ["plurality", { name = "hand_labels", labels = 30 }]

[[axis]]
key = "federation.privacy.epsilon"
values = [1.0, 3.0]

[[axis]]
name = "division"

[axis.points.natural]

[axis.points.skewed]
data = { partition = "dirichlet", alpha = 0.1 }
"""


def test_a_dict_says_what_a_file_says(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(FILE)
    expected = load_study(str(tmp_path / "study.toml"))
    study = consilium.Study(
        "stroke",
        {
            "federation.privacy.epsilon": list(np.array([1.0, 3.0])),
            "division": {"natural": {}, "skewed": {"data.partition": "dirichlet", "data__alpha": 0.1}},
        },
        ["plurality", {"name": "hand_labels", "labels": 30}],
        seeds=2,
    )
    assert study.spec.digest() == expected.digest()
    assert repr(study) == "Study('study': federation.privacy.epsilon, division; 2 seeds, 16 cells)"
    assert consilium.Study(tmp_path / "study.toml", seeds=[4, 7]).spec.seeds == (4, 7)


@pytest.mark.parametrize(
    ("given", "raised", "told"),
    [
        (("nowhere",), ConfigError, "no study 'nowhere'"),
        (("stroke", {"data.alpah": [1.0]}), ConfigError, "data.alpah"),
        (("stroke", {"data.alpha": []}), ConfigError, "axis 'data.alpha' has no values"),
        (("stroke", {"data.alpha": [lambda: 1]}), ConfigError, "data.alpha is a function"),
    ],
)
def test_a_mistake_is_told_and_a_value_error(given: Any, raised: type[Exception], told: str) -> None:
    with pytest.raises(raised, match=told) as caught:
        consilium.Study(*given)
    assert isinstance(caught.value, ConsiliumError)
    assert isinstance(caught.value, ValueError)


def test_keys_of_a_file_are_not_given_twice() -> None:
    with pytest.raises(ConfigError, match="home_share is the file's to say"):
        consilium.Study("heart", home_share=0.5)
    with pytest.raises(ConfigError, match="nothing varies"):
        consilium.Study(load_scenario("stroke"))


def test_no_folder_of_a_study(tmp_path: Path) -> None:
    with pytest.raises(PathError, match="no folder of a study"):
        consilium.StudyResults(tmp_path)


@pytest.mark.slow
def test_from_a_scenario_to_frames(tmp_path: Path) -> None:
    scenario = load_scenario("stroke", FEW)
    axes = {"division": {"natural": {}, "iid": {"data.partition": "iid"}}}
    told: list[tuple[str, int, int]] = []
    study = consilium.Study(scenario, axes, ["local", "pate"], seeds=2, measures=["gain"])
    results = study.run(workers=1, progress=lambda *each: told.append(each))
    assert results.axes == ["division"]
    assert results.failed == []
    assert sorted(results.table("auc").columns) == ["iid", "method", "natural"]
    assert (results.means("auc")["mean"] > 0.5).all()
    gaps = results.differences("auc", "pate")
    assert set(gaps["method"]) == {"local"} and set(gaps["standing"]) == {"not like with like"}
    assert gaps["p"].null_count() == gaps.height == 2
    assert set(results.differences("auc", "natural", along="division")["against"]) == {"natural"}
    contrasts = results.contrasts().filter(pl.col("axis") == "division")
    assert contrasts.select("method", "division", "standing").rows() == [("pate", "iid", "too few seeds")]
    with pytest.raises(ConfigError, match="no axis 'epsilon'"):
        results.differences("auc", "1", along="epsilon")
    assert results.findings()
    assert results.cite()["seeds"] == [0, 1]
    assert "PATE" in results.report.read_text()
    assert told
    folder = results.folder
    del results
    assert not folder.exists()
    with pytest.raises(WrongType, match="progress is a int"):
        study.run(tmp_path / "other", progress=3)  # pyright: ignore[reportArgumentType]
