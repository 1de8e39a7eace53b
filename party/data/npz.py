"""Reader of .npz: x (n, features), y int (n,), features and classes as text. Nothing is ever unpickled."""

from __future__ import annotations

import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from consilium.party.data.absent import absent_or_double, patient_of
from consilium.party.data.problems import Problem, Unreadable
from consilium.party.data.table import FileColumns
from consilium.protocol.rows.columns import Column, ValueState, Wanted, from_numbers
from consilium.protocol.tables.lines import Lines

FORM = "An .npz needs x (n, features), y (n,), and features and classes as text; save it without objects"


def read(path: Path, features: Sequence[Wanted], label: Wanted, patient: str | None) -> FileColumns:
    """The columns that are wanted, the label last, and the texts of array `patient`.

    Raises
    ------
    Unreadable : no .npz, or its parts are not what they must be.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            x, y = file["x"], file["y"]
            names = [str(name) for name in file["features"]]
            classes = [str(name) for name in file["classes"]]
            ids = file[patient] if patient is not None and patient in file else None
    except (KeyError, ValueError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        # the text of the error may quote the file
        raise Unreadable(Problem(str(path), f"is not a readable .npz ({type(error).__name__})", FORM)) from None
    if x.ndim != 2 or y.shape != x.shape[:1] or x.shape[1] != len(names):
        what = f"x has shape {x.shape}, y {y.shape}, and there are {len(names)} features"
        raise Unreadable(Problem(str(path), what, FORM))
    if y.dtype.kind not in "iu":
        raise Unreadable(Problem(str(path), f"y is {y.dtype}, it must hold integers: indices into classes", FORM))
    if x.dtype.kind not in "fiu":
        raise Unreadable(Problem(str(path), f"x is {x.dtype}, it must hold numbers", FORM))
    problems: list[Problem] = []
    patients = None
    if patient is not None:
        if ids is None:
            problems.append(absent_or_double(patient_of(patient), [], "[patient]"))
        elif ids.shape != y.shape or ids.dtype.kind not in "iuU":
            what = f"is {ids.dtype} of shape {ids.shape}, it must hold an integer or a text for each row"
            problems.append(Problem(patient_of(patient).where, what, FORM))
        else:
            patients = [str(value).strip() for value in ids.tolist()]
    columns: list[Column | None] = []
    count, place = Counter(names), {name: at for at, name in enumerate(names)}
    for column in features:
        once = count[column.column] == 1
        columns.append(from_numbers(x[:, place[column.column]], column) if once else None)
        if not once:
            problems.append(absent_or_double(column, names, "[columns]"))
    lines = Lines(((path.name, "row", np.arange(1, len(y) + 1)),))
    outside = int(np.count_nonzero((y < 0) | (y >= len(classes))))
    if outside:
        what = f"{outside} of {len(y)} rows have an index outside the file's {len(classes)} classes"
        return FileColumns([*columns, None], [*problems, Problem(label.where, what, FORM)], patients, lines)
    codes = label.codes or {}
    states = [
        ValueState.MISSING if name in label.missing else ValueState.GOOD if name in codes else ValueState.UNKNOWN_CODE
        for name in classes
    ]
    values = [codes.get(name, np.nan) for name in classes]
    answers = Column(np.array(values, dtype=np.float64)[y], np.array(states, dtype=np.uint8)[y])
    return FileColumns([*columns, answers], problems, patients, lines)
