"""`consilium predict`: a published student's answer for each row of a file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np

from consilium.data.cells import CellRule
from consilium.data.files import ON_COMMAND_LINE, CsvRule
from consilium.data.schema_rows import Reading, SchemaRows, read_schema_rows
from consilium.models.published.model import Published, check_card, find_model, load_model
from consilium.protocol.errors import OutputExists
from consilium.protocol.files import write_private, writing

_MOST_TOLD = 10


def predict_file(
    given: Path,
    rows: Path,
    rule: CsvRule,
    output: Literal["text", "json"],
    out: Path | None,
    tell: Callable[[str], None],
    missing: tuple[str, ...] = (),
    judge_unknown: bool = False,
) -> str:
    """Predictions for a file of rows as CSV or JSON; written to `out`, for its owner's eyes, if that is given.

    `given`: a student's folder, a run's, or the model file. `rows`: CSV or Parquet, in which `missing` are texts that
    mean "missing", besides empty ones and those of the student's card, which says how other texts are read, too. `tell`
    gets remarks: ignored columns, odd values. judge_unknown: whether rows with a category that the student does not
    know are judged, as if it were none; otherwise they have no prediction.

    Raises
    ------
    OutputExists, PathError, StorageError : `out` is there, or cannot be written. BadModel, BadTable : of no use.
    """
    if out is not None and out.exists():
        raise OutputExists(f"{out} is already there", "Choose another with --out, or remove it")
    path = find_model(given)
    published = load_model(path)
    known = check_card(path.parent, published)
    texts = (*known.missing, *missing)
    cells = {name: _with_missing(cell, missing) for name, cell in known.columns.items()}
    how = Reading(rule, ON_COMMAND_LINE, "the student's", missing=texts, cells=cells)
    table = read_schema_rows(rows, published.schema, how)
    if table.ignored:
        names = ", ".join(repr(name) for name in table.ignored[:_MOST_TOLD])
        more = f" and {len(table.ignored) - _MOST_TOLD} more" if len(table.ignored) > _MOST_TOLD else ""
        tell(f"columns that the student does not use: {names}{more}")
    for remark in table.remarks[:_MOST_TOLD]:
        tell(remark)
    if len(table.remarks) > _MOST_TOLD:
        tell(f"{len(table.remarks) - _MOST_TOLD} more columns with values that are odd")
    probabilities = published.predict_proba(table.x)
    left_out = table.strange & (not judge_unknown)
    if count := int(left_out.sum()):
        tell(
            f"{count} of {len(left_out)} rows have no prediction: the student does not know a category of theirs."
            " --judge-unknown judges them as if it were none"
        )
    answers = _csv if output == "text" else _json
    text = answers(published, probabilities, table, left_out)
    if out is not None:
        with writing(out, "Make room, or choose another with --out"):
            write_private(out, text.encode())
    return text


def _with_missing(cell: CellRule, missing: tuple[str, ...]) -> CellRule:
    """Texts of a column stand in place of those of all."""
    own = cell.missing_codes
    return cell if own is None else cell.model_copy(update={"missing_codes": (*own, *missing)})


def _csv(published: Published, probabilities: np.ndarray, table: SchemaRows, left_out: np.ndarray) -> str:
    """One line for each row of the file, in its order: number from 1, class, the probability of each class, and where
    the student has an operating point, 1 for a row that is flagged. Nothing for rows that are left out."""
    text, classes = io.StringIO(), published.schema.classes
    flags = _flags(published, probabilities)
    writer = csv.writer(text, lineterminator="\n")
    header = ["row", "class", *[f"p_{name}" for name in classes], *(["flagged"] if flags else [])]
    writer.writerow(header)
    for number, (best, row) in enumerate(zip(probabilities.argmax(axis=1), probabilities, strict=True), 1):
        flag = [int(flags[number - 1])] if flags else []
        answer = [classes[best], *[f"{value:.9g}" for value in row], *flag]
        writer.writerow([number, *([""] * len(answer) if left_out[number - 1] else answer)])
    return text.getvalue()


def _json(published: Published, probabilities: np.ndarray, table: SchemaRows, left_out: np.ndarray) -> str:
    """The same as one object; null for rows that are left out."""
    classes, flags = published.schema.classes, _flags(published, probabilities)
    answers = [
        {
            "row": number,
            "class": None if out else classes[best],
            "probabilities": None if out else dict(zip(classes, row, strict=True)),
            **({"flagged": None if out else flags[number - 1]} if flags else {}),
        }
        for number, (best, row, out) in enumerate(
            zip(probabilities.argmax(axis=1), probabilities.tolist(), left_out.tolist(), strict=True), 1
        )
    ]
    model = {"kind": published.kind, "sha256": published.sha256}
    return json.dumps({"model": model, "ignored": table.ignored, "told": table.remarks, "rows": answers}) + "\n"


def _flags(published: Published, probabilities: np.ndarray) -> list[bool]:
    """Which rows the student's operating point flags; empty where it has none."""
    threshold = published.threshold
    return [] if threshold is None else (probabilities[:, -1] > threshold).tolist()
