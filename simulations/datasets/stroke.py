"""The International Stroke Trial, embedded: baseline columns and six-month outcome of 19,285 patients in 464 hospitals.

Features are what was known at randomisation (R*, AGE, SEX, STYPE). The randomised treatment (RXASP, RXHEP), the
trial's own predictions (EXPDD, EXPD14) and every outcome are not in the file at all. The target is "dead or dependent
at six months" (OCCODE 1 or 2); rows without a known outcome are left out. No time: of the admission the public table
has the hour and the day of the week, and no date. See stroke.LICENSE.txt for source and terms.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

import numpy as np

from consilium.protocol.errors import ConfigError
from consilium.simulations.datasets.base import Dataset

NUMBERS = ("RDELAY", "AGE", "RSBP")
CODES = (
    "RCONSC", "SEX", "RSLEEP", "RATRIAL", "RCT", "RVISINF", "RHEP24", "RASP3",
    "RDEF1", "RDEF2", "RDEF3", "RDEF4", "RDEF5", "RDEF6", "RDEF7", "RDEF8", "STYPE",
)  # fmt: skip
DEAD_OR_DEPENDENT = (1, 2)
KNOWN_OUTCOMES = (1, 2, 3, 4)
COUNTRIES = {
    "ARGE": "Argentina", "AUSL": "Australia", "AUST": "Austria", "BELG": "Belgium", "BRAS": "Brazil", "CANA": "Canada",
    "CHIL": "Chile", "CZEC": "Czech Republic", "DENM": "Denmark", "EIRE": "Ireland", "FINL": "Finland",
    "FRAN": "France", "GREE": "Greece", "HONG": "Hong Kong", "HUNG": "Hungary", "INDI": "India", "ISRA": "Israel",
    "ITAL": "Italy", "JAPA": "Japan", "NETH": "Netherlands", "NEW": "New Zealand", "NORW": "Norway", "POLA": "Poland",
    "PORT": "Portugal", "ROMA": "Romania", "SING": "Singapore", "SLOK": "Slovakia", "SLOV": "Slovenia",
    "SOUT": "South Africa", "SPAI": "Spain", "SRI": "Sri Lanka", "SWED": "Sweden", "SWIT": "Switzerland",
    "TURK": "Turkey", "UK": "United Kingdom", "USA": "United States",
}  # fmt: skip
"""The trial's abbreviation of each country -> its name. COUNTRY counts them in this order."""
OWNERS = ("hospital", "country")


@cache
def load_stroke(owner: str = "") -> Dataset:
    """The embedded data set; one-hot columns are named like "STYPE=TACS", of two-valued codes only the second.

    owner: one of `OWNERS`, or nothing for hospitals.

    Raises
    ------
    ConfigError : there is no such owner.
    """
    if owner not in ("", *OWNERS):
        raise ConfigError(f"data.owner is {owner!r}, and stroke has no such owner", f"Choose {' or '.join(OWNERS)}")
    by_country = owner == "country"
    with np.load(str(files("consilium.simulations.datasets") / "stroke.npz"), allow_pickle=False) as file:
        values = {name: file[name] for name in file.files}
    vocabulary = json.loads(str(values["vocabulary"]))
    columns: list[np.ndarray] = [values[name].astype(np.float32) for name in NUMBERS]
    names: list[str] = list(NUMBERS)
    for name in CODES:
        words = vocabulary[name]
        for code, word in enumerate(words):
            if len(words) == 2 and code == 0:
                continue
            columns.append((values[name] == code).astype(np.float32))
            names.append(f"{name}={word or 'missing'}")
    return Dataset(
        name="stroke",
        title="International Stroke Trial",
        attribution=(
            "Sandercock P, Niewada M, Czlonkowska A. International Stroke Trial database (version 2), 2011."
            " University of Edinburgh. doi 10.7488/ds/104. Open Data Commons Attribution License (ODC-By 1.0)."
        ),
        features=tuple(names),
        classes=("independent", "dead or dependent"),
        owner_label=owner or "hospital",
        x=np.stack(columns, axis=1),
        y=np.isin(values["OCCODE"], DEAD_OR_DEPENDENT).astype(np.int64),
        owner=values["COUNTRY" if by_country else "HOSPNUM"].astype(np.int64),
        owner_names=tuple(COUNTRIES.values()) if by_country else None,
    )
