"""What the papers say of composition, recomputed: votes only, no teacher is trained.

    python -m benchmarks.composition [--tables NAME ...]

strong    : strong composition beside the moments (2017: 5.80 and 26), by number of queries
advanced  : "advanced composition" (2018: 8.42 and 10.14)
sanitised : LNMax sanitised, 2017's "smaller than 0.5 and 1.0"
laplace   : the worst case of a winner under Laplace noise: the papers' rows, and what the noisy counts would cost
laplace_noise: noise with which 300 labels keep an epsilon (study `papers`): Laplace charged as counts and as a winner
gammas    : labels that are right by gamma, .01 to 1 (2017, figure 2)
equal     : LNMax against GNMax at equal accuracy of the labels (2018, figure 2), 4,000 queries
noise     : epsilon and accuracy by sigma: where the data-dependent bound turns (2018, figure 3)
answers   : all against confident at equal numbers of answers (2018, figure 4)
checks    : which plurality counts pass a moderate and an aggressive check (2018, figure 6)
thresholds: which queries pass and what 1,000 answers cost, by threshold (2018, 3.2: "between 0.6 to 0.8")
budget    : what the check costs of the whole (2018, section 4.4: "about a third to a half")

The votes of 250 MNIST teachers published with Papernot et al. 2018, and made-up ones of 5,000 teachers and 150 classes
(golden set beside the repository) where the paper's Glyph votes would stand: compare their columns with each other.
Data-dependent figures are secret on private votes. The tables are those of docs/laboratory/papers.md (docs/figures.py).
"""

from __future__ import annotations

import gzip
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom

from benchmarks.cells import Cell, Table, power, show_tables
from benchmarks.exact import SHARED, batch_of, load
from benchmarks.label_accuracy import pr_label, pr_label_laplace
from consilium import accounting
from consilium.accounting.aggregators import Aggregator
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, REFERENCE_ORDERS, conversion_cost, rdp_to_epsilon
from consilium.accounting.curves.discrete import log_pr_loss_table_laplace
from consilium.accounting.curves.gaussian import log_pr_answered
from consilium.accounting.curves.laplace import PAPER_MOMENTS, log_q_lnmax, rdp_laplace, sum_rdp_lnmax
from consilium.accounting.curves.strong import strong_composition, zero_concentrated
from consilium.accounting.label_costs import exact_rdp, histogram_rdp, published_rdp, worst_case
from consilium.accounting.sanitise.release import Answered, forecast_sanitised, label_costs, secret_smoothness
from consilium.accounting.sanitise.smooth import LabelProfile
from consilium.accounting.target import least_noise
from consilium.accounting.units import Noise
from consilium.accounting.vote_files import typical_votes

DELTA = 1e-5
GAMMA = 0.05
SETS = {"mnist": "MNIST", "glyphlike": "made-up"}
"""Votes, and what the pages call them."""


def mnist_truth() -> np.ndarray:
    """True digits of the published votes: the first 9,000 images of MNIST's test set, in its order."""
    path = SHARED / "data" / "mnist" / "t10k-labels-idx1-ubyte.gz"
    return np.frombuffer(gzip.decompress(path.read_bytes())[8:], dtype=np.uint8)[:9000].astype(np.int64)


def votes_and_truth(name: str, queries: int) -> tuple[np.ndarray, np.ndarray] | None:
    """The first so many of a set with the true classes, or None if it is not beside the repository."""
    votes = load(name, queries)
    if votes is None:
        return None
    if name == "mnist":
        return votes, mnist_truth()[:queries]
    return votes, np.load(SHARED / "golden" / "accounting" / f"{name}.npz")["truth"][:queries].astype(np.int64)


def costs(mechanism: Aggregator, votes: np.ndarray, delta: float, exact: bool = True) -> tuple[float, ...]:
    """Answers, the published bound (classic, CKS), exact (NaN if not wanted), and the worst case of those answers."""
    event, batch = batch_of(mechanism, votes, Noise.CONTINUOUS)
    answers = float(batch.weights.sum())
    published = published_rdp(event, batch)
    assert published is not None
    found = [rdp_to_epsilon(published, DEFAULT_ORDERS, delta, method).epsilon for method in ("classic", "cks")]
    computed = rdp_to_epsilon(exact_rdp(event, batch), DEFAULT_ORDERS, delta).epsilon if exact else float("nan")
    cap = event.with_counts(event.asked, min(event.asked, int(np.ceil(answers - 1e-9))))
    # Renyi curves alone: composing winners beside a Gaussian saves some per cent and takes seconds for each row.
    return answers, *found, computed, worst_case(cap, delta, numerical=False).epsilon


