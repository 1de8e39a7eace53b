"""Which tables each study has on docs/laboratory/results.md and papers.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import polars as pl

from benchmarks.study_tables.cells import DIFFERENCES, MEANS, StudyTables, corrected, difference, digits, signed
from consilium.simulations.study.summaries.questions import paired, questions
from consilium.simulations.study.summaries.view import Point, StudyView
from docs.figures import Table

METHODS = {
    "local": "local only",
    "plurality": "clear plurality",
    "pate": "**PATE{}**",
    "noisy_average": "**noisy average{}**",
    "fedavg epsilon=1.0": "**FedAvg{}**",
    "fedavg, private": "**FedAvg, private**",
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "pooled": "pooled",
    "pooled kind=boosted": "pooled, boosted",
    "50 labels by hand": "50 labels by hand",
    "100 labels by hand": "100 labels by hand",
    "300 labels by hand": "300 labels by hand",
}


def labels(view: StudyView, terms: str) -> dict[str, str]:
    """Of the methods that a study has. terms: of the guarantee."""
    return {method: label.format(terms) for method, label in METHODS.items() if method in view.methods}


def hospitals(study: StudyTables) -> None:
    """Methods, divisions, what a division changes."""
    points = {(point,): point for point in ("natural", "shuffled", "matched", "iid", "skewed", "country")}
    study.methods("results/hospitals", labels(study.view, ", epsilon 1"), points)
    study.divisions("results/hospitals-divisions", "division", {at[0]: at[0] for at in list(points)[1:]})
    study.rivals("results/hospitals-methods", points)
    told = {
        "natural": "natural",
        "shuffled": "shuffled: the same sizes by lot",
        "matched": "matched: the same distance of labels",
        "iid": "iid: equal sizes",
        "skewed": "skewed: Dirichlet, alpha .1",
        "country": "country",
    }
    columns = ["parties", "Hellinger distance of labels (by chance alone)", "MMD² of features"]
    columns += ["classifier that tells one party from the rest, AUC", "kappa of teachers", "lead of the winner, votes"]

    def fill(table: Table) -> None:
        for point, label in told.items():
            at = (point,)
            table.add(label, f"{study.view.mean(at, 'division', 'parties'):.0f}", *measured(study, at), lead(study, at))

    study.figure("results/hospitals-2", ["division", *columns], fill, "Means over seeds")


def measured(study: StudyTables, at: Point) -> list[str]:
    """Distances of a division, and kappa."""
    chance = study.plain(at, "division", "hellinger_mean_floor")
    return [
        f"{study.plain(at, 'division', 'hellinger_mean')} ({chance})",
        study.plain(at, "division", "mmd2_mean"),
        study.plain(at, "division", "c2st_auc_mean"),
        study.plain(at, "teachers", "kappa"),
    ]


def lead(study: StudyTables, at: Point) -> str:
    """Votes by which the winner leads, in the mean."""
    return study.plain(at, "teachers", "gap_mean", 0)


def heart(study: StudyTables) -> None:
    """Methods at each promise; PATE against methods of the same guarantee."""
    points = {at: at[0] for at in study.view.points}
    study.methods("results/four-hospitals", labels(study.view, ""), points)
    study.rivals("results/four-hospitals-methods", points)


def writers(study: StudyTables) -> None:
    """Methods and divisions."""
    points = {(point,): point for point in ("natural", "iid", "matched")}
    study.methods("results/writers", labels(study.view, ", epsilon 1"), points)
    study.divisions("results/writers-divisions", "division", {"iid": "iid", "matched": "matched"})
    columns = ["Hellinger distance of labels (by chance alone)", "MMD² of features", "classifier, AUC"]
    columns += ["kappa of teachers", "teachers of others on a writer's images, less the writer's own"]

    def fill(table: Table) -> None:
        for at, point in points.items():
            table.add(point, *measured(study, at), study.plain(at, "teachers", "cross_site_accuracy_shift"))

    study.figure("results/writers-2", ["division", *columns], fill, "Means over seeds")


def stroke_skew(study: StudyTables) -> None:
    """Methods and divisions."""
    points = {at: at[0] for at in study.view.points}
    study.methods("results/known-from-scripts-confirmed-or-refuted", labels(study.view, ", epsilon .99"), points)
    study.divisions("results/skewed-hospitals-divisions", "division", {at[0]: at[0] for at in list(points)[1:]})


MANY = 40
"""Parties: above and below, means are told apart."""
_OPEN = {
    "local": "local",
    "plurality": "plurality",
    "distilled": "distilled",
    "fedavg": "FedAvg",
    "scaffold": "SCAFFOLD",
    "pooled": "pooled",
    "100 labels by hand": "100 labels by hand",
}
_SAME = {
    "pate": "PATE",
    "noisy_distilled": "distilled",
    "noisy_average": "average of weights",
    "fedavg, private": "FedAvg",
    "private_gradient": "gradient descent",
}
_HOME = {
    "pate": "PATE",
    "improved": "PATE, improved",
    "fedavg, private": "FedAvg, private",
    "fedavg": "FedAvg",
    "fedavg, fine-tuned": "FedAvg, fine-tuned",
    "pooled": "pooled",
}


def naturals(study: StudyTables) -> None:
    """A line for each division: what promises nothing, what guarantees the same, the differences, and who gains."""
    view = study.view
    low, high = view.order["epsilon"]
    parties = {name: view.mean((low, name), "division", "parties") or 0.0 for name in view.order["division"]}
    by_size = sorted(parties, key=lambda name: -parties[name])
    groups = {
        "all, mean": by_size,
        "40 parties or more, mean": [name for name in by_size if parties[name] >= MANY],
        "fewer parties, mean": [name for name in by_size if parties[name] < MANY],
    }
    open_methods = _named(view, _OPEN) | {name: "pooled, boosted" for name in view.methods if "boosted" in name}

    def fill_open(table: Table) -> None:
        for name in by_size:
            kappa = study.plain((low, name), "teachers", "kappa")
            table.add(name, f"{parties[name]:,.0f}", kappa, *(study.mean((low, name), at) for at in open_methods))
        for label, names in groups.items():
            table.add(label, "", "", *_means(study, low, names, open_methods))

    study.figure("results/natural-divisions-open", ["division", "parties", "kappa", *open_methods.values()],
                 fill_open, MEANS)  # fmt: skip
    for which, epsilon in (("", low), ("-3", high)):

        def fill(table: Table, epsilon: str = epsilon) -> None:
            for name in by_size:
                at = (epsilon, name)
                table.add(
                    name, f"{parties[name]:,.0f}", *(study.mean(at, method) for method in _SAME), hand_labels(view, at)
                )

            for label, names in groups.items():
                table.add(label, "", *_means(study, epsilon, names, _SAME), "")

        columns = ["division", "parties", *_SAME.values(), "PATE worth"]
        note = MEANS + ". Worth: labels by hand, median of the seeds"
        study.figure(f"results/natural-divisions{which}", columns, fill, note)
    families = [question.family for question in questions(view) if question.kind == "methods"]
    against = {(each.point, each.method): each for question in questions(view) for each in question.tested}

    def fill_contrasts(table: Table) -> None:
        for name in by_size:
            rivals = [method for method in _SAME if method != "pate"]
            cells = [against.get(((epsilon, name), rival)) for epsilon in (low, high) for rival in rivals]
            table.add(name, *("–" if each is None else difference(each) for each in cells))

    heads = [
        f"{label}, {epsilon[:1]}" for epsilon in (low, high) for method, label in _SAME.items() if method != "pate"
    ]
    study.figure(
        "results/natural-divisions-methods",
        ["division", *heads],
        fill_contrasts,
        f"{DIFFERENCES}: {'; '.join(families)}",
    )

    def fill_home(table: Table) -> None:
        for name in by_size:
            shares = [view.mean((low, name), method, "gain_brier_better_share") for method in _HOME]
            table.add(name, f"{parties[name]:,.0f}", *("–" if share is None else f"{share:.0%}" for share in shares))

    study.figure("results/natural-divisions-home", ["division", "parties", *_HOME.values()], fill_home,
                 "Share of the parties whose own held-out rows are predicted better (Brier score) than by the party's"
                 " own teachers; mean over seeds. Ties are left out; epsilon 1 where there is one")  # fmt: skip


def _means(study: StudyTables, epsilon: str, names: Sequence[str], methods: Iterable[str]) -> list[str | None]:
    """Over divisions; none of a method that some of them lack."""
    metric = study.view.metric or ""
    cells = [[study.view.mean((epsilon, name), method, metric) for name in names] for method in methods]
    return [
        None if None in row else digits(float(np.mean([cell for cell in row if cell is not None]))) for row in cells
    ]


def _named(view: StudyView, names: Mapping[str, str]) -> dict[str, str]:
    """Those that the study has."""
    return {method: label for method, label in names.items() if method in view.methods}


def hand_labels(view: StudyView, at: Point) -> str:
    """Median over seeds of what PATE is worth; those above the most that was tried count as that."""
    rows = view.of_point(view.frame, at).filter(
        (pl.col("method") == "pate") & pl.col("metric").is_in(["hand_labels", "hand_labels_above"])
    )
    return f"{np.median(rows['value'].to_numpy()):,.0f}" if rows.height else "–"


def skew(study: StudyTables) -> None:
    """A line for each number of parties and alpha; what the ends of alpha change."""
    view = study.view
    columns = ["parties", "alpha", "local only", "clear plurality", "PATE, labels (GNMax)", "PATE, histograms"]
    columns += ["the same, relative votes", "noisy average"]
    place = {axis: view.axes.index(axis) for axis in ("alpha", "parties", "mechanism")}

    def point(alpha: str, parties: str, mechanism: str) -> Point:
        values = {"alpha": alpha, "parties": parties, "mechanism": mechanism}
        return tuple(values[axis] for axis in sorted(place, key=lambda axis: place[axis]))

    def fill(table: Table) -> None:
        for parties in view.order["parties"]:
            for alpha in view.order["alpha"]:
                at = [point(alpha, parties, mechanism) for mechanism in ("gnmax", "histogram", "histogram, relative")]
                pate = [study.mean(each, "pate") for each in at]
                others = [study.mean(at[1], method) for method in ("local", "plurality", "noisy_average")]
                table.add(parties, digits(float(alpha), 2).rstrip("0").rstrip("."), *others[:2], *pate, others[2])

    study.figure("results/skew-number-of-parties-mechanism", columns, fill, MEANS)
    study.ends("results/skew-ends", "alpha")
    pate = view.frame.filter(pl.col("method") == "pate")
    plain = view.frame.filter(pl.col("mechanism") == "histogram")
    scores, metric = view.row_scores, view.metric or ""

    def relative_rule(method: str) -> pl.DataFrame:
        own = view.frame.filter(pl.col("method") == method)
        rows = paired(own, metric, "histogram", along="mechanism", row_scores=scores)
        return rows.filter(pl.col("mechanism") == "histogram, relative")

    found = {
        "PATE: histograms less labels": paired(pate, metric, "gnmax", along="mechanism", row_scores=scores).filter(
            pl.col("mechanism") == "histogram"
        ),
        "PATE: relative votes less plain ones": relative_rule("pate"),
        "clear plurality: relative votes less plain ones": relative_rule("plurality"),
        "noisy average less histograms": paired(plain, metric, "pate", row_scores=scores).filter(
            pl.col("method") == "noisy_average"
        ),
    }
    cells = {name: corrected(rows, ("parties", "alpha")) for name, rows in found.items()}

    def fill_mechanisms(table: Table) -> None:
        for parties in view.order["parties"]:
            for alpha in view.order["alpha"]:
                number = digits(float(alpha), 2).rstrip("0").rstrip(".")
                table.add(parties, number, *(cells[name].get((parties, alpha)) for name in cells))

    note = f"{DIFFERENCES}: each column is one"
    study.figure("results/skew-mechanisms", ["parties", "alpha", *cells], fill_mechanisms, note)


def papers(study: StudyTables) -> None:
    """Mechanisms at equal epsilon, and their differences at the same point and seed."""
    view = study.view
    later = "Confident, then Interactive"
    confident = {"100": "Confident, 60 votes", "250": "Confident, 150 votes", "1000": "Confident, 600 votes"}
    columns = ["epsilon", "parties"]
    for name in ("LNMax", "GNMax", "Confident"):
        columns += [f"{name}: right", "AUC", "at the votes"]
    columns += ["Confident, then Interactive: right", "AUC", "histogram: AUC", "plurality: AUC"]

    def right(at: Point) -> str:
        found = view.mean(at, "pate", "labels_right")
        return "" if found is None else f"{100 * found:.1f}"

    def auc(at: Point) -> str:
        return "" if view.mean(at, "pate", "auc") is None else study.mean(at, "pate")

    def fill(table: Table) -> None:
        for epsilon in view.order["epsilon"]:
            for parties in view.order["parties"]:
                cells = []
                for mechanism in ("LNMax", "GNMax", confident[parties]):
                    at = (epsilon, parties, mechanism)
                    spent = [study.plain(at, "pate", f"epsilon_{name}", 2) for name in ("data_dependent", "published")]
                    cells += [right(at), auc(at), " / ".join(spent)]
                last = (epsilon, parties, later)
                cells += [right(last), auc(last), auc((epsilon, parties, "histogram"))]
                cells.append(study.mean((epsilon, parties, "histogram"), "plurality"))
                table.add(digits(float(epsilon), 1).removesuffix(".0"), f"{int(parties):,}", *cells)

    study.figure("papers/mechanisms-at-equal-epsilon", columns, fill, MEANS)
    pairs = [("GNMax", "LNMax"), ("Confident", "GNMax"), (later, "GNMax"), ("histogram", "GNMax")]
    points = [(epsilon, parties) for epsilon in view.order["epsilon"] for parties in view.order["parties"]]
    heads = [f"epsilon {digits(float(epsilon), 1).removesuffix('.0')}, {int(parties):,}" for epsilon, parties in points]

    def fill_pairs(table: Table) -> None:
        for metric, told, scale in (("labels_right", "labels right, points, over seeds alone", 100), ("auc", "AUC", 1)):
            for more, less in pairs if metric == "auc" else pairs[:-1]:
                named = {parties: confident[parties] if more == "Confident" else more for _, parties in points}
                cells = [mechanisms(view, metric, at, named[at[1]], less, scale) for at in points]
                table.add(f"{more} less {less}: {told}", *cells)

    note = "Mean difference at the same seed, with its 95 % interval over seeds and {unit} together; not corrected"
    study.figure("papers/mechanisms-at-equal-epsilon-2", ["", *heads], fill_pairs, note)


def teachers(study: StudyTables) -> None:
    """Students of so many teachers, by the papers' two mechanisms and without noise."""
    view = study.view
    columns = ["parties", "plurality: student's accuracy"]
    for name in view.order["mechanism"]:
        columns += [f"{name}: labels right, %", "student's accuracy"]

    def fill(table: Table) -> None:
        for parties in view.order["parties"]:
            points = [(parties, name) for name in view.order["mechanism"]]
            cells = [study.mean(points[0], "plurality", "accuracy")]
            for at in points:
                right = view.mean(at, "pate", "labels_right")
                cells += ["–" if right is None else f"{100 * right:.1f}", study.mean(at, "pate", "accuracy")]
            table.add(parties, *cells)

    study.figure("papers/teachers-students", columns, fill, MEANS)


def mechanisms(view: StudyView, metric: str, at: tuple[str, str], more: str, less: str, scale: int) -> str:
    """PATE by one mechanism less PATE by another. at: epsilon, parties. scale: 100 for points."""
    frame = view.frame.filter(
        (pl.col("epsilon") == at[0]) & (pl.col("parties") == at[1]) & (pl.col("method") == "pate")
    )
    rows = paired(frame, metric, less, along="mechanism", row_scores=view.row_scores)
    rows = rows.filter(pl.col("mechanism") == more).to_dicts()
    if not rows:
        return ""
    parts = [scale * rows[0][name] for name in ("difference", "low", "high")]
    texts = [signed(part, 3 if scale == 1 else 1) for part in parts]
    return f"{texts[0]} ({texts[1]} to {texts[2]})"


TABLES = {
    "heart": heart,
    "hospitals": hospitals,
    "naturals": naturals,
    "papers": papers,
    "skew": skew,
    "stroke_skew": stroke_skew,
    "teachers": teachers,
    "writers": writers,
}
