"""`Council`: a private student of many owners' rows, with the conventions of scikit-learn."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.events import read_events
from consilium.coordinator.ledger import stored_config
from consilium.data.encoding import encode, infer
from consilium.data.files import Lines
from consilium.data.remedy import Faults
from consilium.data.table import TableRule, ruled
from consilium.models.devices import Device, one_thread
from consilium.protocol.config_files import validate
from consilium.protocol.messages import MOST_SEED
from consilium.report.disclosure import SEEDED
from consilium.simulations.council.frames import (
    BadInput,
    BadSetting,
    Frame,
    GivenRows,
    PublicRows,
    Values,
    frame_of,
    has_names,
    value_errors,
)
from consilium.simulations.council.runs import PrivacyStatement, Report, charged, run_folder, run_of
from consilium.simulations.council.settings import Described, completed, in_python, scenario_of
from consilium.simulations.datasets.table import TableSource
from consilium.simulations.folder import LEDGER
from consilium.simulations.plan import check_gain
from consilium.simulations.population.specs import DataSpec
from consilium.simulations.progress import EVENTS
from consilium.simulations.release import load_own
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import divided_data


class Council(ClassifierMixin, BaseEstimator):
    """Teachers of many owners vote on public rows; noisy counts or winners are released; a student learns from them.

    Only public rows and what was released shape the student. Everything goes the way of `consilium run`: there is a
    ledger, a report and an audit behind each fit (`run_`).

    Parameters
    ----------
    teacher : what each owner trains: a name ("ridge", "sklearn.svm.SVC"), a table ({"model": "ridge", "alpha": 2.0}),
        or an estimator. None: logistic regression.
    student : what learns from the labels, likewise ({"name": "graph", "gamma": 0.5}). None: logistic regression.
    epsilon, delta : the promise, a worst case over all votes. epsilon None: what the noise of `mechanism` gives.
    unit : "party" (a whole owner), "patient" or "record"; it has no default on purpose.
    neighbouring : "replace" or "add_or_remove": whether the unit's data become others, or are there or not. With two
        classes, adding or removing a party takes half the noise, and promises less: see docs/decisions/difference.md.
    parties : without owners, deal the rows to so many parties at random.
    teachers_per_party : teachers on disjoint shards of an owner's rows. None: one where the unit is a party, else one
        for each ten rows (patients, where they are the unit) of an owner in the median, of public owners if there are.
    public_share : of the owners, held out whole (of the rows, where they are dealt at random), where `fit` is told of
        no public rows.
    public_labels : so many labels of the public rows that are asked, or "all", are used beside the votes. 0: the
        student learns from what was released alone, and the report says what these labels alone would give.
    mechanism, queries : how labels come from votes, a name or a table, and how many at most. None: as many as
        there are public rows to ask, up to 300, each answered with the noisy winner (GNMax; the noisy difference of
        two classes where a party is added or removed), and the noise that `epsilon` takes.
    classes, columns : what y and the columns may be, where public rows do not say it.
    missing, cells : texts that mean "missing"; codes, units, spellings and missing values of single columns, as in a
        scenario. `consilium data check` writes them. Later rows are read likewise.
    noise : "system" is the operating system's entropy. "seeded" can be repeated and protects nobody.
    manual_labels : "quick" or "none": whether the student's worth in manual labels is looked for.
    settings : other keys of a scenario, {"federation.collection": "secure", "student.rounds": 2}.
    random_state : seed of division, teachers and student; of the noise only where it is "seeded".
    device : "auto", "cpu" or "cuda".
    out : new folder of the run; None: a temporary one, removed with the object.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_ : as everywhere in scikit-learn; `classes_` is sorted as numpy sorts,
        whatever the order of `classes`.
    privacy_ : `PrivacyStatement`, what was promised.
    run_ : the `Run`. report_ : its report. student_ : the published student. n_owners_ : owners that took part.
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
        public_labels: int | Literal["all"] = 0,
        mechanism: str | Mapping[str, Any] | None = None,
        queries: int | None = None,
        classes: Sequence[Any] | None = None,
        columns: Mapping[str, Any] | None = None,
        missing: Sequence[str] = (),
        cells: Mapping[str, Any] | None = None,
        noise: Literal["system", "seeded"] = "system",
        manual_labels: Literal["quick", "none"] = "quick",
        settings: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        device: Device = "auto",
        out: str | Path | None = None,
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
        self.public_labels = public_labels
        self.mechanism = mechanism
        self.queries = queries
        self.classes = classes
        self.columns = columns
        self.missing = missing
        self.cells = cells
        self.noise = noise
        self.manual_labels = manual_labels
        self.settings = settings
        self.random_state = random_state
        self.device: Device = device
        self.out = out

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
        NothingToGain : the noise of `epsilon` drowns the votes; with a mechanism named it is run all the same.
        FailedAfterRelease : it failed once something was released, and says where that is.
        KeyboardInterrupt : what was released until then stays charged.
        """
        with value_errors(in_python), one_thread():
            X, public = self._ruled(X), self._ruled(public) if has_names(public) else public
            try:
                rows = GivenRows.of(X, y, owners, patients, public, self.classes)
            except BadInput as error:
                if not has_names(X):
                    raise
                frame, faults = frame_of(X), Faults([error])  # with all that is wrong with the features
                roles = [name for name in (y, owners, patients) if isinstance(name, str) and name in frame.columns]
                infer(frame.drop(roles), places=Lines.of_rows("the table", frame.height), faults=faults)
                raise faults.error("the table", cure=True, python=True) from None
            shown: Any = rows.frame.select(rows.features) if rows.named else X
            validate_data(self, shown, skip_check_array=True)
            with tempfile.TemporaryDirectory(prefix="consilium-") as folder:
                self._fit(rows, Path(folder))
        return self

    def _fit(self, rows: GivenRows, estimators: Path) -> None:
        seed = self._seed()
        table = scenario_of(self.get_params(deep=False), rows, estimators)
        data = validate(table["data"], DataSpec, "Council: data")
        source = TableSource.of_frame(rows.frame, data, rows.public)
        scenario = completed(table, seed, source)
        if self.mechanism is None and not scenario.student.public_labels:
            dataset, partition = divided_data(scenario, seed, source)
            parties, features = len(partition.parties), len(dataset.features)
            check_gain(scenario, parties, features, len(dataset.classes))
        owners = None if source.owner_names is None else frozenset(source.owner_names)
        # of each fit what it promised, and whose rows it was on; None where they were dealt at random: anybody's
        self._charges: list[tuple[FederationConfig, frozenset[str] | None]] = getattr(self, "_charges", [])
        before = [of for of, whose in self._charges if owners is None or whose is None or owners & whose]
        with run_folder(self.out) as path:
            try:
                summary = run_scenario("Council", scenario, "local", seed, path, device=self.device, source=source)
            finally:  # the promise is written before anything leaves
                if any(event.kind == "promised" for event in read_events(path / EVENTS)):
                    _, config = stored_config(path / LEDGER)
                    self._charges.append((FederationConfig.model_validate_json(config), owners))
        self.run_ = run_of(path, self.out is None, in_python)
        self.student_ = load_own(path)
        meant = np.array([rows.meant[name] for name in self.student_.schema.classes])
        self.classes_, self._columns = np.unique(meant, return_index=True)
        self.n_owners_ = int(summary["parties"])
        now = scenario.federation.privacy
        self.privacy_ = PrivacyStatement.of(summary["privacy"], [charged(earlier, now) for earlier in before])
        self._others = tuple(name for name in (rows.label, rows.owner, rows.patient) if name is not None)

    def predict_proba(self, X: Frame) -> np.ndarray:
        """Probabilities float64 (rows, classes) in the order of `classes_`. Missing values take the public mean. Raises
        BadInput, WrongType: rows that are not like those of the fit."""
        check_is_fitted(self)
        with value_errors():
            schema = self.student_.schema
            encoded, doubts = encode(self._features(X), schema.columns)
            for doubt in doubts:
                text = f"{len(doubt.rows)} rows hold a value of {doubt.column!r} that no public row had; it is left out"
                warnings.warn(text, UserWarning, stacklevel=2)
            return self.student_.predict_proba(schema.filled(encoded))[:, self._columns]

    def predict(self, X: Frame) -> np.ndarray:
        """The likeliest class of each row. Raises as `predict_proba`."""
        likeliest = self.predict_proba(X).argmax(axis=1)  # first, for it says where nothing was fitted
        return self.classes_[likeliest]

    @property
    def report_(self) -> Report:
        """The report: a path, `.open()` in the browser, `.public` for anybody."""
        check_is_fitted(self)
        return self.run_.report

    def _features(self, X: Frame) -> pl.DataFrame:
        named, frame = has_names(X), frame_of(self._ruled(X) if has_names(X) else X)
        known: Sequence[str] | None = getattr(self, "feature_names_in_", None)
        if named and known is not None:
            frame = frame.drop([name for name in self._others if name in frame.columns])
        shown: Any = frame if named else X
        validate_data(self, shown, reset=False, skip_check_array=True)
        columns = [column.column for column in self.student_.schema.columns] if known is None else known
        return frame.rename(dict(zip(frame.columns, columns, strict=True)))

    def _ruled(self, X: Frame) -> Frame:
        if not self.missing and not self.cells:
            return X
        if not has_names(X):
            raise BadSetting("missing and cells are for columns with names, and the rows are an array", "Give a frame")
        frame, cells = frame_of(X), dict(self.cells or {})
        if hasattr(self, "run_"):  # later rows may lack the label
            cells = {name: cells[name] for name in cells if name in frame.columns}
        rule = validate({"columns": cells, "missing": tuple(self.missing)}, TableRule, "Council: cells")
        return ruled(frame, rule, Lines.of_rows("the table", frame.height))

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            if not 0 <= self.random_state <= MOST_SEED:
                raise BadSetting(f"random_state is {self.random_state}", f"Give one from 0 to {MOST_SEED}, or None")
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
