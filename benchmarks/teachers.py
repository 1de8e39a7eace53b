"""The number of teachers against accuracy, gap and cost: figures of 2017, 2018 and the near-zero-cost paper.

    consilium study benchmarks/studies/teachers.toml     # trains what is missing, and draws a report
    python -m benchmarks.teachers [--tables NAME ...] [--seeds 3] [--cache DIR] [--set KEY=VALUE ...] [--trained]

Teachers are those of the study `benchmarks/studies/teachers.toml`: what is in its cache is not trained again, and with
--trained nothing is trained at all. Mean and sample standard deviation over the seeds; expectations over the noise.

accuracy : one teacher, the plurality, and labels with noise, by gamma (2017, figure 2; near-zero-cost, figure 2 a)
gaps     : lead of the plurality over the second (2017, figure 3; near-zero-cost, figure 2 b and c)
costs    : epsilon of 1,000 queries by lot: the papers' bound, exact, worst case (2018, figure 2)
equal    : LNMax and GNMax with noise that leaves 99 of 100 labels right, 4,000 queries, delta 1e-8 (2018, figure 2);
           equal-90: 90 of 100

Needs the MNIST files. Data-dependent figures are secret on private votes.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.composition import DELTA, costs, laplace_and_gauss, sigma_for
from benchmarks.label_accuracy import pr_label_laplace
from consilium import accounting
from consilium.protocol.label_source import no_progress
from consilium.simulations.artifact import from_bytes
from consilium.simulations.study.cache import Shelf, StepCache, usual_cache
from consilium.simulations.study.cells import Plot, compared, plots
from consilium.simulations.study.graph import Graph, open_rows
from consilium.simulations.study.measures.votes import total_votes
from consilium.simulations.study.schedule import OwnProcess, Tally, compute
from consilium.simulations.study.spec import StudySpec, load_study
from consilium.simulations.study.tasks import StepDesk
from consilium.simulations.vote import Ensemble
from docs.figures import figure

STUDY = Path(__file__).parent / "studies" / "teachers.toml"
GAMMAS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
LEADS = (0, 2, 10, 50, 100, 200)
"""Votes; the near-zero-cost paper's theorem asks for more than 2."""
COSTED, COMPARED = 1000, 4000
"""Queries of the tables `costs` and `equal`."""
BOUNDS = ("classic", "CKS", "exact", "worst")


@dataclass(frozen=True)
class Heard:
    """What one case's teachers said. kind: how results call them. Secret.

    votes: int64 (queries, classes) of the pool, in an order by lot; truth: int64 (queries,). one: mean accuracy of a
    teacher on the held-out rows.
    """

    kind: str
    teachers: int
    seed: int
    one: float
    votes: np.ndarray = field(repr=False)
    truth: np.ndarray = field(repr=False)


def heard(spec: StudySpec, cache: StepCache, train: bool = True) -> Iterator[Heard]:
    """Each division of a study with its teachers, once. train: also those that are not in the cache.

    Raises
    ------
    ConsiliumError : the study, its data or a kind of teacher; see `consilium study`.
    """
    with tempfile.TemporaryDirectory(prefix="consilium-teachers-") as folder:
        shelf, desk = Shelf(cache, StepCache(Path(folder) / "rows")), StepDesk()
        found = plots(spec)
        graph = Graph(spec, compared(spec), open_rows(found, shelf.loose, False, None, no_progress).plots)
        for address, plot in one_each(graph, found).items():
            if train:
                compute(graph.steps, [address], cache, OwnProcess(shelf), Tally(), lambda _: None)
            if not cache.has(address):
                continue
            step, ensemble = graph.steps[address], Ensemble.of_arrays(from_bytes(cache.get(address)))
            case = desk.case(step.params["teaching"], step.params, shelf.read)
            votes = total_votes(ensemble.pool, len(case.classes)).round().astype(np.int64)
            order = np.random.default_rng(plot.seed).permutation(len(votes))
            kind = case.config.teacher.model
            one = float(ensemble.test_right.mean())
            yield Heard(kind, len(case.parties), plot.seed, one, votes[order], case.pool_y[order])


def one_each(graph: Graph, found: Sequence[Plot]) -> dict[str, Plot]:
    """By the address of their teachers, the first of the plots that share them."""
    first: dict[str, Plot] = {}
    for plot in found:
        if plot.id in graph.rows:
            first.setdefault(graph.ensemble(plot), plot)
    return first


def leads(votes: np.ndarray) -> np.ndarray:
    """Votes of the plurality above the second, int64 (queries,)."""
    top = np.sort(votes, axis=1)
    return top[:, -1] - top[:, -2]


