"""`consilium predict`: a published student's answer for each row of a file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np

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
) -> str:
    """Predictions for a file of rows as CSV or JSON; written to `out`, for its owner's eyes, if that is given.

    `given`: a student's folder, a run's, or the model file. `rows`: CSV or Parquet, in which `missing` are texts that
    mean "missing", besides empty ones. `tell` gets remarks: ignored columns, odd values.

    Raises
    ------
    OutputExists, PathError, StorageError : `out` is there, or cannot be written. BadModel, BadTable : of no use.
    """
    if out is not None and out.exists():
        raise OutputExists(f"{out} is already there", "Choose another with --out, or remove it")
    path = find_model(given)
    published = load_model(path)
    check_card(path.parent, published)
    table = read_schema_rows(rows, published.schema, Reading(rule, ON_COMMAND_LINE, "the student's", missing=missing))
    if table.ignored:
        names = ", ".join(repr(name) for name in table.ignored[:_MOST_TOLD])
        more = f" and {len(table.ignored) - _MOST_TOLD} more" if len(table.ignored) > _MOST_TOLD else ""
        tell(f"columns that the student does not use: {names}{more}")
    for remark in table.remarks[:_MOST_TOLD]:
        tell(remark)
    if len(table.remarks) > _MOST_TOLD:
        tell(f"{len(table.remarks) - _MOST_TOLD} more columns with values that are odd")
    probabilities = published.predict_proba(table.x)
    text = _csv(published, probabilities) if output == "text" else _json(published, probabilities, table)
    if out is not None:
        with writing(out, "Make room, or choose another with --out"):
            write_private(out, text.encode())
    return text


def _csv(published: Published, probabilities: np.ndarray) -> str:
    """One line for each row of the file, in its order: number from 1, class, the probability of each class, and where
    the student has an operating point, 1 for a row that is flagged."""
    text, classes = io.StringIO(), published.schema.classes
    flags = _flags(published, probabilities)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["row", "class", *[f"p_{name}" for name in classes], *(["flagged"] if flags else [])])
    for number, (best, row) in enumerate(zip(probabilities.argmax(axis=1), probabilities, strict=True), 1):
        flag = [int(flags[number - 1])] if flags else []
        writer.writerow([number, classes[best], *[f"{value:.9g}" for value in row], *flag])
    return text.getvalue()


def _json(published: Published, probabilities: np.ndarray, table: SchemaRows) -> str:
    classes, flags = published.schema.classes, _flags(published, probabilities)
    answers = [
        {
            "row": number,
            "class": classes[best],
            "probabilities": dict(zip(classes, row, strict=True)),
            **({"flagged": flags[number - 1]} if flags else {}),
        }
        for number, (best, row) in enumerate(zip(probabilities.argmax(axis=1), probabilities.tolist(), strict=True), 1)
    ]
    model = {"kind": published.kind, "sha256": published.sha256}
    return json.dumps({"model": model, "ignored": table.ignored, "told": table.remarks, "rows": answers}) + "\n"


def _flags(published: Published, probabilities: np.ndarray) -> list[bool]:
    """Which rows the student's operating point flags; empty where it has none."""
    threshold = published.threshold
    return [] if threshold is None else (probabilities[:, -1] > threshold).tolist()
