"""What README and docs claim, measured: `python -m benchmarks [NAME...]`. benchmarks/results.py says how it is kept."""

import os
from pathlib import Path

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
if _BESIDE.is_dir():  # where a checkout keeps its data sets; the program itself looks for no such folder
    os.environ.setdefault("CONSILIUM_DATA", str(_BESIDE))
