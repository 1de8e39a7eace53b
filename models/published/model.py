"""A published student: raw rows in the schema's order and units -> probabilities of its classes."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from unicodedata import category

import numpy as np
from pydantic import Field, FiniteFloat, model_validator
from scipy.special import expit, logsumexp, softmax

from consilium.data.files import CsvRule
from consilium.data.remedy import quoted
from consilium.data.table import Reading, read_schema_rows
from consilium.models.adapted import Adapted, adapt
from consilium.models.base import Model
from consilium.models.evaluation import threshold_for
from consilium.models.naming import UnusableModel
from consilium.models.published.file import BadModel, Content, decoded, encoded, read, write
from consilium.models.published.structures import Parts, check_shapes, needed, put_together, take_apart, within
from consilium.protocol.config_files import read_table, validate
from consilium.protocol.errors import ConfigError, OutputExists, PathError
from consilium.protocol.files import write_private, writing
from consilium.protocol.images import width
from consilium.protocol.models import Frozen
from consilium.protocol.queries import canonical_queries
from consilium.protocol.schema import Schema

FORMAT = "consilium-student-1"
MODEL_FILE = "model.safetensors"
CARD_FILE = "student.json"
PEOPLES_CARD_FILE = "MODEL_CARD.md"
_BLOCK = 2000
_FORMULA = re.compile(r"[=@]|[+-].*[(|!]")
_FURTHEST_SUM = 1e-3
_ADAPTED = "adapted."


FURTHEST_MEAN = 1e-9
"""Of a class's mean over the pool from its prevalence."""
_FLOOR = 1e-300
_FURTHEST_SUM = 1e-6
_RIDGE = 1e-12
_MOST_SHIFT = 2000.0  # -ln(_FLOOR) is 691, twice that tells certain rows of two classes apart


class PrevalenceShift(Frozen):
    """Probabilities shifted to a declared prevalence: softmax(log p + shift), the shift of the first class being 0.

    A student learns shares of votes, and a share of votes is no risk: teachers that all call the likelier class make
    0.6 of it look like 1, and balanced ones make 0.1 look like 0.5. What lacks is how frequent the classes are among
    the rows that the student is for. Where somebody knows that from outside, the shift makes the mean over the public
    pool equal to it; ranks within two classes stay (the prior shift of Saerens et al. 2002, with the means known
    instead of estimated).

    prevalence: shares of the classes. threshold: of two classes, the probability of the last above which a row is
    flagged.
    """

    prevalence: tuple[FiniteFloat, ...] = Field(min_length=2)
    shift: tuple[FiniteFloat, ...]
    threshold: float | None = Field(default=None, ge=0, le=1)

    @model_validator(mode="after")
    def _fits_itself(self) -> PrevalenceShift:
        if len(self.shift) != len(self.prevalence) or max(map(abs, self.shift)) > _MOST_SHIFT:
            raise ValueError(f"{len(self.shift)} shifts for {len(self.prevalence)} classes, or one is too large")
        if min(self.prevalence) <= 0 or abs(sum(self.prevalence) - 1) > _FURTHEST_SUM:
            raise ValueError("prevalence: positive shares that sum to 1")
        if (self.threshold is None) != (len(self.prevalence) > 2):
            raise ValueError("a threshold is that of two classes")
        return self

    @classmethod
    def onto(cls, prevalence: tuple[float, ...], probabilities: np.ndarray) -> PrevalenceShift:
        """The shift after which the mean of the pool's `probabilities` float64 (n, classes) is `prevalence`. Raises
        BadModel: there is none that is near enough."""
        shares = np.array(prevalence) / sum(prevalence)
        logs = _logs(probabilities)
        shift = _fitted(logs, shares)
        shifted = softmax(logs + shift, axis=1)
        if np.abs(shifted.mean(axis=0) - shares).max() > FURTHEST_MEAN:
            raise BadModel(
                f"the student's probabilities cannot be shifted to the prevalence {list(prevalence)}",
                "Leave [student] prevalence out, or choose another trainer",
            )
        threshold = threshold_for(shifted[:, 1], shares[1]) if len(shares) == 2 else None
        return cls(prevalence=tuple(shares.tolist()), shift=tuple(shift.tolist()), threshold=threshold)

    def applied(self, probabilities: np.ndarray) -> np.ndarray:
        return softmax(_logs(probabilities) + np.array(self.shift), axis=1)


def _logs(probabilities: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(probabilities, _FLOOR))


