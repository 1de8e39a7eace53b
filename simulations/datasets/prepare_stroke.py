"""Makes the embedded `stroke.npz`: `python -m consilium.simulations.datasets.prepare_stroke IN.npz`.

IN.npz holds one array for each column of the trial and `vocab_json` with the words of the coded ones and the trial's
abbreviations of countries.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from consilium.simulations.datasets.stroke import CODES, COUNTRIES, KNOWN_OUTCOMES, NUMBERS


def main(source: str) -> None:
    """Keep the baseline columns, hospital, country and outcome of the patients whose outcome is known."""
    with np.load(source, allow_pickle=False) as file:
        known = np.isin(file["OCCODE"], KNOWN_OUTCOMES)
        kept = {name: file[name][known] for name in (*NUMBERS, *CODES, "HOSPNUM", "OCCODE")}
        words = json.loads(str(file["vocab_json"]))
        country = file["CNTRYNUM"][known]
    kept["OCCODE"] = kept["OCCODE"].astype(np.uint8)
    vocabulary = np.array(json.dumps({name: words[name] for name in CODES}))
    abbreviations = {int(number): name for number, name in words["CNTRYNUM_names"].items()}
    kept["COUNTRY"] = np.array([list(COUNTRIES).index(abbreviations[number]) for number in country], dtype=np.uint8)
    target = Path(__file__).with_name("stroke.npz")
    np.savez_compressed(target, vocabulary=vocabulary, **kept)
    print(f"{target}: {known.sum()} rows, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