def accuracy(each: Heard) -> dict[str, float]:
    """Shares that are right, in percent: one teacher, the plurality, labels by LNMax."""
    noisy = {f"gamma {g:g}": 100 * float(pr_label_laplace(each.votes, g, each.truth).mean()) for g in GAMMAS}
    clean = 100 * float((each.votes.argmax(axis=1) == each.truth).mean())
    return {"one teacher, %": 100 * each.one, "plurality, %": clean, **noisy}


def gaps(each: Heard) -> dict[str, float]:
    """The lead as a share of the teachers, how often it is larger than so many votes, and wrong all the same."""
    lead, wrong = leads(each.votes), each.votes.argmax(axis=1) != each.truth
    larger = {f"> {least}, %": 100 * float((lead > least).mean()) for least in LEADS}
    sure = {"> 2 and wrong, %": 100 * float(((lead > 2) & wrong).mean())}
    return {"mean, % of teachers": 100 * float(lead.mean()) / each.teachers, **larger, **sure}


def costed(each: Heard) -> dict[str, float]:
    """Of LNMax with gamma .05 and GNMax with sigma 40: the published bound, exact and worst case; delta 1e-5."""
    found: dict[str, float] = {}
    for name, mechanism in (("LNMax", accounting.LNMax(0.05)), ("GNMax", accounting.GNMax(40))):
        _, *bounds = costs(mechanism, each.votes[:COSTED], DELTA)
        found |= {f"{name}: {kind}": value for kind, value in zip(BOUNDS, bounds, strict=True)}
    return found


def equal(each: Heard, share: float = 0.99) -> dict[str, float]:
    """Noise with which so many labels are right of those that are without noise; what 4,000 queries cost then."""
    votes, truth = each.votes[:COMPARED], each.truth[:COMPARED]
    clean = float((votes.argmax(axis=1) == truth).mean())
    gammas = np.geomspace(0.1, 100, 25) / each.teachers
    right = np.array([pr_label_laplace(votes[:1000], gamma, truth[:1000]).mean() for gamma in gammas])
    sigmas = np.geomspace(0.005, 3, 24) * each.teachers
    gamma = float(np.exp(np.interp(share * clean, right, np.log(gammas))))
    reached = float(pr_label_laplace(votes[:1000], gamma, truth[:1000]).mean())
    sigma = sigma_for(reached, votes[:1000], truth[:1000], sigmas)
    names = [f"{name}: {kind}" for name in ("LNMax", "GNMax") for kind in ("classic", "CKS", "worst")]
    return {
        "gamma": gamma,
        "sigma": sigma,
        **dict(zip(names, laplace_and_gauss(votes, gamma, sigma, 1e-8), strict=True)),
    }


TABLES: dict[str, Callable[[Heard], dict[str, float]]] = {
    "accuracy": accuracy,
    "gaps": gaps,
    "costs": costed,
    "equal": equal,
    "equal-90": partial(equal, share=0.9),
}


def print_table(name: str, found: Sequence[Heard], command: str) -> None:
    """A row for each number and kind of teachers, mean and standard deviation over the seeds."""
    groups: dict[tuple[int, str], list[Heard]] = {}
    for each in found:
        groups.setdefault((each.teachers, each.kind), []).append(each)
    print(f"\n{name}")
    if not groups:
        return
    measured = {group: [TABLES[name](each) for each in members] for group, members in groups.items()}
    keys = list(next(iter(measured.values()))[0])
    seeds = sorted({each.seed for each in found})
    split = "labels of the pool; one teacher on held-out rows; nothing was chosen"
    heads = ("parties", "teachers", *keys)
    # seconds where the study is in the cache, as when it was recorded; an hour of training where it is not
    with figure(f"papers/teachers-{name}", command, heads, split=split, seeds=seeds, quick=False) as table:
        for (teachers, kind), rows in measured.items():
            table.add(teachers, kind, *(spread([row[key] for row in rows]) for key in keys))


def spread(values: Sequence[float]) -> str:
    """Mean, to four digits or four places, and sample standard deviation to as many places.

    >>> spread([1.0]), spread([98.0, 99.0]), spread([0.0123, 0.0125])
    ('1.000', '98.50 ± 0.71', '0.0124 ± 0.0001')
    """
    mean = float(np.mean(values))
    places = min(4, max(0, 3 - math.floor(math.log10(mean)))) if mean > 0 else 2
    apart = f" ± {np.std(values, ddof=1):.{places}f}" if len(values) > 1 else ""
    return f"{mean:.{places}f}{apart}"


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="The number of teachers against accuracy, gap and cost.")
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--study", default=str(STUDY))
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--cache", type=Path, default=usual_cache())
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as of `consilium study`")
    parser.add_argument("--trained", action="store_true", help="leave out what is not in the cache")
    chosen = parser.parse_args(arguments or [])
    spec = load_study(chosen.study, chosen.set, chosen.seeds)
    found = list(heard(spec, StepCache(chosen.cache), not chosen.trained))
    for name in chosen.tables:
        print_table(name, found, f"python -m benchmarks.teachers --tables {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
