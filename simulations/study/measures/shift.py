"""Which kind of difference a division has: each kind with its strength, an interval, and what chance alone gives.

A plain label skew moves the features too, a change of the features moves the labels, and swapped labels move both given
the other. So each test is conditioned on what would explain it away:

- label: how frequent the classes are, where features given the class are the same, or do not explain it;
- covariate: the features, and the features given the class. Rows are dealt to owners by lot within each class, so that
  no skew of labels, however strong, counts as a difference of features;
- concept, or annotators: labels given features. Against one additive logistic regression of all rows, with an intercept
  for each owner, slopes and coefficients differ between owners (Cochran's Q, DerSimonian and Laird's tau^2, Higgins'
  I^2); chance is drawn from the regression's own probabilities. Annotators where wrong labels, each owner's own share
  of them, explain all of it. A level that moves without the features that come with the class is concept too.
- missing, units: what a column lacks, or is written in, at some owners (`recorded`). These cells are left out of what
  follows.
- scanner: contrast, sharpness and noise of images (`scanner`). Owners with another one are left out of what follows.
- quantity, time, public: sizes, when rows were, and how frequent classes are among public rows, estimated without
  their labels (Lipton, Wang, Smola 2018, black box shift estimation).

Holm's correction is over the kinds that can be judged, so that of divisions by lot at most `ERROR` have any kind named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import chdtrc, ndtr

from consilium.protocol.errors import DataError
from consilium.protocol.schema import why_no_images
from consilium.report.words import many
from consilium.simulations.divide import Case
from consilium.simulations.study.measures.between import (
    ERROR,
    MOST_INPUTS,
    PURPOSE,
    SHIFT_KINDS,
    OwnerRows,
    ShiftKind,
    ShiftPart,
    between_owners,
    centred,
    components,
    ranks,
    shift_part,
)
from consilium.simulations.study.measures.figures import Divided, ends, gini, hellinger, shares
from consilium.simulations.study.measures.heterogeneity import (
    LOTS,
    Heterogeneity,
    Labelled,
    levels,
    slopes,
    wrong_shares,
)
from consilium.simulations.study.measures.recorded import lacking_cells, missing_part, units_part
from consilium.simulations.study.measures.scanner import image_traits, scanner_part

MOST_DIRECTIONS = 24
"""In which coefficients of two classes may differ between owners; of more classes fewer."""
_LEFT = 0.01
"""p above which nothing is left once owners differ in their share of wrong labels."""


@dataclass(frozen=True)
class WhichShift:
    """parts: every kind that could be judged, in the order of `SHIFT_KINDS`."""

    owners: int
    rows: int
    parts: tuple[ShiftPart, ...]

    @property
    def named(self) -> tuple[ShiftKind, ...]:
        """Kinds that are there beyond chance."""
        return tuple(part.kind for part in self.parts if part.named)

    def of(self, kind: ShiftKind) -> ShiftPart | None:
        """That kind; None where it could not be judged."""
        return next((part for part in self.parts if part.kind == kind), None)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "owners": self.owners,
            "rows": self.rows,
            "named": list(self.named),
            "parts": [
                {**{name: getattr(part, name) for name in _NUMBERS}, "kind": part.kind, "named": part.named,
                 "where": list(part.where), "figures": dict(part.figures)}
                for part in self.parts
            ],
        }  # fmt: skip

    def lines(self) -> Iterator[str]:
        """For people: what is there, the strongest first, then what is not."""
        yield f"{many(self.owners, 'owner')}, {many(self.rows, 'row')}: " + (", ".join(self.named) or "no shift") + "."
        for part in sorted(self.parts, key=lambda part: (not part.named, part.p, -part.strength)):
            yield part.text() + "."


_NUMBERS = ("strength", "low", "high", "floor", "floor_high", "p")


def shift_of(case: Case) -> WhichShift:
    """Of all rows that the parties have, beside the student's pool."""
    dataset, divided = case.dataset, Divided.of(case)
    x, features = np.array(dataset.x, dtype=np.float64), list(dataset.features)
    shown = np.ones(len(features), dtype=bool)
    for column in dataset.columns:
        if column.missing:  # the schema has filled these in, and says where
            *places, missing = (features.index(name) for name in column.features)
            x[np.ix_(x[:, missing] == 1, places)] = np.nan
            shown[missing] = False
    order = np.lexsort((divided.rows, divided.party))  # whichever of them are held out at home
    rows = divided.rows[order]
    return which_shift(
        x[np.ix_(rows, shown)],
        dataset.y[rows],
        np.array(case.parties)[divided.party[order]],
        columns=[name for name, there in zip(features, shown, strict=True) if there],
        time=None if dataset.time is None else dataset.time[rows],
        unit=None if dataset.patient is None else dataset.patient[rows],
        public=x[np.ix_(case.partition.queries, shown)],
        images=_are_images(case),
        seed=case.seed,
    )


