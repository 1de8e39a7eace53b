"""Makes the data sets that are in the package: `python tools/embedded_data.py stroke|heart IN.npz`.

Of `stroke`, IN.npz holds one array for each column of the trial and `vocab_json` with the words of the coded ones and
the trial's abbreviations of countries. Of `heart`, it holds the four "processed" files of the UCI repository one below
the other: `X` (rows, 13) with NaN for "?", `feature_names`, `num`, `hospital` as an index into `hospital_names`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from consilium.simulations.datasets import embedded

FOLDER = Path(embedded.__file__).parent


def stroke(source: str, folder: Path = FOLDER) -> None:
    """Keep the baseline columns, hospital, country and outcome of the patients whose outcome is known."""
    with np.load(source, allow_pickle=False) as file:
        known = np.isin(file["OCCODE"], embedded.KNOWN_OUTCOMES)
        columns = (*embedded.NUMBERS, *embedded.CODES, "HOSPNUM", "OCCODE")
        kept = {name: file[name][known] for name in columns}
        words = json.loads(str(file["vocab_json"]))
        country = file["CNTRYNUM"][known]
    kept["OCCODE"] = kept["OCCODE"].astype(np.uint8)
    vocabulary = np.array(json.dumps({name: words[name] for name in embedded.CODES}))
    abbreviations = {int(number): name for number, name in words["CNTRYNUM_names"].items()}
    places = [list(embedded.COUNTRIES).index(abbreviations[number]) for number in country]
    kept["COUNTRY"] = np.array(places, dtype=np.uint8)
    np.savez_compressed(folder / "stroke.npz", vocabulary=vocabulary, **kept)


def heart(source: str, folder: Path = FOLDER) -> None:
    """Keep all rows and columns, each column by its name."""
    with np.load(source, allow_pickle=False) as file:
        columns = {str(name): values for name, values in zip(file["feature_names"], file["X"].T, strict=True)}
        kept = {**columns, **{name: file[name] for name in ("num", "hospital", "hospital_names")}}
    np.savez_compressed(folder / "heart.npz", **kept)


if __name__ == "__main__":
    {"stroke": stroke, "heart": heart}[sys.argv[1]](sys.argv[2])
