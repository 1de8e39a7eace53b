"""Networks as teachers as in 2017: MNIST by lot at 250 parties, each with a CNN on pixels; over several seeds.

    python -m benchmarks.cnn_teachers [--teachers 250] [--seeds 0 1 2] [--kept FOLDER]

It prints what one teacher gets right, and the plurality, on the held-out thousand and on every third image of the
pool; how large the gap is; how many labels are right in expectation with the noise of 2017 (scale 20); and what a
hundred and a thousand labels cost by their method and in the worst case: mean and standard deviation over the seeds.
Their figures stand beside. FOLDER keeps what the teachers said, votes and averaged probabilities, a file for each seed:
secret.

250 teachers take two to three processor minutes a seed. Needs the MNIST files.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.special import softmax

from benchmarks.composition import costs
from benchmarks.label_accuracy import pr_label_laplace
from benchmarks.papers import Place, spread
from consilium import accounting
from consilium.accounting.curves.conversion import rdp_to_epsilon
from consilium.accounting.curves.laplace import PAPER_MOMENTS, log_q_lnmax, sum_rdp_lnmax
from consilium.accounting.units import Noise
from consilium.data.private_rows import Rows
from consilium.models.teachers import Teacher
from consilium.party.teach import simulated_seeds, train_all

DELTA = 1e-5
GAMMA = 0.05
TEMPERATURES = (1.0, 5.0)
"""Those of the first version's appendix C.1."""

CNN = ("federation.teacher.model=cnn", "data.representation=none", "data.standardise=false",
       "student.trainer={name='graph'}")  # fmt: skip
"""The network of 2017 on pixels. The student only has to fit the rows: nobody trains it."""

PAPER = {
    "one teacher, test": "83.86",
    "plurality, pool": "",
    "plurality, test": "",
    "labels right, gamma .05": "93.18",
    "gap": "> 60",
    "eight moments, 100": "2.04",
    "eight moments, 1,000": "8.03",
    "worst case, 100": "",
    "worst case, 1,000": "",
}
"""Row -> what F prints of 250 teachers; percent, and epsilon at delta 1e-5."""


def cnn_place(seed: int) -> Place:
    """MNIST by lot at 250 parties whose teachers are networks on pixels."""
    return Place("mnist-250", seed, (*CNN, "federation.mechanism={name='gnmax', sigma=40}"))


_NAMES = ("votes", "averages", "right")


@dataclass(frozen=True)
class Spoken:
    """What all teachers said of some public rows. Secret.

    votes: int64 (rows, classes). averages: float64 (temperatures, rows, classes), means over the teachers of their
    softmax at each of `TEMPERATURES`. right: float64 (teachers,), share of the rows that each gets right.
    """

    votes: np.ndarray = field(repr=False)
    averages: np.ndarray = field(repr=False)
    right: np.ndarray = field(repr=False)


def spoken(teachers: Sequence[Teacher], x: np.ndarray, y: np.ndarray, classes: int) -> Spoken:
    """Ask `teachers` for `x` float (rows, inputs), whose labels are `y` int64 (rows,).

    A class that a teacher has not seen has probability 0 at every temperature.
    """
    votes, right = np.zeros((len(x), classes), dtype=np.int64), []
    sums = np.zeros((len(TEMPERATURES), len(x), classes))
    for teacher in teachers:
        logits = np.log(np.maximum(teacher.predict_proba(x), 1e-300))  # pyright: ignore[reportAttributeAccessIssue]
        seen = teacher.classes_  # pyright: ignore[reportAttributeAccessIssue]
        said = seen[logits.argmax(axis=1)]
        votes[np.arange(len(x)), said] += 1
        right.append(float((said == y).mean()))
        for at, temperature in enumerate(TEMPERATURES):
            sums[at][:, seen] += softmax(logits / temperature, axis=1)
    return Spoken(votes, sums / len(teachers), np.array(right))