def _are_images(case: Case) -> bool:
    """Whether models see pixels as they are, or what a transform of images makes of them."""
    schema = case.config.rows
    return schema.representation != "none" or not why_no_images(schema)


def which_shift(
    x: np.ndarray,
    y: np.ndarray,
    owners: np.ndarray,
    *,
    columns: Sequence[str] = (),
    time: np.ndarray | None = None,
    unit: np.ndarray | None = None,
    public: np.ndarray | None = None,
    images: bool = False,
    seed: int = 0,
) -> WhichShift:
    """Which kinds of difference there are between owners.

    x: float (rows, columns), NaN where a value is missing; categories as columns of 0 and 1. y: label of each row, and
    owners: whose it is, (rows,) of anything that can be sorted. columns: names. time: float (rows,), when each row was.
    unit: (rows,), whose rows belong together (patients); one row of each at an owner is looked at. public: float
    (public rows, columns), without labels. images: whether rows are square images, pixel after pixel.

    400 owners with 20,000 rows of 30 columns take seconds.

    Raises
    ------
    DataError : shapes that do not fit, a value that is infinite, one owner alone.

    >>> generator = np.random.default_rng(0)
    >>> owners = np.repeat(np.arange(20), 50)
    >>> y = (generator.random(1000) < np.where(owners < 10, 0.2, 0.6)).astype(int)
    >>> x = generator.normal(size=(1000, 3)) + y[:, None]
    >>> which_shift(x, y, owners).named
    ('label',)
    """
    traits = image_traits(np.asarray(x, dtype=np.float64)) if images else None
    x, columns, public = _few(np.asarray(x, dtype=np.float64), tuple(columns), public)
    rows = OwnerRows.of(x, y, owners, columns, time, unit, seed, traits)
    generator = np.random.default_rng([seed, PURPOSE])
    judged: list[ShiftPart | None] = [_quantity(rows, generator)]
    whole = rows
    if rows.traits is not None:
        scanner = scanner_part(rows, rows.traits, generator)
        judged.append(scanner.part)
        if scanner.owners.any() and (~scanner.owners).sum() > 1:
            rows = rows.without(scanner.owners)
    without_column = lacking_cells(rows)
    missing = np.isnan(rows.x) | without_column[rows.owner]
    judged.append(missing_part(rows, missing, generator))
    units = units_part(rows, np.where(missing, np.nan, rows.x))
    judged.append(units.part)
    unclear = without_column | units.cells
    seen = np.where(np.isnan(rows.x) | unclear[rows.owner], np.nan, rows.x)
    if len(np.unique(rows.y)) > 1:
        judged += _explained(rows, seen, np.any(unclear, axis=0), public, generator)
    else:
        judged.append(_covariate(rows, ranks(seen), generator)[0])
    judged.append(_time(whole, generator))
    known = [part for part in judged if part is not None]
    return WhichShift(len(whole.sizes), int(whole.every.sum()), _corrected(known))


_MOST_COLUMNS = 256
"""Beyond which columns are pixels, and principal components of their ranks are looked at in their place."""