def strong() -> Table:
    """Composition theorems, the paper's moments, and what is known now; LNMax with gamma .05."""
    header = (
        *("queries", "delta", "pure", "strong, 2010", "as printed", "least known", "noise alone, CKS"),
        *("8 moments", "all orders, classic", "all orders, CKS", "exact, CKS", "paper"),
    )
    cases = ((1, 1e-5, ""), (10, 1e-5, ""), (100, 1e-5, "5.80; 2.04"), (500, 1e-6, "(SVHN: 5.04)"),
             (1000, 1e-6, '"26" (SVHN: 8.19)'), (1000, 1e-5, "8.03"), (9000, 1e-5, ""))  # fmt: skip
    votes = load("mnist")

    def rows() -> Iterator[Sequence[Cell]]:
        if votes is None:
            return
        charged, exact, eight = 0, np.zeros(len(DEFAULT_ORDERS)), PAPER_MOMENTS + 1
        for queries, delta, paper in cases:
            forms = [strong_composition(2 * GAMMA, queries, delta, form) for form in ("dwork", "paper", "optimal")]
            curve = queries * rdp_laplace(GAMMA, DEFAULT_ORDERS, noise=Noise.CONTINUOUS)
            log_q = log_q_lnmax(votes[:queries], GAMMA, Noise.CONTINUOUS)
            moments = sum_rdp_lnmax(log_q, GAMMA, eight, noise=Noise.CONTINUOUS, baseline="paper")
            _, classic, cks, _, _ = costs(accounting.LNMax(GAMMA), votes[:queries], delta, False)
            if charged < queries <= 1000:  # all of them: the table `whole` of benchmarks.orders
                exact = exact + exact_rdp(*batch_of(accounting.LNMax(GAMMA), votes[charged:queries], Noise.CONTINUOUS))
                charged = queries
            yield (
                *(
                    queries,
                    power(delta),
                    2 * GAMMA * queries,
                    *forms,
                    rdp_to_epsilon(curve, DEFAULT_ORDERS, delta).epsilon,
                ),
                *(rdp_to_epsilon(moments, eight, delta, "classic").epsilon, classic, cks),
                rdp_to_epsilon(exact, DEFAULT_ORDERS, delta).epsilon if queries == charged else None,
                paper,
            )

    return header, rows()


def advanced() -> Table:
    """The 2018 rows for which it prints "advanced composition": counts and noise of its figure 5, delta 1e-8."""
    header = ("row of figure 5", "asked", "answered", "sigma1", "sigma2", "zCDP", "CKS", "paper")
    rows = ((4, 12000, 7824, 1500, 100, ""), (5, 12000, 10762, 500, 100, "8.42, said of row 5"),
            (6, 16000, 4063, 1500, 100, "10.14, said of row 6"))  # fmt: skip

    def each() -> Iterator[Sequence[Cell]]:
        for row, asked, answered, sigma1, sigma2, paper in rows:
            rho = answered / sigma2**2 + asked / (2 * sigma1**2)
            cks = rdp_to_epsilon(rho * DEFAULT_ORDERS, DEFAULT_ORDERS, 1e-8).epsilon
            yield row, asked, answered, sigma1, sigma2, zero_concentrated(rho, 1e-8), cks, paper

    return header, each()


def sanitised() -> Table:
    """LNMax on the published votes; integer noise; planned on a made-up profile, without these votes."""
    header = (
        "queries",
        "delta",
        "published bound, CKS",
        "exact",
        "by the lead",
        "sanitised, mean",
        "its noise",
        "worst case",
        "paper",
    )
    votes = load("mnist")

    def rows() -> Iterator[Sequence[Cell]]:
        if votes is None:
            return
        for queries in (100, 500, 1000):
            event = accounting.LNMax(GAMMA).event(queries, noise=Noise.DISCRETE)
            public = np.resize(typical_votes(250, 10), (queries, 10))
            plan = forecast_sanitised(event, public, 250, DELTA).plan
            batch = Answered(event, votes[:queries], np.ones(queries, dtype=bool))
            secret = secret_smoothness([batch], plan, 250)
            mean = secret.rdp + plan.cost() + float(conversion_cost([plan.order], DELTA)[0])
            found = accounting.epsilon(votes[:queries], accounting.LNMax(GAMMA), DELTA)
            costs = label_costs(event, 250, 10, REFERENCE_ORDERS)
            curve = LabelProfile(votes[:queries], 250, costs, np.ones(queries)).cost()
            lead = rdp_to_epsilon(curve, REFERENCE_ORDERS, DELTA).epsilon
            yield (queries, power(DELTA), found.published, found.exact, lead, mean, secret.smooth * plan.sigma_ss,
                   found.worst_case, "noise < 0.5" if queries < 500 else "")  # fmt: skip

    return header, rows()


