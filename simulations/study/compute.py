"""What a study computes of one division, in one process: its teachers and measures, then each method at each point.

What is done of each point lies in the study's folder as JSON, under the digest of all that decides it. So a study that
was cut short, and is run again, finds it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import signal
import socket
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed, parallel_config

from consilium.accounting.errors import AccountingError
from consilium.coordinator.mechanisms import noise_scales
from consilium.models.devices import one_thread
from consilium.protocol.config_files import validate
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConsiliumError, DataError, EngineError
from consilium.protocol.files import for_its_owner_alone, replace_private, writing
from consilium.simulations.datasets.base import Source, SourceSpec
from consilium.simulations.datasets.source import open_source
from consilium.simulations.divide import Case, make_case
from consilium.simulations.interruption import begin_worker
from consilium.simulations.judge import Row, judged, judged_row_scores
from consilium.simulations.methods.base import Predicted, StudyMethod
from consilium.simulations.scenario import Scenario
from consilium.simulations.study.measures.figures import gain_rows, teacher_rows
from consilium.simulations.study.measures.shift import division_rows
from consilium.simulations.study.spec import Plot, deciding_versions
from consilium.simulations.vote import Ensemble, train_ensemble

T = TypeVar("T")


@dataclass(frozen=True)
class StudyFailure:
    """Why something has no result."""

    what: str
    action: str = ""

    @classmethod
    def of(cls, error: Exception) -> StudyFailure:
        """What may be told of an error: the text of one that nobody foresaw might quote a row."""
        if isinstance(error, ConsiliumError):
            return cls(error.what, error.action)
        if isinstance(error, AccountingError):
            return cls(*error.told())
        if isinstance(error, MemoryError):
            return cls("there is not enough memory", "Run it with fewer --workers")
        frames = traceback.extract_tb(error.__traceback__)
        line = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
        return cls(f"internal error: {type(error).__name__}{line}", "Report this line")


def tried(make: Callable[..., T], *given: Any) -> T | StudyFailure:
    """What it gives; what is wrong with one thing ends no other, but what is made of it fails too."""
    if failed := next((each for each in given if isinstance(each, StudyFailure)), None):
        return failed
    try:
        return make(*given)
    except Exception as error:
        return StudyFailure.of(error)


@dataclass(frozen=True)
class Part:
    """What is kept of a cell or a measure. Of a cell alone: scores on test rows (`judged_row_scores`); why there is no
    such method; its guarantee, of unit "none" where there is none; parties that take part, and that were too small."""

    rows: list[Row] = field(repr=False)
    scores: Mapping[str, Any] = field(repr=False, default_factory=dict)
    absent: str = ""
    guarantee: Mapping[str, Any] = field(default_factory=dict)
    parties: int = 0
    left_out: int = 0


Result = tuple[Plot, str, Part | StudyFailure]
"""What there is of a plot under the name of a method, or of what was measured; "" where nothing of it can be done."""


@dataclass(frozen=True)
class Division:
    """Parties with their rows and their teachers, and what is compared on them. data: digest of the rows. kept: folder
    of what is done."""

    plots: Sequence[Plot] = field(repr=False)
    methods: Mapping[str, StudyMethod]
    measures: Sequence[str]
    home_share: float
    data: str
    kept: Path

    @property
    def cells(self) -> int:
        return len(self.plots) * len(self.methods)

    def left(self) -> tuple[int, bool, float]:
        """How many of its cells are not kept, whether anything is not, and the seconds that took what is."""
        known = [self.recalled(plot) for plot in self.plots]
        cells = sum(len(self.methods.keys() - parts.keys()) for parts, _ in known)
        some = any(not parts.keys() >= {*self.methods, *self.measures} for parts, _ in known)
        return cells, some, sum(seconds for _, seconds in known)

    def file(self, plot: Plot) -> Path:
        methods = {label: method.model_dump(mode="json") for label, method in self.methods.items()}
        decides = [dict(deciding_versions()), plot.id, methods, self.data, list(self.measures)]
        return self.kept / f"{canonical_digest(decides)}.json"

    def recalled(self, plot: Plot) -> tuple[dict[str, Part], float]:
        """What is kept of a plot, by name, and the seconds that it took; nothing where it is damaged."""
        try:
            parts, seconds = json.loads(self.file(plot).read_bytes())
            known = {name: Part(**part | {"rows": [Row(*row) for row in part["rows"]]}) for name, part in parts.items()}
            return known, float(seconds)
        except (OSError, ValueError, TypeError):
            return {}, 0.0

    def keep(self, plot: Plot, found: Mapping[str, Part | StudyFailure], seconds: float) -> None:
        """Keep what did not fail. Raises StorageError: the study could not go on after an interruption."""
        parts = {name: asdict(part) for name, part in found.items() if isinstance(part, Part)}
        with writing(self.file(plot)):
            replace_private(self.file(plot), json.dumps([parts, seconds]))


def compute(division: Division) -> list[Result]:
    """All of a division, kept or not: cells share its teachers, and what a method says that does not depend on the
    point. Nothing is made that only kept results need."""
    first, methods, measures = division.plots[0], division.methods, division.measures
    results: list[Result] = []
    made: dict[str, Any] = {}

    def once(name: str, make: Callable[..., Any], *given: Any) -> Any:
        if name not in made:
            made[name] = tried(make, *given)
        return made[name]

    def case() -> Case | StudyFailure:
        """With no mechanism of its own: what is computed of it holds for every mechanism."""
        rows = once("rows", _opened, source_table(first.teaching.data), division.data)
        return once("case", make_case, first.teaching, first.seed, division.home_share, rows)

    def ensemble() -> Ensemble | StudyFailure:
        return once("ensemble", train_ensemble, case())

    def predicted(label: str, settled: Case) -> Predicted | StudyFailure:
        method = methods[label]
        same = canonical_digest([label, method.depends_on(settled)])
        return once(same, _predicted, method, settled, ensemble() if method.needs_ensemble else None)

    for plot in division.plots:
        began, (parts, seconds) = time.monotonic(), division.recalled(plot)
        found: dict[str, Part | StudyFailure] = {**parts}
        if not parts.keys() >= {*methods, *measures}:
            settled = tried(_settled, case(), plot)
            if isinstance(settled, StudyFailure):
                results.append((plot, "", settled))
                continue
            if "division" in measures and "division" not in parts:
                found["division"] = once("of division", lambda of: Part(division_rows(of)), case())
            if "teachers" in measures and "teachers" not in parts:
                found["teachers"] = once("of votes", lambda *of: Part(teacher_rows(*of)), case(), ensemble())
            new = [label for label in methods if label not in parts]
            for label in new:
                found[label] = tried(_cell, label, methods[label], settled, predicted(label, settled))
            if "gain" in measures and ("gain" not in parts or any(isinstance(found[label], Part) for label in new)):
                said = {label: predicted(label, settled) for label in methods}
                said = {label: of for label, of in said.items() if isinstance(of, Predicted)}
                found["gain"] = tried(lambda *of: Part(gain_rows(*of)), settled, said)
            division.keep(plot, found, seconds + time.monotonic() - began)
        results += [(plot, name, part) for name, part in found.items()]
    return results


def source_table(data: SourceSpec) -> str:
    """Of the table `[data]` what says which rows there are, as JSON."""
    return json.dumps(data.model_dump(mode="json", include=set(SourceSpec.model_fields)))


@functools.lru_cache(maxsize=1)
def _opened(table: str, data: str) -> Source:
    return open_source(validate(json.loads(table), SourceSpec, "data of a study"))


def _settled(case: Case, plot: Plot) -> Case:
    federation = _within_rows(plot.table["federation"], len(set(case.pool_ids)))
    return case.of(validate({**plot.table, "federation": federation}, Scenario, "scenario"))


def _within_rows(federation: Mapping[str, Any], rows: int) -> Mapping[str, Any]:
    """Where noise is yet to be calibrated, the query budget is the number of different public `rows` if it is above, so
    that no noise is paid for queries that cannot be asked: one study has one budget for many divisions."""
    mechanism, budget = federation["mechanism"], federation["query_budget"]
    stated = set(noise_scales(mechanism["name"])) & mechanism.keys()
    if stated or federation["privacy"].get("epsilon") is None:
        return federation
    return {**federation, "query_budget": {key: min(count, rows) for key, count in budget.items()}}


def _predicted(method: StudyMethod, case: Case, ensemble: Ensemble | None) -> Predicted:
    predicted = method.predict(case, ensemble)
    arrays = {"test": predicted.test, "home": predicted.home}
    wrong = [name for name, value in predicted.figures.items() if np.isnan(value)]
    wrong += [name for name, array in arrays.items() if array is not None and not np.isfinite(array).all()]
    if wrong:
        fault = f"the method gives no number for {', '.join(wrong)}"
        raise DataError(fault, "See whether its settings let it learn at all")
    return predicted


def _cell(label: str, method: StudyMethod, case: Case, predicted: Predicted) -> Part:
    scores = {} if predicted.absent else judged_row_scores(case, predicted)
    stated, counts = method.guarantee(case), (len(case.parties), case.partition.left_out)
    guarantee = asdict(stated) if stated else {"unit": "none"}
    return Part(judged(label, case, predicted), scores, predicted.absent, guarantee, *counts)


Job = TypeVar("Job")


def in_workers(work: Callable[[Job], T], jobs: Sequence[Job], workers: int, cluster: str = "") -> Generator[T]:
    """What `work` gives for each job, as they end (of a cluster all at once, at the end); in this process where one
    worker is enough. cluster: address of a Ray cluster that computes instead. Raises EngineError: a worker process
    died, or there is no such cluster."""
    if not jobs:
        return
    try:
        with _on_ray(cluster) if cluster else _processes():
            most, how = (-1, "list") if cluster else (min(workers, len(jobs)), "generator_unordered")
            pool: Any = Parallel(most, return_as=how)
            yield from pool(delayed(_alone)(work, job) for job in jobs)
    except BrokenProcessPool:
        raise EngineError(
            "a worker process ended, perhaps for want of memory",
            "What is done is kept: run it again with fewer workers",
        ) from None


def _alone(work: Callable[[Job], T], job: Job) -> T:
    with for_its_owner_alone(), one_thread():
        return work(job)


@contextlib.contextmanager
def _processes() -> Iterator[None]:
    quiet = "ignore:resource_tracker:UserWarning"  # that an interrupted study's locks are cleaned up
    before = dict(os.environ)
    os.environ["PYTHONSAFEPATH"] = "1"  # a module in the user's folder is none of a worker's
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, (before.get("PYTHONWARNINGS"), quiet)))
    try:
        with parallel_config("loky", inner_max_num_threads=1, initializer=begin_worker, initargs=(os.getpid(),)):
            yield
    finally:
        for name in ("PYTHONSAFEPATH", "PYTHONWARNINGS"):
            del os.environ[name]
        os.environ.update(before)


@contextlib.contextmanager
def _on_ray(cluster: str) -> Iterator[None]:
    try:
        import ray
        from ray.exceptions import RayError
        from ray.util.joblib import register_ray
    except ImportError:
        raise EngineError("--cluster needs Ray", "pip install 'consilium-pate[ray]'") from None
    host, _, port = cluster.rpartition(":")
    mine = signal.getsignal(signal.SIGTERM)
    try:
        if host:
            socket.create_connection((host, int(port)), 10).close()  # Ray itself looks for a minute
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of later versions of Ray
            ray.init(cluster, log_to_driver=False, logging_level=logging.ERROR)
        register_ray()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, mine)  # Ray's would end the process without a word
    except (OSError, ValueError) as error:
        raise EngineError(
            f"no Ray cluster answers at {cluster} ({type(error).__name__})",
            "Give the HOST:PORT of its `ray start --head`, or auto on one of its machines",
        ) from None
    try:
        with parallel_config("ray"):
            yield
    except RayError as error:
        raise EngineError(
            f"the cluster lost a worker ({type(error).__name__})", "What is done is kept: run it again"
        ) from None
    finally:
        ray.shutdown()