def _few(
    x: np.ndarray, columns: tuple[str, ...], public: np.ndarray | None
) -> tuple[np.ndarray, tuple[str, ...], np.ndarray]:
    """x, names and public rows, of columns or components."""
    if public is None:
        public = np.zeros((0, x.shape[-1]))
    public = np.asarray(public, dtype=np.float64)
    if x.ndim == 2 and public.shape[1:] != x.shape[1:]:
        raise DataError(f"public rows are {public.shape}, and x is {x.shape}", "Give the same columns")
    if x.ndim != 2 or x.shape[1] <= _MOST_COLUMNS:
        return x, columns, public
    both = np.concatenate([x, public])
    turned = components(centred(ranks(both), np.zeros(len(both))))
    return turned[: len(x)], (), turned[len(x) :]


def _quantity(rows: OwnerRows, generator: np.random.Generator) -> ShiftPart:
    """Against rows that fall to each owner with the same probability."""
    sizes, count = rows.every, len(rows.every)
    expected = sizes.sum() / count
    p = float(chdtrc(count - 1, ((sizes - expected) ** 2).sum() / expected))
    lots = [gini(row) for row in generator.multinomial(int(sizes.sum()), np.full(count, 1 / count), size=LOTS)]
    again = [gini(sizes[generator.integers(count, size=count)]) for _ in range(LOTS)]
    low, high = ends(np.array(again))
    floor = np.array(lots)
    return ShiftPart("quantity", gini(sizes), low, high, float(floor.mean()), ends(floor)[1], p)


def _time(rows: OwnerRows, generator: np.random.Generator) -> ShiftPart | None:
    if rows.time is None or np.isnan(rows.time).all():
        return None
    none = np.zeros(len(rows.y), dtype=np.int64)
    between = between_owners(rows, centred(ranks(rows.time[:, None]), none), none, generator)
    return shift_part("time", rows, between, between.p, generator)


def _covariate(rows: OwnerRows, scores: np.ndarray, generator: np.random.Generator) -> tuple[ShiftPart, float]:
    """First and second moments of the features' ranks; and p of what differs within a class."""
    numbers = [place for place in range(scores.shape[1]) if len(np.unique(scores[:, place])) > 3]
    values = np.column_stack([scores, scores[:, numbers] ** 2])
    names = [*rows.columns, *(rows.columns[place] for place in numbers)]
    none = np.zeros(len(rows.y), dtype=np.int64)
    within = between_owners(rows, centred(values, rows.y), rows.y, generator)
    over_all = between_owners(rows, centred(values, none), none, generator)
    return shift_part("covariate", rows, within, max(within.p, over_all.p), generator, names), within.p


def _explained(
    rows: OwnerRows, seen: np.ndarray, unclear: np.ndarray, public: np.ndarray, generator: np.random.Generator
) -> list[ShiftPart | None]:
    """Label, covariate, concept, annotators and public, each beside what would explain it away.

    seen: x without cells in which owners are not comparable; unclear: bool (d,), columns that have such.
    """
    scores = ranks(seen)
    covariate, p_within = _covariate(rows, scores, generator)
    label, p_label = _labels(rows, generator)
    parts: list[ShiftPart | None] = [covariate]
    clear = np.flatnonzero(~unclear & ~np.isnan(seen).all(axis=0))
    if not len(clear):
        return [*parts, _replaced(label, p_label)]
    labelled, further = _labelled(rows, seen[:, clear], public[:, clear])
    p, of_public = labelled.fit(further)
    level = levels(labelled, p, generator)
    by_slope, by_rest = slopes(labelled, labelled.with_levels(p, level.tau2), p, generator)
    p_rule = min(1.0, 2 * min(by_slope.p, by_rest.p))
    p_moved = _moves_with(rows, p, generator)
    if p_moved < (_STAYS if p_rule > ERROR else 2 * ERROR):
        p_rule, p_label = min(p_rule, max(level.p, p_moved)), 1.0
    elif p_within <= ERROR:
        p_label = max(p_label, level.p)
    figures = {"level_tau2": level.tau2, "level_i2": level.i2, "level_p": level.p}
    rule, p_mistaken = _rule(rows, labelled, p, (by_slope, by_rest), p_rule, generator)
    parts += [_replaced(label, max(p_label, p_mistaken), figures), *rule]
    if len(of_public) > 1:
        parts.append(_public(rows, p, of_public, generator))
    return parts