def two_classes(gamma: float, labels: int, delta: float) -> float:
    """Epsilon that so many labels of integer noise cost at least, whatever is proved: two classes near equal counts,
    the same on every query, composed exactly (a binomial against another)."""

    def loses(lead: int) -> float:
        tail = np.exp(log_pr_loss_table_laplace(gamma, abs(lead) + 1))
        return float(tail[lead]) if lead >= 0 else 1 - float(tail[1 - lead])

    def epsilon(lead: int) -> float:
        law, other = (binom.pmf(np.arange(labels + 1), labels, loses(at)) for at in (lead, lead - 2))
        return float(
            brentq(lambda e: np.maximum(law - math.exp(e) * other, 0).sum() - delta, 0, 2 * gamma * labels)  # pyright: ignore[reportArgumentType]
        )

    return max(max(epsilon(lead), 0.0) for lead in range(5))


def laplace() -> Table:
    """Papers' rows with Laplace noise on integers, in the worst case: counts, pure privacy, the winner, two classes."""
    header = (
        *("row", "gamma", "labels", "delta", "paper"),
        *("counts", "pure", "winner", "at least", "winner / counts"),
    )
    rows = (
        ("2017 MNIST", 0.05, 1, 1e-5, ""),
        ("2017 MNIST", 0.05, 100, 1e-5, "2.04"),
        ("2017 MNIST", 0.05, 500, 1e-5, ""),
        ("2017 MNIST", 0.05, 1000, 1e-5, "8.03"),
        ("2017 SVHN", 0.05, 500, 1e-6, "5.04"),
        ("2017 SVHN", 0.05, 1000, 1e-6, "8.19"),
        ("less noise", 0.2, 100, 1e-5, ""),
        ("more noise", 0.01, 1000, 1e-5, ""),
    )

    def each() -> Iterator[Sequence[Cell]]:
        for row, gamma, labels, delta, paper in rows:
            event = accounting.LNMax(gamma).event(labels, noise=Noise.DISCRETE)
            counts = rdp_to_epsilon(histogram_rdp(event), DEFAULT_ORDERS, delta).epsilon
            winner = worst_case(event, delta).epsilon
            yield (row, gamma, labels, power(delta), paper, counts, event.pure_epsilon(), winner,
                   two_classes(gamma, labels, delta), winner / counts)  # fmt: skip

    return header, each()


def laplace_noise() -> Table:
    """Scales of Laplace noise on one count, and sigmas, with which 300 labels for a whole party keep an epsilon."""
    header = ("epsilon", "Laplace, charged as counts", "Laplace, as a winner", "GNMax", "deviation, LNMax / GNMax")

    def rows() -> Iterator[Sequence[Cell]]:
        for epsilon in (0.5, 1.0, 2.0, 8.0):

            def counts(scale: float) -> float:
                event = accounting.LNMax(1 / scale).event(300, noise=Noise.DISCRETE)
                return rdp_to_epsilon(histogram_rdp(event), DEFAULT_ORDERS, DELTA).epsilon

            def winner(scale: float) -> float:
                return worst_case(accounting.LNMax(1 / scale).event(300, noise=Noise.DISCRETE), DELTA).epsilon

            def gnmax(sigma: float) -> float:
                return worst_case(accounting.GNMax(sigma).event(300, noise=Noise.DISCRETE), DELTA).epsilon

            scales = [least_noise(cost, epsilon) for cost in (counts, winner, gnmax)]
            yield (epsilon, *scales, math.sqrt(2) * scales[1] / scales[2])

    return header, rows()


def equal() -> Table:
    """For each gamma the sigma whose labels are right as often; what 4,000 queries cost with either."""
    header = (
        *("votes", "gamma", "sigma", "labels right, %", "LNMax: classic", "CKS", "worst"),
        *("GNMax: classic", "CKS", "worst"),
    )
    cases = (
        ("mnist", 3000, 4000, DELTA, np.geomspace(5, 120, 16), (0.02, 0.05, 0.1, 0.2)),
        ("glyphlike", 500, 4000, 1e-8, np.geomspace(50, 1500, 16), (0.002, 0.005, 0.01, 0.02)),
    )

    def rows() -> Iterator[Sequence[Cell]]:
        for name, judged, queries, delta, sigmas, gammas in cases:
            found = votes_and_truth(name, max(judged, queries))
            if found is None:
                continue
            votes, truth = found
            shares = [float(pr_label_laplace(votes[:judged], gamma, truth[:judged]).mean()) for gamma in gammas]
            for gamma, share in zip(gammas, shares, strict=True):
                sigma = sigma_for(share, votes[:judged], truth[:judged], sigmas)
                cost = laplace_and_gauss(votes[:queries], gamma, sigma, delta)
                yield SETS[name], f"{gamma:g}", sigma, 100 * share, *cost

    return header, rows()


