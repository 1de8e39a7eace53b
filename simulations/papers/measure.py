"""One row of a paper with one seed: votes, the labels that they release, what these cost, and the student."""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from consilium.accounting.curves.conversion import DEFAULT_ORDERS, rdp_to_epsilon
from consilium.accounting.curves.laplace import PAPER_MOMENTS, log_q_lnmax, rdp_lnmax
from consilium.accounting.events import Mechanism
from consilium.accounting.label_costs import VoteBatch, published_rdp
from consilium.accounting.target import worst_case
from consilium.accounting.units import Neighbouring, Noise, Unit
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.parts import Privacy, QueryBudget
from consilium.data.private_rows import Rows
from consilium.models.keys import CnnSpec
from consilium.models.table import fit_teachers
from consilium.protocol.errors import DataError
from consilium.protocol.files import replacing
from consilium.protocol.label_source import NO_LABEL, Progress
from consilium.protocol.noise import NoiseSource, SeededNoise
from consilium.protocol.queries import query_ids
from consilium.protocol.schema import Schema
from consilium.simulations.datasets.base import read_arrays
from consilium.simulations.datasets.source import load_dataset
from consilium.simulations.papers.description import SCRIPT_POOL, DataSet, PaperRow, train
from consilium.simulations.release import RecordedVotes

FAST = {"pool": 300, "judges": 200, "queries": 60, "teachers": 2, "shard": 40, "more": 60}
"""Most of each in a run that only shows that all of it works."""


@dataclass(frozen=True)
class Images:
    """float32 (n, pixels) from 0 to 1 and classes int64 (n,): of the parties, and of the test set in its order."""

    private: np.ndarray = field(repr=False)
    private_y: np.ndarray = field(repr=False)
    test: np.ndarray = field(repr=False)
    test_y: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, name: DataSet, folder: Path) -> Images:
        """Raises DataError."""
        data = load_dataset(name, str(folder))
        if data.public is None:
            raise DataError(f"{name} has no test images", "Get its files anew")
        test = np.concatenate([data.public.queries, data.public.test])
        private = np.setdiff1d(np.arange(len(data.y)), test)
        return cls(data.x[private], data.y[private], data.x[test], data.y[test])


def at_once(row: PaperRow) -> PaperRow:
    """The row with so few images, teachers and steps that it takes a second."""
    sizes = ("pool", "judges", "teachers", "more")
    changed: dict[str, Any] = {name: min(getattr(row, name), FAST[name]) for name in sizes}
    changed |= {"queries": min(row.queries or FAST["queries"], FAST["queries"]), "shard": FAST["shard"]}
    if row.student is not None:
        few = {"epochs": 1, "steps": 20}
        present = {name: few[name] for name in few if name in type(row.student).model_fields}
        changed["student"] = row.student.model_copy(update=present)
    return row.model_copy(update={**changed, "choice": "first" if row.choice == "script" else row.choice})


def votes_file(kept: Path, row: PaperRow, seed: int) -> Path:
    """Where the votes of teachers that are trained here stay."""
    return kept / f"votes-{row.data}-{row.teachers}-{row.shard}-{seed}.npz"


def train_teachers(row: PaperRow, seed: int, images: Images, kept: Path, progress: Progress) -> None:
    """Train `row.teachers` networks on equal parts of the private images, by lot, and keep what they vote for all test
    images; nothing where that is there."""
    path = votes_file(kept, row, seed)
    if path.exists():
        return
    classes = int(images.test_y.max()) + 1
    parts = np.array_split(np.random.default_rng([seed, row.teachers]).permutation(len(images.private_y)), row.teachers)
    spec = CnnSpec(dense_layers=3 if row.data == "svhn" else 1)
    states = np.random.SeedSequence([seed, 0x7465616368]).generate_state(row.teachers)
    votes = np.zeros((len(images.test), classes), dtype=np.int64)
    right = []
    for place, (part, state) in enumerate(zip(parts, states, strict=True)):
        progress("train", place, row.teachers)
        part = part[: row.shard or None]
        rows = Rows(images.private[part], images.private_y[part])
        (teacher,) = fit_teachers(spec, rows, [np.arange(len(part))], [int(state)], classes)
        labels = teacher.predict(images.test)
        votes[np.arange(len(labels)), labels] += 1
        right.append(float((labels == images.test_y).mean()))
    with replacing(path) as file:
        np.savez(file, votes=votes, right=np.mean(right))