def _replaced(part: ShiftPart, p: float, figures: Mapping[str, float] | None = None) -> ShiftPart:
    return replace(part, p=p, figures={**part.figures, **(figures or {})})


def _labels(rows: OwnerRows, generator: np.random.Generator) -> tuple[ShiftPart, float]:
    none = np.zeros(len(rows.y), dtype=np.int64)
    counts = np.eye(len(rows.classes))[rows.y]
    between = between_owners(rows, centred(counts, none), none, generator)
    distances = hellinger(shares(rows.sums(counts)), shares(counts.sum(axis=0)))
    names = [str(name) for name in rows.classes] if len(rows.classes) > 2 else []
    weighted = float(distances @ rows.sizes / rows.sizes.sum())
    return shift_part("label", rows, between, between.p, generator, names, hellinger_weighted=weighted), between.p


def _labelled(rows: OwnerRows, x: np.ndarray, public: np.ndarray) -> tuple[Labelled, np.ndarray]:
    """The regression's design: ranks, their squares, and where a value is missing, few enough for the rows; and that of
    the public rows float64 (public rows, d)."""
    scores = ranks(np.concatenate([x, public]))
    none, count = np.zeros(len(scores)), len(x)
    numbers = [place for place in range(scores.shape[1]) if len(np.unique(scores[:, place])) > 3]
    missing = np.isnan(scores)
    some = missing.mean(axis=0)
    holes = missing[:, (some > 0.01) & (some < 0.99)].astype(np.float64)
    first = centred(scores, none)
    design = np.column_stack([first, centred(scores[:, numbers] ** 2, none), centred(holes, none)])
    design = components(design)[:, : max(1, min(MOST_INPUTS, count // 15))]
    most = max(4, 2 * MOST_DIRECTIONS // len(rows.classes))
    directions = first if first.shape[1] <= most else components(first)[:, :most]
    labelled = Labelled(rows.y, len(rows.classes), rows.starts, design[:count], directions[:count])
    return labelled, design[count:]


def _moves_with(rows: OwnerRows, p: np.ndarray, generator: np.random.Generator) -> float:
    """p of that features move with the classes' frequencies as they do within all rows; 1 where they do so more than
    they stay where they are.

    With M the mean of the probabilities by true class, an owner with other frequencies has probabilities that differ by
    their change times M if features given the class are the same, and by 0 if features are.
    """
    means = np.stack([p[rows.y == label].mean(axis=0) for label in range(len(rows.classes))])
    expected, weight = means[rows.y], 1.0 / rows.sizes[:, None]
    wanted = rows.sums(expected - expected.mean(axis=0)) * weight
    excess = p - expected

    def together(values: np.ndarray) -> float:
        return float((rows.sums(values) * wanted).sum())

    lots = np.array([together(excess[rows.dealt(rows.y, generator)]) for _ in range(LOTS)])
    by_chance = float(expected.var(axis=0).sum()) * (len(rows.sizes) - 1)
    between = float((rows.sizes[:, None] * wanted**2).sum()) - by_chance
    value, spread = together(excess), float(lots.std()) or 1.0
    if value >= -0.5 * max(between, 0.0):
        return 1.0
    return float(ndtr((value - float(lots.mean())) / spread))


_STAYS = 1e-3
"""p of `_moves_with` below which features stay, where nothing else says that labels mean something else."""


def _rule(
    rows: OwnerRows, labelled: Labelled, p: np.ndarray, differences: tuple[Heterogeneity, Heterogeneity], p_rule: float,
    generator: np.random.Generator,
) -> tuple[list[ShiftPart], float]:  # fmt: skip
    """Concept and annotators: one hypothesis, and which of both explains it. Beside them p of the levels that are left
    once owners differ in their share of wrong labels, 0 where they do not."""
    by_slope, by_rest = differences
    wrong, with_mistakes = wrong_shares(labelled, p)
    mistakes = False
    if p_rule <= ERROR:
        mistakes = 2 * min(rest.p for rest in slopes(labelled, with_mistakes, p, generator)) > _LEFT
    figures = {
        "slope_tau2": by_slope.tau2, "slope_i2": by_slope.i2, "slope_p": by_slope.p,
        "coefficients_i2": by_rest.i2, "coefficients_p": by_rest.p,
    }  # fmt: skip
    best = by_slope if by_slope.p <= by_rest.p else by_rest
    floor = float(best.lots.mean())
    again = generator.multinomial(len(rows.sizes), np.full(len(rows.sizes), 1 / len(rows.sizes)), size=1000)
    drawn = again @ best.by_owner
    low, high = ends(np.maximum(0.0, 1 - floor / np.maximum(drawn, 1e-300)))
    top = ends(np.maximum(0.0, 1 - floor / np.maximum(best.lots, 1e-300)))[1]
    chance = float(np.maximum(0.0, 1 - floor / np.maximum(best.lots, 1e-300)).mean())
    names = tuple(str(rows.names[place]) for place in np.argsort(-best.by_owner)[:3])
    spread = {"wrong_least": float(wrong.min()), "wrong_most": float(wrong.max())}
    concept = ShiftPart("concept", best.i2, low, high, chance, top, 1.0 if mistakes else p_rule, names, figures)
    annotators = replace(concept, kind="annotators", p=p_rule if mistakes else 1.0, figures={**figures, **spread})
    return [concept, annotators], levels(labelled, with_mistakes, generator).p if mistakes else 0.0


def _public(rows: OwnerRows, p: np.ndarray, public: np.ndarray, generator: np.random.Generator) -> ShiftPart:
    """Black box shift estimation: where features given the class are the same, the mean probabilities among public rows
    are the classes' frequencies there, mixed as those of the owners' rows are."""
    means = np.stack([p[rows.y == label].mean(axis=0) for label in range(len(rows.classes))])
    spread = np.cov(p, rowvar=False) * (1 / len(p) + 1 / len(public))
    unmix, step = np.linalg.pinv(means.T, rcond=1e-3), public.mean(axis=0) - p.mean(axis=0)
    freedom = len(rows.classes) - 1
    p_value = float(chdtrc(freedom, step[1:] @ np.linalg.pinv(spread[1:, 1:]) @ step[1:]))
    noise = generator.multivariate_normal(np.zeros(len(step)), spread, size=1000, method="eigh")
    moved = np.minimum(1.0, np.abs(noise @ unmix.T).sum(axis=1) / 2)
    low, high = ends(np.minimum(1.0, np.abs((step + noise) @ unmix.T).sum(axis=1) / 2))
    change = unmix @ step
    frequencies = np.clip(np.bincount(rows.y) / len(rows.y) + change, 0.0, 1.0)
    figures = {f"share of {name}": float(value) for name, value in zip(rows.classes, frequencies, strict=True)}
    strength = min(1.0, float(np.abs(change).sum() / 2))
    return ShiftPart("public", strength, low, high, float(moved.mean()), ends(moved)[1], p_value, (), figures)


def _corrected(parts: Sequence[ShiftPart]) -> tuple[ShiftPart, ...]:
    """Holm's correction; concept and annotators are one hypothesis."""
    tested = {part.kind: part.p for part in parts if part.kind != "annotators"}
    rule = next((part.p for part in parts if part.kind == "annotators"), 1.0)
    if "concept" in tested:
        tested["concept"] = min(tested["concept"], rule)
    corrected, largest = dict[str, float](), 0.0
    for place, kind in enumerate(sorted(tested, key=lambda kind: tested[kind])):
        largest = max(largest, min(1.0, tested[kind] * (len(tested) - place)))
        corrected[kind] = largest
    shown = []
    for part in parts:
        same = corrected["concept" if part.kind == "annotators" else part.kind]
        shown.append(replace(part, p=same if part.p < 1 or part.kind not in ("concept", "annotators") else 1.0))
    return tuple(sorted(shown, key=lambda part: SHIFT_KINDS.index(part.kind)))