def sigma_for(share: float, votes: np.ndarray, truth: np.ndarray, sigmas: np.ndarray) -> float:
    """Noise of GNMax with which this share of the labels is right; ``sigmas`` ascend, between which it is sought."""
    right = np.array([pr_label(votes, sigma, truth).mean() for sigma in sigmas])
    # falls with sigma, so both are turned round
    return float(np.exp(np.interp(-share, -right, np.log(sigmas))))


def laplace_and_gauss(votes: np.ndarray, gamma: float, sigma: float, delta: float) -> list[float]:
    """Published bound (classic, CKS) and worst case of LNMax, then of GNMax, for these queries."""
    each = [costs(mechanism, votes, delta, False) for mechanism in (accounting.LNMax(gamma), accounting.GNMax(sigma))]
    return [value for _, classic, cks, _, worst in each for value in (classic, cks, worst)]


def gammas() -> Table:
    """Labels that are right with 250 teachers, by gamma: figure 2 of 2017, and what 100 and 1,000 queries cost."""
    header = ("gamma", "labels right, %", "100 queries: classic", "worst", "1,000 queries: classic", "worst")
    found = votes_and_truth("mnist", 9000)

    def rows() -> Iterator[Sequence[Cell]]:
        if found is None:
            return
        votes, truth = found
        for gamma in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0):
            both = [costs(accounting.LNMax(gamma), votes[:queries], DELTA, False) for queries in (100, 1000)]
            right = float(pr_label_laplace(votes, gamma, truth).mean())
            yield f"{gamma:g}", 100 * right, both[0][1], both[0][-1], both[1][1], both[1][-1]

    return header, rows()


def noise() -> Table:
    """GNMax with more and more noise on 4,000 published votes."""
    header = ("sigma", "labels right, %", "data-dependent, classic", "data-independent, classic", "exact", "worst case")
    found = votes_and_truth("mnist", 9000)

    def rows() -> Iterator[Sequence[Cell]]:
        if found is None:
            return
        votes, truth = found
        for sigma in (5, 10, 15, 20, 30, 40, 60, 80, 120, 200, 400):
            right = float(pr_label(votes, sigma, truth).mean())
            alone = rdp_to_epsilon(4000 * REFERENCE_ORDERS / sigma**2, REFERENCE_ORDERS, DELTA, "classic").epsilon
            _, classic, _, exact, worst = costs(accounting.GNMax(sigma), votes[:4000], DELTA)
            yield sigma, 100 * right, classic, alone, exact, worst

    return header, rows()


def answers() -> Table:
    """As many answers from all queries in order, and from a check that leaves out the expensive ones."""
    header = ("votes", "answers", "asked of Confident", "all: classic", "exact", "worst", "Confident: classic", "exact",
              "worst")  # fmt: skip
    cases = (
        ("mnist", accounting.Confident(200, 150, 40), accounting.GNMax(40), DELTA, (100, 283, 1000, 2000, 3900)),
        ("glyphlike", accounting.Confident(3000, 1500, 100), accounting.GNMax(100), 1e-8, (1000, 4000, 7700)),
    )

    def rows() -> Iterator[Sequence[Cell]]:
        for name, confident, everything, delta, wanted in cases:
            votes = load(name)
            if votes is None:
                continue
            _, batch = batch_of(confident, votes, Noise.CONTINUOUS)
            passed = np.cumsum(batch.weights)
            for count in wanted:
                asked, exact = int(np.searchsorted(passed, count)) + 1, name == "mnist"
                _, all_classic, _, all_exact, all_worst = costs(everything, votes[:count], delta, exact)
                _, classic, _, own, worst = costs(confident, votes[:asked], delta, exact)
                yield SETS[name], count, asked, all_classic, all_exact, all_worst, classic, own, worst

    return header, rows()