def votes_of(row: PaperRow, seed: int, kept: Path, folder: Path) -> tuple[np.ndarray, float]:
    """What teachers say of the test images, in their order, int64 (test rows, classes), of the first where those were
    published; and one teacher's mean share of right answers, NaN where nobody knows. Secret where the teachers' data
    are. Raises DataError."""
    if row.teachers:
        with np.load(votes_file(kept, row, seed)) as file:
            return file["votes"], float(file["right"])
    path = folder / f"pate2018_votes_{row.data}.npz"
    votes = read_arrays(path, "its source").get("votes")
    if votes is None or votes.ndim != 2 or votes.dtype.kind not in "iu":
        raise DataError(f"{path} has no array votes of whole numbers (images, classes)", "Get it anew")
    return votes.astype(np.int64), math.nan


def drawn_by_the_script(truth: np.ndarray, count: int) -> np.ndarray:
    """Rows of the pool that the script of 2017 labels, int64 (count,); `truth` int64 (8000,). It shuffles the pool and
    means to take as many of each class, but looks classes up in the order before: what it takes is drawn by lot. With
    100 these are the published indices."""
    shuffled = np.random.RandomState(1).permutation(SCRIPT_POOL)
    classes = int(truth.max()) + 1
    return np.concatenate([shuffled[truth == digit][: count // classes] for digit in range(classes)])


def queries_of(row: PaperRow, pool: np.ndarray, truth: np.ndarray, answerable: int) -> np.ndarray:
    """Test rows int64 that the teachers are asked for: of the `pool`, below `answerable`. truth: of all test rows."""
    candidates = pool[pool < answerable]
    count = min(row.queries or len(candidates), len(candidates))
    if row.choice == "script":
        return drawn_by_the_script(truth[:SCRIPT_POOL], count)
    if row.choice == "balanced":
        classes = int(truth.max()) + 1
        return np.concatenate([candidates[truth[candidates] == name][: count // classes] for name in range(classes)])
    return candidates[:count]


def measure(row: PaperRow, seed: int, images: Images, kept: Path, folder: Path, progress: Progress) -> dict[str, Any]:
    """Figures of a row: shares from 0 to 1, epsilons, counts; None where there is none. `right_of`: of each test image
    that judges the student, by its number, 1 where the student is right and else 0. Votes of own teachers are there
    (`train_teachers`). Raises DataError: a file that the row needs; or it does not fit."""
    count, truth = len(images.test_y), images.test_y
    order = np.random.RandomState(seed).permutation(count) if row.shuffled else np.arange(count)
    pool, judges = order[: row.pool], order[-row.judges :]
    if row.pool + (row.judges if row.student else 0) > count:
        raise DataError(f"{row.data} has {count} test images, {row.name} needs {row.pool} and {row.judges}")
    votes, alone = (None, math.nan) if row.labels == "truth" else votes_of(row, seed, kept, folder)
    asked = queries_of(row, pool, truth, count if votes is None else len(votes))
    if votes is None:
        labels = truth[asked]
    elif row.labels == "plurality" or row.mechanism is None:
        labels = votes[asked].argmax(axis=1)
    elif row.labels == "published":
        path = folder / f"pate2017_{row.data}_student.npz"
        labels = read_arrays(path, "its source")["labels_lap20"].astype(np.int64)[asked]
    else:
        labels = released(row.mechanism, votes[asked], SeededNoise(1_000_000 * seed + len(asked)))
    known = labels != NO_LABEL
    figures: dict[str, Any] = {
        "asked": len(asked),
        "answers": int(known.sum()),
        "labels": float((labels[known] == truth[asked][known]).mean()) if known.any() else None,
        "epsilon": None, "worst": None, "teacher": None, "plurality": None, "gap": None,
        "student": None, "judges": row.judges, "unbounded": row.labels == "plurality",
    }  # fmt: skip
    if votes is not None:  # of all rows that they voted on
        true, teachers, top = truth[: len(votes)], votes.sum(axis=1), np.sort(votes, axis=1)[:, -2:]
        one = float((votes[np.arange(len(true)), true] / teachers).mean())
        figures |= {
            "teacher": one if math.isnan(alone) else alone,
            "plurality": float((votes.argmax(axis=1) == true).mean()),
            "gap": float(((top[:, 1] - top[:, 0]) / teachers).mean()),
        }
        if row.mechanism is not None:
            figures |= costs(row.mechanism, votes[asked], known, row.delta)
    if row.student is not None:
        rows = asked[known]
        more = images.private[: row.more]
        rest = np.concatenate([images.test[np.setdiff1d(pool, rows)], more])
        classes = int(truth.max()) + 1
        model = train(images.test[rows], labels[known], rest, classes, row.student, seed, progress)
        right = model.predict_proba(images.test[judges]).argmax(axis=1) == truth[judges]
        figures["student"] = float(right.mean())
        figures["right_of"] = dict(zip(map(str, judges.tolist()), map(int, right), strict=True))
    return figures


def released(mechanism: Mechanism, votes: np.ndarray, noise: NoiseSource) -> np.ndarray:
    """What a service gives on votes int64 (queries, classes): int64 (queries,), NO_LABEL where it gives none. Rows
    are named by their number."""
    count, classes = votes.shape
    parties = [str(number) for number in range(int(votes[0].sum()))]
    rows = np.arange(count, dtype=np.float32)[:, None]
    config = FederationConfig(
        name="a row of a paper",
        rows=Schema.from_public_rows(("row",), tuple(str(name) for name in range(classes)), rows), minimum_parties=2,
        collection="plaintext", mechanism=mechanism, privacy=Privacy(unit=Unit.PARTY, delta=1e-5),
        query_budget=QueryBudget(queries=count, answers=count), simulation=True,
    )  # fmt: skip
    collector = RecordedVotes(config, parties, query_ids(rows), lambda places, _: votes[places])
    with closing(Ledger.in_memory(config)) as ledger:
        return LabelService(config, ledger, collector, lambda _: noise, len(parties)).ask(rows).labels


def costs(mechanism: Mechanism, votes: np.ndarray, known: np.ndarray, delta: float) -> dict[str, Any]:
    """`epsilon` as the papers count it, at these votes (secret on private ones), and the `worst` case of these answers.
    LNMax by eight moments (2017, 3.3), Gaussian noise by the data-dependent curve and its classic conversion (2018),
    the immutable argmax as its paper claims. votes: int64 (asked, classes). known: bool (asked,)."""
    event = mechanism.event(
        asked=len(votes), answered=int(known.sum()), unit=Unit.PARTY, neighbouring=Neighbouring.REPLACE,
        teachers_per_party=1,
    )  # fmt: skip
    if (label := event.label) is not None and label.law == "laplace":
        curve = rdp_lnmax(
            log_q_lnmax(votes, label.scale, Noise.CONTINUOUS),
            label.scale, PAPER_MOMENTS + 1, noise=Noise.CONTINUOUS, baseline="paper",
        ).sum(axis=0)  # fmt: skip
        epsilon = rdp_to_epsilon(curve, PAPER_MOMENTS + 1, delta, "classic").epsilon
    elif not mechanism.private:
        claimed = mechanism.claimed_epsilon(len(votes), delta)
        return {"epsilon": claimed, "unbounded": True}
    else:
        published = published_rdp(VoteBatch(event, votes, known))
        curve = event.histogram_rdp(DEFAULT_ORDERS) if published is None else published
        epsilon = rdp_to_epsilon(curve, DEFAULT_ORDERS, delta, "classic").epsilon
    return {"epsilon": epsilon, "worst": worst_case([event], delta).epsilon}
