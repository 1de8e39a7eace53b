"""Makes the embedded `heart.npz`: `python -m consilium.simulations.datasets.prepare_heart IN.npz`.

IN.npz holds the four "processed" files of the UCI repository one below the other: `X` (rows, 13) with NaN for "?",
`feature_names`, `num`, `hospital` as an index into `hospital_names`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np


def main(source: str) -> None:
    """Keep all rows and columns, each column by its name."""
    with np.load(source, allow_pickle=False) as file:
        columns = {str(name): values for name, values in zip(file["feature_names"], file["X"].T, strict=True)}
        kept = {**columns, **{name: file[name] for name in ("num", "hospital", "hospital_names")}}
    target = Path(__file__).with_name("heart.npz")
    np.savez_compressed(target, **kept)
    print(f"{target}: {len(kept['num'])} rows, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