def checks() -> Table:
    """Expected queries by share of teachers that the plurality has: all, after a moderate and an aggressive check."""
    kinds = ("all", "moderate", "aggressive")
    header = ("plurality", *(f"{title}: {kind}" for title in SETS.values() for kind in kinds))
    edges = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0)
    sets = [load(name) for name in SETS]

    def rows() -> Iterator[Sequence[Cell]]:
        columns: list[tuple[np.ndarray, np.ndarray]] = []
        for votes in sets:
            if votes is None:
                return
            teachers = int(votes[0].sum())
            for check in (None, 0.7, 1.0):
                columns.append((votes.max(axis=1) / teachers, passing(votes, check)))
        for low, high in pairwise(edges):
            inside = [float(passed[(top > low) & (top <= high)].sum()) for top, passed in columns]
            yield f"{100 * low:.0f} to {100 * high:.0f} %", *map(round, inside)
        yield "together", *(round(float(passed.sum())) for _, passed in columns)

    return header, rows()


def passing(votes: np.ndarray, check: float | None) -> np.ndarray:
    """Probability with which each query passes a check at this share of the teachers, noise .3 of them; 1 without."""
    if check is None:
        return np.ones(len(votes))
    teachers = int(votes[0].sum())
    return np.exp(log_pr_answered(votes.max(axis=1), check * teachers, 0.3 * teachers, Noise.CONTINUOUS)[0])


def thresholds() -> Table:
    """Which queries pass by threshold (share of the teachers, noise .3 of them), and what 1,000 answers cost."""
    header = ("votes", "threshold", "plurality below half: pass, %", "above .8: pass, %", "asked for 1,000 answers",
              "labels right, %", "classic", "worst")  # fmt: skip
    cases = (("mnist", 40, DELTA), ("glyphlike", 100, 1e-8))

    def rows() -> Iterator[Sequence[Cell]]:
        for name, sigma, delta in cases:
            found = votes_and_truth(name, 12000)
            if found is None:
                continue
            votes, truth = found
            teachers = int(votes[0].sum())
            top = votes.max(axis=1) / teachers
            for share in (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
                passed = passing(votes, share)
                asked = int(np.searchsorted(np.cumsum(passed), 1000)) + 1
                mechanism = accounting.Confident(share * teachers, 0.3 * teachers, sigma)
                _, classic, _, _, worst = costs(mechanism, votes[:asked], delta, False)
                right = np.average(pr_label(votes[:asked], sigma, truth[:asked]), weights=passed[:asked])
                shares = (100 * float(passed[part].mean()) for part in (top < 0.5, top > 0.8))
                yield SETS[name], f"{share:g}", *shares, asked, 100 * float(right), classic, worst

    return header, rows()


def budget() -> Table:
    """The check's part of the Renyi curve at the order that gives epsilon."""
    header = ("votes", "mechanism", "asked", "answers", "epsilon, classic", "check, % of that", "worst case, CKS",
              "check, % of the worst")  # fmt: skip
    cases = (("mnist", accounting.Confident(200, 150, 40), 640, DELTA),
             ("mnist", accounting.Confident(200, 150, 40), 9000, DELTA),
             ("glyphlike", accounting.Confident(3500, 1500, 100), 6000, 1e-8),
             ("glyphlike", accounting.Confident(3000, 1500, 100), 12000, 1e-8),
             ("glyphlike", accounting.Confident(1000, 500, 100), 12000, 1e-8))  # fmt: skip

    def rows() -> Iterator[Sequence[Cell]]:
        for name, mechanism, queries, delta in cases:
            votes = load(name, queries)
            if votes is None:
                continue
            event, batch = batch_of(mechanism, votes, Noise.CONTINUOUS)
            total, only = published_rdp(event, batch), published_rdp(event, batch._replace(weights=0 * batch.weights))
            assert total is not None and only is not None
            found = rdp_to_epsilon(total, DEFAULT_ORDERS, delta, "classic")
            at = int(np.flatnonzero(found.order == DEFAULT_ORDERS)[0])
            cap = event.with_counts(queries, int(np.ceil(batch.weights.sum())))
            worst = cap.worst_case_rdp(DEFAULT_ORDERS)
            promised = rdp_to_epsilon(worst, DEFAULT_ORDERS, delta)
            there = int(np.flatnonzero(promised.order == DEFAULT_ORDERS)[0])
            check = cap.with_counts(queries, 0).worst_case_rdp(DEFAULT_ORDERS)
            yield (
                *(SETS[name], repr(mechanism), queries, round(float(batch.weights.sum()))),
                *(found.epsilon, 100 * only[at] / total[at], promised.epsilon, 100 * check[there] / worst[there]),
            )

    return header, rows()


TABLES: dict[str, Callable[[], Table]] = {
    each.__name__: each
    for each in (
        strong,
        advanced,
        sanitised,
        laplace,
        laplace_noise,
        gammas,
        equal,
        noise,
        answers,
        checks,
        thresholds,
        budget,
    )
}


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    show_tables(TABLES, "benchmarks.composition", arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