def _fitted(logs: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The minimum of the convex mean of logsumexp(logs + shift) - shares shift, whose gradient is what the means lack.
    In a region of trust, since students that are sure of every row leave plateaus, on which the Hessian says nothing;
    then Newton's steps to the last digit. Of two classes by halves: the second's mean rises with its shift."""
    if len(shares) == 2:
        apart, low, high = logs[:, 1] - logs[:, 0], -_MOST_SHIFT, _MOST_SHIFT
        while low < (middle := (low + high) / 2) < high:
            low, high = (low, middle) if expit(apart + middle).mean() >= shares[1] else (middle, high)
        return np.array([0.0, high])

    def shifted(free: np.ndarray) -> np.ndarray:
        return np.concatenate([[0.0], free])

    def height(free: np.ndarray) -> float:
        return float(np.asarray(logsumexp(logs + shifted(free), axis=1)).mean() - shares @ shifted(free))

    def gap(free: np.ndarray) -> np.ndarray:
        return (np.asarray(softmax(logs + shifted(free), axis=1)).mean(axis=0) - shares)[1:]

    def curvature(free: np.ndarray) -> np.ndarray:
        p = softmax(logs + shifted(free), axis=1)[:, 1:]
        return np.diag(p.mean(axis=0) + _RIDGE) - p.T @ p / len(p)

    start, options = np.zeros(len(shares) - 1), {"gtol": FURTHEST_MEAN / 10, "max_trust_radius": 2 * _MOST_SHIFT}
    from scipy.optimize import minimize  # only where a prevalence is stated

    free = minimize(height, start, jac=gap, hess=curvature, method="trust-exact", options=options).x
    while True:
        further = free + np.linalg.lstsq(curvature(free), -gap(free), rcond=None)[0]
        if not np.abs(gap(further)).max() < np.abs(gap(free)).max():
            return shifted(free)
        free = further


class _Header(Frozen):
    """What the file says beside its numbers."""

    format: Literal["consilium-student-1"]
    rows: Schema
    kind: str = Field(max_length=40)
    settings: dict[str, Any]
    calibration: PrevalenceShift | None = None
    adapted: FiniteFloat | None = Field(default=None, ge=0, le=1)
    """Its weight, see `Adapted`; the arrays are in the file."""


@dataclass(frozen=True)
class Published:
    """A student with everything that it needs. `kind`: see `structures`. `sha256`: of its file, hex. calibration: how
    the model's probabilities are brought to a prevalence; None where none is known. needs: what it takes to load it,
    where others wrote it. adapted: brings its probabilities to public rows with labels, after that; None where there
    are none, or it does better without."""

    schema: Schema
    kind: str
    model: Model
    sha256: str
    calibration: PrevalenceShift | None = None
    needs: str = ""
    adapted: Adapted | None = None

    @property
    def threshold(self) -> float | None:
        """Above which a row is flagged as the last of two classes. None where no prevalence is known, or where the
        probabilities are no longer those that were brought to it."""
        return None if self.calibration is None or self.adapted is not None else self.calibration.threshold

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        """Rows (n, features), raw, in the schema's order -> probabilities float64 (n, classes). Raises DataError: no
        rows, another width, a number that is missing or beyond float32. BadModel: no probabilities come out."""
        canonical = canonical_queries(rows, len(self.schema.features))
        found = [self._block(canonical[start : start + _BLOCK]) for start in range(0, len(canonical), _BLOCK)]
        return np.concatenate(found)

    def _block(self, rows: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):  # what comes of it is looked at below
            x = rows if self.kind == "graph_cnn" else self.schema.inputs(rows)
            try:
                probabilities = self.model.predict_proba(x)
            except UnusableModel as error:
                raise BadModel(error.what, "It is damaged, or was not made for such rows") from None
            good = (probabilities >= 0).all(axis=1) & (np.abs(probabilities.sum(axis=1) - 1) <= _FURTHEST_SUM)
        if not good.all():
            raise BadModel(
                f"the student's answer for {np.count_nonzero(~good)} rows is no probabilities",
                "Their values are far beyond what it was made for, or it is damaged",
            )
        if self.calibration is not None:
            probabilities = self.calibration.applied(probabilities)
        if self.adapted is not None:
            probabilities = self.adapted.probabilities(self.schema.inputs(rows), probabilities)
        return probabilities


def publish(
    path: Path | None,
    model: Model,
    schema: Schema,
    pool: np.ndarray,
    prevalence: tuple[float, ...] = (),
    known: tuple[np.ndarray, np.ndarray] | None = None,
) -> Published:
    """The student as its file says it, written to `path`, or nowhere; `pool`: public rows (n, features). prevalence:
    shares of the classes, to which the mean of its probabilities over the pool is brought; empty: they stay what the
    model says. known: public rows (n, features), as they travel, and their classes int64 (n,), which everybody knows.
    After the prevalence, the student is brought to them. Raises BadModel: it is too large, or has a number that is not
    finite. UnusableModel: others wrote it, and it cannot be written without a pickle."""
    parts = take_apart(model)
    arrays, place = dict(parts.arrays), path or "student"
    header: dict[str, Any] = {"format": FORMAT, "rows": schema.model_dump(mode="json")}
    header |= {"kind": parts.kind, "settings": parts.settings}

    def read_back() -> Published:
        return _loaded(decoded(encoded(header, arrays), place), place, parts.trusted, parts.factory)

    written = read_back()
    if prevalence:
        calibration = PrevalenceShift.onto(prevalence, written.predict_proba(pool))
        header["calibration"] = calibration.model_dump(mode="json")
        written = read_back()
    if known is not None:
        rows, y = known
        x = schema.inputs(canonical_queries(rows, len(schema.features)))
        if adapted := adapt(x, y, written.predict_proba(rows)):
            header["adapted"] = adapted.weight
            arrays[f"{_ADAPTED}intercept"] = adapted.intercept
            arrays[f"{_ADAPTED}coefficients"] = adapted.coefficients
            written = read_back()
    if path is not None:
        write(path, header, arrays)
    return written


def check_names(schema: Schema) -> None:
    """Names reach terminals and spreadsheets: there, too, nothing of a student may be executed. Raises BadModel: a name
    has a control character, or a class is what a spreadsheet takes for a formula."""
    values = [value for column in schema.columns for value in column.values]
    for name in (*schema.features, *schema.classes, *values):
        if any(category(sign) == "Cc" for sign in name):
            raise BadModel(f"the name {name!r} has a control character", "Rename it in the federation's schema")
    for name in schema.classes:
        if _FORMULA.match(name):
            raise BadModel(f"a spreadsheet would take the class {name!r} for a formula", "Rename it in the schema")


def load_model(path: Path | str, trust: Collection[str] = (), factory: Callable[..., Any] | None = None) -> Published:
    """Read one file. It builds known structures from numbers, and runs nothing that the file could bring. A student
    that others wrote needs more. trust: names of classes, beside those of scikit-learn, LightGBM and XGBoost
    (`skops_file.TRUSTED`), of which an estimator may be made. factory: makes a torch module, of which the file has the
    weights; called as factory(inputs=..., classes=..., **parameters), parameters of the file. Raises BadModel."""
    return _loaded(read(Path(path)), path, frozenset(trust), factory)


def _loaded(
    content: Content, path: Path | str, trusted: frozenset[str], factory: Callable[..., Any] | None
) -> Published:
    try:
        header = validate(content.header, _Header, "its description")
    except ConfigError as error:
        raise BadModel(
            f"{path} is no student that this version knows: {error.what}", "Upgrade, or get it anew"
        ) from None
    check_names(header.rows)
    arrays, adapted, schema = dict(content.arrays), None, header.rows
    if header.adapted is not None:
        mine = within(arrays, _ADAPTED)
        sizes = {"inputs": width(schema.representation, len(schema.features)), "classes": len(schema.classes)}
        check_shapes(mine, sizes, {"intercept": ("f8", "classes"), "coefficients": ("f8", "classes inputs")})
        adapted = Adapted(header.adapted, mine["intercept"], mine["coefficients"])
    parts = Parts(header.kind, header.settings, arrays, trusted, factory)
    model = put_together(parts, header.rows)
    if header.calibration is not None and len(header.calibration.shift) != len(header.rows.classes):
        raise BadModel(f"{path}: a shift of another number of classes", "Such a student must not be used")
    return Published(header.rows, header.kind, model, content.sha256, header.calibration, needed(parts), adapted)


def find_model(given: Path) -> Path:
    """The file in a student's folder, in the folder of a run, or as given. Raises PathError: nothing is there.
    BadModel: it holds no model that may be read."""
    folders = (given, given / "student")
    for path in (given, *(folder / MODEL_FILE for folder in folders)):
        if path.is_file():
            return path
    action = "Give the student's folder, or that of a finished run"
    if not given.exists():
        raise PathError(f"{given} is not there", action)
    raise BadModel(f"{given} has no {MODEL_FILE}", action)


def check_card(folder: Path, published: Published) -> None:
    """Whether the card beside a model, if there is one, is of this model. That tells a mixed-up or half-copied folder,
    not a forged one: whoever can change the file can change the card. Raises BadModel: it is not, or cannot be read."""
    path = folder / CARD_FILE
    if not path.exists():
        return
    action = "Get the student's folder anew from whoever trained it"
    try:
        claimed = read_table(path)["model"]["sha256"]
    except (ConfigError, KeyError, TypeError, RecursionError):
        raise BadModel(f"{path} cannot be read, or has no model.sha256", action) from None
    if claimed != published.sha256:
        raise BadModel(f"{path} is the card of another model: the SHA-256 of {MODEL_FILE} differs", action)


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
        text = _as_csv(published, rows_of_file)
    else:
        model = {"kind": published.kind, "sha256": published.sha256}
        found = {"model": model, "ignored": table.ignored, "told": table.remarks, "rows": rows_of_file}
        text = json.dumps(found) + "\n"
    if out is not None:
        with writing(out, "Make room, or choose another with --out"):
            write_private(out, text.encode())
    return text


def _as_csv(published: Published, rows: list[dict[str, Any]]) -> str:
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
