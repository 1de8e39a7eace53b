"""`ReportData` on disk, so that a report can be drawn again without the run.

It holds functions of the votes, so it lies in the run folder's `private/`.
"""

from __future__ import annotations

import json
import math
from dataclasses import MISSING, asdict, fields
from pathlib import Path

import numpy as np

from consilium.protocol.errors import DataError
from consilium.protocol.files import replace_private
from consilium.protocol.old_names import OF_SPENT, renamed
from consilium.protocol.releases import ReleaseKind
from consilium.protocol.strict_json import INFINITE, dumps
from consilium.simulations.report.data import LeftOut, PartyQuality, ReportData

FILE = "report.json"
ARRAYS = {
    "consensus": np.float64,
    "answered": np.bool_,
    "epsilon_spent": np.float64,
    "epsilon_data_dependent": np.float64,
}
KNOWN = {item.name for item in fields(ReportData)}
REQUIRED = {item.name for item in fields(ReportData) if item.default is MISSING and item.default_factory is MISSING}


def save_report_data(data: ReportData, folder: Path) -> None:
    """Write all fields as plain values into `folder`."""
    values = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in asdict(data).items()}
    replace_private(folder / FILE, dumps(values) + "\n")


def load_report_data(folder: Path) -> ReportData:
    """Read what `save_report_data` wrote into `folder`.

    Raises
    ------
    DataError : the folder holds no finished run.
    """
    path = folder / FILE
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        values = renamed(values, OF_SPENT)
        infinite = values.pop(INFINITE, []) if isinstance(values, dict) else []
        if not isinstance(values, dict) or not REQUIRED <= set(values) <= KNOWN:
            raise DataError(f"{path} was written by another version", "Run the scenario again")
        for name, dtype in ARRAYS.items():
            missing = math.inf if name in infinite else math.nan
            values[name] = np.array([missing if value is None else value for value in values[name]], dtype=dtype)
        values |= {name: math.inf for name in infinite if name in KNOWN - ARRAYS.keys()}
        values["left_out"] = [LeftOut(**item) for item in values["left_out"]]
        values["quality"] = [PartyQuality(**item) for item in values["quality"]]
        values["classes"] = tuple(values["classes"])
        values["guarantees"] = renamed(values["guarantees"], OF_SPENT)
        # up to version 0.9 it was not written; a simulation's teachers were judged, or left out
        known = {item.party for item in [*values["quality"], *values["left_out"]]}
        values.setdefault("invited", max(len(known), values["parties"]))
        values["release"] = ReleaseKind(values["release"])
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}", "Give the folder of a finished run") from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:  # whatever somebody has put there
        raise DataError(f"{path} is damaged: {error}") from None
    return ReportData(**values)
