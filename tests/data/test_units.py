"""Which unit some owners write: the formula that is printed brings their numbers to those of the others, or none is."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from consilium.data.units import conversion

Draw = Callable[[np.random.Generator, int], np.ndarray]
MEASURED: dict[str, Draw] = {
    "Temperature": lambda generator, count: generator.normal(37.3, 0.8, count),
    "body weight": lambda generator, count: generator.normal(76, 14, count),
    "bodyHeight": lambda generator, count: generator.normal(169, 9, count),
    "glucose": lambda generator, count: generator.lognormal(1.9, 0.3, count),
    "creatinine": lambda generator, count: generator.lognormal(0, 0.3, count),
    "hba1c": lambda generator, count: generator.normal(7, 1.1, count),
    "hb": lambda generator, count: generator.normal(13.5, 1.7, count),
    "reading": lambda generator, count: generator.normal(50, 6, count),
}
OTHER: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray], str]] = {
    "fahrenheit": ("Temperature", lambda x: 1.8 * x + 32, "°F"),
    "kelvin": ("Temperature", lambda x: x + 273.15, "K"),
    "pounds": ("body weight", lambda x: 2.20462 * x, "lb"),
    "inches": ("bodyHeight", lambda x: x / 2.54, "in"),
    "metres": ("bodyHeight", lambda x: x / 100, "m"),
    "mass of glucose": ("glucose", lambda x: 18.016 * x, "mg/dl"),
    "amount of creatinine": ("creatinine", lambda x: 88.42 * x, "µmol/l"),
    "IFCC": ("hba1c", lambda x: 10.93 * x - 23.5, "mmol/mol"),
    "per litre": ("hb", lambda x: 10 * x, "g/l"),
    "amount of haemoglobin": ("hb", lambda x: x / 1.6114, "mmol/l"),
}


@pytest.mark.parametrize("few", [20, 300])
@pytest.mark.parametrize("case", OTHER)
def test_the_formula_that_is_printed_is_right(case: str, few: int) -> None:
    """Both ways: whichever unit is the rarer one. Of few rows a pair may go unnamed, and is never the wrong one."""
    column, change, unit = OTHER[case]
    generator, named = np.random.default_rng(len(case) + few), 0
    for turn in range(20):
        theirs, usual = MEASURED[column](generator, few), MEASURED[column](generator, 400)
        theirs, usual = (change(theirs), usual) if turn % 2 else (theirs, change(usual))
        known = conversion(column, theirs, usual)
        if known is None:
            continue
        named += 1
        mended = eval(known.formula, {"x": theirs})
        assert abs(np.median(mended) - np.median(usual)) < usual.std()
        assert abs(math.log(mended.std() / usual.std())) < math.log(1.8)
        assert unit == (known.theirs if turn % 2 else known.usual)
    assert named >= (20 if few == 300 else 15)


@pytest.mark.parametrize(
    ("column", "like", "change", "unit"),
    [
        ("Glukose", "glucose", "mass of glucose", "mg/dl"),
        ("Blutzucker nüchtern", "glucose", "mass of glucose", "mg/dl"),
        ("glycémie", "glucose", "mass of glucose", "mg/dl"),
        ("Hämoglobin", "hb", "per litre", "g/l"),
        ("Körpergröße", "bodyHeight", "metres", "m"),
        ("Créatinine", "creatinine", "amount of creatinine", "µmol/l"),
        ("Kreatinin", "creatinine", "amount of creatinine", "µmol/l"),
    ],
)
def test_columns_are_named_in_other_languages_too(column: str, like: str, change: str, unit: str) -> None:
    generator = np.random.default_rng(3)
    theirs, usual = OTHER[change][1](MEASURED[like](generator, 300)), MEASURED[like](generator, 400)
    known = conversion(column, theirs, usual)
    assert known is not None and known.theirs == unit


@pytest.mark.parametrize("case", ["another factor", "an offset", "a spread", "the same"])
def test_what_no_pair_explains_has_no_formula(case: str) -> None:
    generator = np.random.default_rng(5)
    x, usual = MEASURED["reading"](generator, 200), MEASURED["reading"](generator, 400)
    theirs = {
        "another factor": 7.3 * x,
        "an offset": x + 90,
        "a spread": 2.2 * x.mean() + 9 * (x - x.mean()),
        "the same": x,
    }
    assert conversion("reading", theirs[case], usual) is None
    assert conversion("temperature", 2.66 * MEASURED["Temperature"](generator, 200), usual) is None