def asked_rows(place: Place) -> np.ndarray:
    """Every third row of the pool, int64, from the harder first half of MNIST's order as from the second."""
    return np.arange(0, len(place.pool), 3)


def ensemble(place: Place, kept: Path, teachers: int) -> tuple[Spoken, Spoken]:
    """What the teachers of the first so many parties of a place said of `asked_rows` and of the test rows.

    They are trained as the parties do it, with seeds of their own.
    """
    path = kept / f"cnn-{teachers}-{place.seed}.npz"
    if path.exists():
        with np.load(path) as file:
            pool, test = (Spoken(*(file[f"{part}.{name}"] for name in _NAMES)) for part in ("pool", "test"))
        return pool, test
    classes, spec = len(place.schema.classes), place.scenario.federation.teacher
    trained: list[Teacher] = []
    for party, rows in list(place.partition.parties.items())[:teachers]:
        own = Rows(place.schema.inputs(place.dataset.x[rows]), place.dataset.y[rows])
        seed = int(simulated_seeds(place.seed, party).spawn(1)[0].generate_state(1)[0])
        trained += train_all(own, spec, [np.arange(len(rows))], [seed], classes)
    chosen = asked_rows(place)
    pool = spoken(trained, place.inputs(place.pool[chosen]), place.pool_truth[chosen], classes)
    test = spoken(trained, place.inputs(place.test), place.truth, classes)
    parts = {"pool": pool, "test": test}
    kept.mkdir(parents=True, exist_ok=True)
    np.savez(path, **{f"{part}.{name}": getattr(told, name) for part, told in parts.items() for name in _NAMES})
    return pool, test


def figures(place: Place, pool: Spoken, test: Spoken) -> dict[str, float]:
    """One seed's column; queries are the first of `asked_rows`."""
    asked = place.pool_truth[asked_rows(place)]
    top = np.sort(pool.votes, axis=1)[:, -2:]
    found = {
        "one teacher, test": 100 * float(test.right.mean()),
        "plurality, pool": 100 * float((pool.votes.argmax(axis=1) == asked).mean()),
        "plurality, test": 100 * float((test.votes.argmax(axis=1) == place.truth).mean()),
        "labels right, gamma .05": 100 * float(pr_label_laplace(pool.votes, GAMMA, asked).mean()),
        "gap": 100 * float((top[:, 1] - top[:, 0]).mean()) / len(pool.right),
    }
    for queries, text in ((100, "100"), (1000, "1,000")):
        worst = costs(accounting.LNMax(GAMMA), pool.votes[:queries], DELTA, exact=False)[-1]
        found |= {f"eight moments, {text}": eight_moments(pool.votes[:queries]), f"worst case, {text}": worst}
    return found


def eight_moments(votes: np.ndarray) -> float:
    """Epsilon of labels by LNMax on these votes, as Papernot et al. 2017 compute it. A function of votes: secret."""
    orders = PAPER_MOMENTS + 1
    log_q = log_q_lnmax(votes, GAMMA, Noise.CONTINUOUS)
    curve = sum_rdp_lnmax(log_q, GAMMA, orders, noise=Noise.CONTINUOUS, baseline="paper")
    return rdp_to_epsilon(curve, orders, DELTA, "classic").epsilon


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="Networks as teachers, as in 2017.")
    parser.add_argument("--teachers", type=int, default=250, help="of the first so many of the 250 parties")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--kept", type=Path, default=Path("runs/cnn-teachers"))
    chosen = parser.parse_args(arguments or [])
    found = []
    for seed in chosen.seeds:
        place = cnn_place(seed)
        found.append(figures(place, *ensemble(place, chosen.kept, chosen.teachers)))
        print(f"seed {seed}: {found[-1]}", flush=True)
    print(f"\n{chosen.teachers} teachers, seeds {chosen.seeds}\n| | paper (250) | here |\n|---|---|---|")
    for name, paper in PAPER.items():
        print(f"| {name} | {paper} | {spread(found, name)} |")


if __name__ == "__main__":
    main(sys.argv[1:])
