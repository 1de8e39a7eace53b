"""`consilium predict`: a published student's answer for each row of a file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from consilium.data.files import CsvRule
from consilium.data.remedy import quoted
from consilium.data.table import Reading, read_schema_rows
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
    """Predictions for a file of rows as CSV or JSON; written to `out`, for its owner's eyes, if that is given. `given`:
    a student's folder, a run's, or the model file. `rows`: CSV or Parquet, in which `missing` are texts that mean
    "missing", besides empty ones. `tell` gets remarks: ignored columns, odd values. judge_unknown: whether rows with a
    category that the student does not know are judged, as if it were none; otherwise they have no prediction. Raises
    OutputExists, PathError, StorageError: `out` is there, or cannot be written. BadModel, BadTable: of no use."""
    if out is not None and out.exists():
        raise OutputExists(f"{out} is already there", "Choose another with --out, or remove it")
    path = find_model(given)
    published = load_model(path)
    check_card(path.parent, published)
    table = read_schema_rows(rows, published.schema, Reading(rule, missing=missing))
    if table.ignored:
        tell(f"columns that the student does not use: {quoted(table.ignored, _MOST_TOLD)}")
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
    classes, threshold, rows_of_file = published.schema.classes, published.threshold, list[dict[str, Any]]()
    for number, (row, none) in enumerate(zip(probabilities, left_out, strict=True), 1):
        answer = {"class": classes[row.argmax()], "probabilities": dict(zip(classes, row.tolist(), strict=True))}
        if threshold is not None:
            answer["flagged"] = bool(row[-1] > threshold)
        rows_of_file.append({"row": number} | (dict.fromkeys(answer) if none else answer))
    if output == "text":
        text = _csv(published, rows_of_file)
    else:
        model = {"kind": published.kind, "sha256": published.sha256}
        found = {"model": model, "ignored": table.ignored, "told": table.remarks, "rows": rows_of_file}
        text = json.dumps(found) + "\n"
    if out is not None:
        with writing(out, "Make room, or choose another with --out"):
            write_private(out, text.encode())
    return text


def _csv(published: Published, rows: list[dict[str, Any]]) -> str:
    text, classes = io.StringIO(), published.schema.classes
    writer = csv.writer(text, lineterminator="\n")
    flagged = [] if published.threshold is None else ["flagged"]
    writer.writerow(["row", "class", *[f"p_{name}" for name in classes], *flagged])
    for answer in rows:
        shares = [""] * len(classes)
        if answer["probabilities"]:
            shares = [f"{value:.9g}" for value in answer["probabilities"].values()]
        flag = [None if answer["flagged"] is None else int(answer["flagged"])] if flagged else []
        writer.writerow([answer["row"], answer["class"], *shares, *flag])
    return text.getvalue()
