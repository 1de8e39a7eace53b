"""`Council`: a private student of many owners' rows, with the conventions of scikit-learn."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from consilium.data.encoding import encode, infer
from consilium.data.files import Lines
from consilium.data.remedy import Faults
from consilium.data.table import TableRule, ruled
from consilium.models.devices import Device, one_thread
from consilium.protocol.config_files import validate
from consilium.protocol.errors import DataError
from consilium.protocol.messages import CollectionMode
from consilium.report.disclosure import SEEDED
from consilium.report.words import plural
from consilium.simulations.council.defaults import completed
from consilium.simulations.council.frames import (
    BadInput,
    BadSetting,
    Frame,
    Given,
    NothingToGain,
    PublicRows,
    Values,
    as_keyboard_interrupt,
    frame_of,
    has_names,
    value_errors,
)
from consilium.simulations.council.pages import Report
from consilium.simulations.council.runs import ProgressCallback, Run, RunFolder, warn_of, watching
from consilium.simulations.council.settings import Described, ObjectFiles, in_python, scenario_of
from consilium.simulations.council.statement import Charge, PrivacyStatement, Spending
from consilium.simulations.datasets.base import Source
from consilium.simulations.datasets.own import HINTS
from consilium.simulations.datasets.table import TableSource
from consilium.simulations.manifest import charged_queries
from consilium.simulations.population.specs import DataSpec
from consilium.simulations.release import load_own
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import Scenario


@contextmanager
def _saying_what_was_released(run_dir: Path) -> Iterator[None]:
    """Who interrupts a fit reads whether something was charged by then, and where it is."""
    try:
        yield
    except KeyboardInterrupt:
        queries = charged_queries(run_dir)
        outcome = f"{queries} queries were released and stay charged: {run_dir}" if queries else "nothing was released"
        raise KeyboardInterrupt(f"interrupted; {outcome}") from None


def _with_all_faults(error: BadInput, X: Frame, *columns: str | Values | None) -> DataError:
    """The error, with all else that must be mended in a frame. columns: y, owners and patients, names or arrays."""
    if not has_names(X):
        return error
    frame, faults = frame_of(X), Faults([error])
    features = frame.drop([name for name in columns if isinstance(name, str) and name in frame.columns])
    infer(features, places=Lines.of_rows("the table", frame.height), faults=faults)
    return faults.error("the table", cure=True, python=True)


class Council(ClassifierMixin, BaseEstimator):
    """Teachers of many owners vote on public rows; noisy counts or winners are released; a student learns from them.

    Only public rows and what was released shape the student. Everything goes the way of `consilium run`: there is a
    ledger, a report and an audit behind each fit (`run_`).

    Parameters
    ----------
    teacher : what each owner trains: a name ("ridge", "sklearn.svm.SVC"), a table ({"model": "ridge", "alpha": 2.0}),
        a description of the package, or an estimator. None: logistic regression.
    student : what learns from the labels, likewise ({"name": "graph", "gamma": 0.5}). None: logistic regression.
    epsilon, delta : the promise, a worst case over all votes. epsilon None: what the noise of `mechanism` gives.
    unit : "party" (a whole owner), "patient" or "record"; it has no default on purpose.
    neighbouring : "replace" or "add_or_remove": how the unit's data may change.
    parties : without owners, deal the rows to so many parties by lot.
    teachers_per_party : teachers on disjoint shards of an owner's rows. None: one where the unit is a party, else one
        for each ten rows of a public owner, in the median.
    public_share : of the owners, held out whole (of the rows, where they are dealt by lot), where `fit` is told of no
        public rows.
    mechanism, queries, answers : how labels come from votes, and how many at most. None: noisy argmax (GNMax) of as
        many as there are public rows to ask, up to 300, with the noise that `epsilon` takes.
    voting rule : how a teacher turns its scores into its vote. collection : "plaintext", "secure" or
    "verified". asking : keys of `[student]`: how the student asks, and its declared prevalence.
    public_labels : of how many public rows, by lot, the labels are known to everybody: the student is brought to them
        before it is published, at no epsilon. None of them judges it.
    classes, columns : what y and the columns may be, where public rows do not say it.
    missing, cells : texts that mean "missing"; codes, units, spellings and missing values of single columns, as in a
        scenario. `consilium data check` writes them. Later rows are read likewise.
    least_rows : that an owner needs to take part; None: one for each teacher. minimum_parties : below, the run ends.
    noise : "system" is the operating system's entropy. "seeded" can be repeated and protects nobody.
    random_state : seed of division, teachers and student; of the noise only where it is "seeded".
    if_hopeless : "raise" where the noise drowns all that these owners can vote, or "warn".
    hand_labels : "quick", "full" or "none": how well the student's worth in labels by hand is found.
    device : "auto", "cpu" or "cuda".
    out : new folder of the run; None: a temporary one, removed with the object.
    progress : a function of (stage, done, total), True for bars, None for nothing.
    name : of the federation, for report and model card.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_ : as everywhere in scikit-learn; `classes_` is sorted as numpy sorts,
        whatever the order of `classes`.
    privacy_ : `PrivacyStatement`, what was promised.
    run_ : the `Run`. report_ : its report. labels_ : what was released. student_ : the published student.
    spread_ : how far noise of the same scale moves the student, found from what was released, at no cost of privacy: a
        dict of refits, metrics (accuracy and auc, each with sd and interval), rank_correlation and agreement
        (docs/published-student.md); or of absent, which says why there is none.
    n_owners_ : owners that took part.
    """

    def __init__(
        self,
        teacher: Described = None,
        student: Described = None,
        *,
        epsilon: float | None = 1.0,
        delta: float = 1e-5,
        unit: Literal["party", "patient", "record"] | None = None,
        neighbouring: Literal["replace", "add_or_remove"] = "replace",
        parties: int | None = None,
        teachers_per_party: int | None = None,
        public_share: float = 0.2,
        mechanism: Described = None,
        queries: int | None = None,
        answers: int | None = None,
        voting_rule: Described = None,
        collection: CollectionMode = "plaintext",
        asking: Mapping[str, Any] | None = None,
        public_labels: int = 0,
        classes: Sequence[Any] | None = None,
        columns: Mapping[str, Any] | None = None,
        missing: Sequence[str] = (),
        cells: Mapping[str, Any] | None = None,
        least_rows: int | None = None,
        minimum_parties: int = 2,
        noise: Literal["system", "seeded"] = "system",
        random_state: int | np.random.RandomState | None = None,
        if_hopeless: Literal["raise", "warn"] = "raise",
        hand_labels: Literal["quick", "full", "none"] = "quick",
        device: Device = "auto",
        out: str | Path | None = None,
        progress: ProgressCallback | bool | None = None,
        name: str = "Council",
    ) -> None:
        self.teacher = teacher
        self.student = student
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.neighbouring = neighbouring
        self.parties = parties
        self.teachers_per_party = teachers_per_party
        self.public_share = public_share
        self.mechanism = mechanism
        self.queries = queries
        self.answers = answers
        self.voting_rule = voting_rule
        self.collection = collection
        self.asking = asking
        self.public_labels = public_labels
        self.classes = classes
        self.columns = columns
        self.missing = missing
        self.cells = cells
        self.least_rows = least_rows
        self.minimum_parties = minimum_parties
        self.noise = noise
        self.random_state = random_state
        self.if_hopeless = if_hopeless
        self.hand_labels = hand_labels
        self.device: Device = device
        self.out = out
        self.progress = progress
        self.name = name

    def fit(
        self,
        X: Frame,
        y: str | Values,
        owners: str | Values | None = None,
        *,
        public: PublicRows = None,
        patients: str | Values | None = None,
    ) -> Self:
        """Run the federation of these rows, and keep its student.

        Parameters
        ----------
        X : a pandas or polars frame, an Arrow table, or a 2-D array; gaps, texts and booleans may be in it.
        y, owners, patients : name of a column of X that is no feature, or an array.
        public : which rows are treated as public: names of owners, who are held out whole, or a frame of rows that are
            nobody's. None: `public_share`. Half of the public rows are asked, the other half judge the student.

        Raises
        ------
        ConsiliumError : what is wrong, and what to do; wrong input is a ValueError or TypeError too.
        FailedAfterRelease : it failed once something was released, and says where that is.
        KeyboardInterrupt : what was released until then stays charged.
        """
        with value_errors(in_python), one_thread():
            X, public = self._ruled(X), self._ruled(public) if has_names(public) else public
            try:
                rows = Given.of(X, y, owners, patients, public, self.classes)
            except BadInput as error:
                raise _with_all_faults(error, X, y, owners, patients) from None
            shown: Any = rows.frame.select(rows.features) if rows.named else X
            validate_data(self, shown, skip_check_array=True)
            with tempfile.TemporaryDirectory(prefix="consilium-") as folder:
                self._fit(rows, ObjectFiles(Path(folder)))
        return self

    def _fit(self, rows: Given, files: ObjectFiles) -> None:
        seed = self._seed()
        table = scenario_of(self.get_params(deep=False), rows, files)
        data = validate(table["data"], DataSpec, "Council: data")
        source = TableSource.of_frame(rows.frame, data, rows.public)
        scenario = self._completed(table, seed, source)
        before, charge = getattr(self, "_spending", Spending()), Charge.of(scenario.federation, source.owner_names)
        with RunFolder(self.out) as folder:
            try:
                with _saying_what_was_released(folder.path), watching(self.progress) as watch, as_keyboard_interrupt():
                    summary = run_scenario(
                        self.name, scenario, "local", seed, folder.path, watch, device=self.device, source=source
                    )
            finally:
                self._spending = before.with_run(charge, folder.path)
        run = Run(folder.path)
        folder.kept_by(run)
        self.run_ = run
        warn_of(run, in_python)
        self.student_ = load_own(folder.path)
        meant = np.array([rows.meant[name] for name in self.student_.schema.classes])
        self.classes_, self._columns = np.unique(meant, return_index=True)
        self.n_owners_ = int(summary["parties"])
        self.spread_ = summary["noise_spread"]
        self.privacy_ = PrivacyStatement.of(summary["privacy"], self._spending.before(charge))
        self._others = tuple(name for name in (rows.label, rows.owner, rows.patient) if name is not None)

    def predict_proba(self, X: Frame) -> np.ndarray:
        """Probabilities float64 (rows, classes) in the order of `classes_`. Missing values take the public mean.

        Raises
        ------
        BadInput, WrongType : rows that are not like those of the fit.
        """
        check_is_fitted(self)
        with value_errors():
            return self.student_.predict_proba(self._filled(X))[:, self._columns]

    def predict(self, X: Frame) -> np.ndarray:
        """The likeliest class of each row. Raises as `predict_proba`."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        return self.classes_[likeliest]

    @property
    def labels_(self) -> pl.DataFrame:
        """What the student got, see `Run.labels`."""
        check_is_fitted(self)
        return self.run_.labels

    @property
    def report_(self) -> Report:
        """The report: a path, `bytes(...)` of it, `.open()` in the browser, `.public` for anybody."""
        check_is_fitted(self)
        return self.run_.report

    def _filled(self, X: Frame) -> np.ndarray:
        """Rows as they travel, float (n, features), with the public mean where a value is missing."""
        schema = self.student_.schema
        encoded, doubts = encode(self._features(X), schema.columns)
        for doubt in doubts:
            text = f"{len(doubt.rows)} rows hold a value of {doubt.column!r} that no public row had; it is left out"
            warnings.warn(text, UserWarning, stacklevel=3)
        return schema.filled(encoded)

    def _features(self, X: Frame) -> pl.DataFrame:
        """The rows with the columns of the fit; those of labels and owners may be there still."""
        named, frame = has_names(X), frame_of(self._ruled(X) if has_names(X) else X)
        known: Sequence[str] | None = getattr(self, "feature_names_in_", None)
        if named and known is not None:
            frame = frame.drop([name for name in self._others if name in frame.columns])
        shown: Any = frame if named else X
        validate_data(self, shown, reset=False, skip_check_array=True)
        columns = [column.column for column in self.student_.schema.columns] if known is None else known
        return frame.rename(dict(zip(frame.columns, columns, strict=True)))

    def _ruled(self, X: Frame) -> Frame:
        """The rows as `missing` and `cells` say they are to be read."""
        if not self.missing and not self.cells:
            return X
        if not has_names(X):
            raise BadSetting("missing and cells are for columns with names, and the rows are an array", "Give a frame")
        rule = validate(
            {"columns": dict(self.cells or {}), "missing": tuple(self.missing)}, TableRule, "Council: cells"
        )
        frame = frame_of(X)
        if hasattr(self, "run_"):  # later rows may lack the label
            rule = rule.model_copy(
                update={"columns": {name: cells for name, cells in rule.columns.items() if name in frame.columns}}
            )
        return ruled(frame, rule, Lines.of_rows("the table", frame.height), HINTS)

    def _completed(self, table: dict[str, Any], seed: int, source: Source) -> Scenario:
        """The scenario, whole. Raises NothingToGain where noise drowns it."""
        whole, why = completed(table, seed, source)
        if why and self.if_hopeless == "raise":
            raise NothingToGain(
                why,
                f"More {plural(source.owner_label)} help most, then a larger epsilon, or unit='record' with several"
                " teachers in each; if_hopeless='warn' runs it all the same",
            )
        if why:
            warnings.warn(why, UserWarning, stacklevel=4)
        return validate(whole, Scenario, "Council")

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text = super().__repr__(N_CHAR_MAX)
        return text if self.noise == "system" else f"{text}\n{SEEDED}"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.non_deterministic = self.noise == "system"
        return tags
