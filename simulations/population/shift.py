"""What differs from party to party beyond the division: the table `data.shift`, one function for each key.

Two kinds of keys. Some leave half of a party's rows out (`TILTS`): which ones depends on label or features, so that
what a row says of another is true still. The others change what stands in a row (`CHANGES`). Nothing public depends on
either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from consilium.protocol.errors import ConfigError
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.population.partition import Partition
from consilium.simulations.population.specs import DataSpec, ShiftSpec

_ORDER, _NOISE, _SWAP, _CLASSES, _WRONG = 0x6F72646572, 0x6E6F697365, 0x73776170, 0x636C617373, 0x77726F6E67
_TILT, _SIZES = 0x74696C74, 0x73697A6573


def shifted(data: DataSpec, dataset: Dataset, partition: Partition, seed: int) -> Dataset:
    """The data set with what `data.shift` changes in rows (`CHANGES`); nothing outside the parties' rows does.

    Raises
    ------
    ConfigError : there are no such classes or columns, or the share of parties is less than one party.
    """
    changed = dataset
    for key, change in CHANGES.items():
        if getattr(data.shift, key):
            changed = change(data, dataset, changed, partition, seed)
    return changed


Change = Callable[[DataSpec, Dataset, Dataset, Partition, int], Dataset]
"""From the rows as they were, and as they are by now, to the rows as they become."""


def _noisy(data: DataSpec, dataset: Dataset, changed: Dataset, partition: Partition, seed: int) -> Dataset:
    """Li et al. 2022 (Federated learning on non-IID data silos, "noise-based feature imbalance": party i of N gets
    Gaussian noise of level sigma * i / N).

    It is in standard deviations of the public rows that are asked, and on features that are numbers. Of a table
    these are its columns of numbers; a missing value stays missing. Of arrays they are features of which the public
    rows have more than two values. Of images, which models see as they are, every pixel gets noise of one size: one
    that is always black has no deviation of its own.
    """
    x, scale = changed.x.copy(), _scale(data, dataset, dataset.x[partition.queries])
    (columns,) = np.nonzero(scale)
    for index, (name, level) in enumerate(noise_levels(data.shift, list(partition.parties), seed).items()):
        rows = partition.parties[name]
        noise = np.random.default_rng([seed, _NOISE, index]).standard_normal((len(rows), len(columns)))
        x[np.ix_(rows, columns)] += (level * scale[columns] * noise).astype(np.float32)
    return replace(changed, x=x)


def _swapped(data: DataSpec, dataset: Dataset, changed: Dataset, partition: Partition, seed: int) -> Dataset:
    """Concept shift: the same features mean another class."""
    y, other, shift = changed.y.copy(), _other_class(data.shift, dataset.classes, seed), data.shift
    for name in swapped_parties(shift, list(partition.parties), seed):
        rows = partition.parties[name]
        y[rows] = other[y[rows]]
    return replace(changed, y=y)


def _mistaken(data: DataSpec, dataset: Dataset, changed: Dataset, partition: Partition, seed: int) -> Dataset:
    """Wrong labels are mistakes: of the Glyph data of Papernot et al. 2018 at least a tenth are (section 4.1)."""
    generator, rows = np.random.default_rng([seed, _WRONG]), np.concatenate(list(partition.parties.values()))
    return _with_mistakes(changed, generator.permutation(rows)[: round(data.shift.wrong * len(rows))], generator)


def _with_mistakes(dataset: Dataset, rows: np.ndarray, generator: np.random.Generator) -> Dataset:
    """These rows are labelled as another class, each as likely."""
    steps = generator.integers(1, len(dataset.classes), len(rows))
    y = np.array(dataset.y)
    y[rows] = (y[rows] + steps) % len(dataset.classes)
    return replace(dataset, y=y)


CHANGES: dict[str, Change] = {"noise": _noisy, "swap": _swapped, "wrong": _mistaken}
"""What is changed in rows, in this order, by the key of `data.shift`."""


def tilted(data: DataSpec, dataset: Dataset, partition: Partition, seed: int) -> Partition:
    """The division without the rows that `data.shift` leaves out at parties, by lot and with the odds of `TILTS`.

    Half of a party's rows are left where a tilt decides which, and of these by `quantity` the share e^(-quantity w), w
    exponential for each party; as many as a party must have, in any case (`data.least_rows`).
    """
    shift, parties = data.shift, partition.parties
    tilts = {key: tilt for key, tilt in TILTS.items() if getattr(shift, key)}
    if not tilts and not shift.quantity:
        return partition
    rows = np.concatenate(list(parties.values()))
    party = np.repeat(np.arange(len(parties)), [len(part) for part in parties.values()])
    odds = np.zeros(len(rows))
    for key, tilt in tilts.items():
        generator = np.random.default_rng([seed, _TILT, len(key)])
        odds += getattr(shift, key) * tilt(data, dataset, partition, rows, party, generator)
    generator = np.random.default_rng([seed, _SIZES])
    sizes = (0.5 if tilts else 1.0) * np.exp(-shift.quantity * generator.exponential(size=len(parties)))
    odds += generator.gumbel(size=len(rows))  # the largest are a draw without replacement by these odds
    left = {}
    for index, (name, part) in enumerate(parties.items()):
        count = min(len(part), max(data.rows_needed, 1, round(sizes[index] * len(part))))
        left[name] = np.sort(part[np.argsort(-odds[party == index], kind="stable")[:count]])
    return replace(partition, parties=left)


Tilt = Callable[[DataSpec, Dataset, Partition, np.ndarray, np.ndarray, np.random.Generator], np.ndarray]
"""Logarithms of odds float64 (n,) at strength 1, of the parties' rows by index and their parties, int64 (n,)."""


def _by_label(
    data: DataSpec, dataset: Dataset, partition: Partition, rows: np.ndarray, party: np.ndarray,
    generator: np.random.Generator,
) -> np.ndarray:  # fmt: skip
    """Label shift: parties differ in their classes, and in nothing given the class."""
    return generator.standard_normal((len(partition.parties), len(dataset.classes)))[party, dataset.y[rows]]


def _by_features(
    data: DataSpec, dataset: Dataset, partition: Partition, rows: np.ndarray, party: np.ndarray,
    generator: np.random.Generator,
) -> np.ndarray:  # fmt: skip
    """Covariate shift: parties differ along one direction of the features, by lot, not in labels given these."""
    public = dataset.x[partition.queries].astype(np.float64)
    spread = np.nanstd(public, axis=0)
    seen = (dataset.x[rows] - np.nanmean(public, axis=0)) / np.where(spread > 0, spread, np.inf)
    along = np.nan_to_num(seen) @ generator.standard_normal(seen.shape[1])
    along = np.clip((along - along.mean()) / (along.std() or 1.0), -3, 3)
    return generator.standard_normal(len(partition.parties))[party] * along


TILTS: dict[str, Tilt] = {"label": _by_label, "covariate": _by_features}
"""Which rows a party is left with, by the key of `data.shift`."""


def noise_levels(shift: ShiftSpec, names: Sequence[str], seed: int) -> dict[str, float]:
    """Level of the noise of each party by name: noise * i / N for the i-th of N in an order by lot, since names of
    hospitals follow countries and sizes.

    >>> noise_levels(ShiftSpec(noise=0.5), ["a", "b"], 0)
    {'a': 0.5, 'b': 0.25}
    """
    place = np.random.default_rng([seed, _ORDER]).permutation(len(names)) + 1
    return {name: float(shift.noise * order / len(names)) for name, order in zip(names, place, strict=True)}


def swapped_parties(shift: ShiftSpec, names: Sequence[str], seed: int) -> tuple[str, ...]:
    """Who has other labels, by lot, in the order of `names`. Raises ConfigError where the share is nobody."""
    if not shift.swap:
        return ()
    if not (count := round(shift.swap * len(names))):
        raise ConfigError(
            f"data.shift.swap {shift.swap:g} of {len(names)} parties is nobody", "Raise it, or leave it out"
        )
    chosen = np.random.default_rng([seed, _SWAP]).permutation(len(names))[:count]
    return tuple(names[int(index)] for index in np.sort(chosen))


def _other_class(shift: ShiftSpec, classes: tuple[str, ...], seed: int) -> np.ndarray:
    """int64 (classes,): what each class is called at these parties, the same at all of them: of those that are swapped
    none is called what it is, by lot where there are more than two."""
    if unknown := [name for name in shift.classes if name not in classes]:
        raise ConfigError(f"data.shift.classes: there is no class {unknown[0]!r}", f"There are {', '.join(classes)}")
    moved = np.array([classes.index(name) for name in shift.classes or classes])
    generator, other = np.random.default_rng([seed, _CLASSES]), np.arange(len(classes))
    while (other[moved] == moved).any():
        other[moved] = generator.permutation(moved)
    return other


def _scale(data: DataSpec, dataset: Dataset, public: np.ndarray) -> np.ndarray:
    """Standard deviation float64 (features,) that a level is a multiple of; 0 where there is no noise."""
    if dataset.columns:
        numbers = [dataset.places[column.column][0] for column in dataset.columns if column.kind == "number"]
        scale = np.zeros(len(dataset.features))
        scale[numbers] = np.nanstd(public[:, numbers], axis=0, dtype=np.float64)
        return scale
    if data.representation != "none" or data.as_they_are:
        return np.full(len(dataset.features), public.std(dtype=np.float64))
    low, high = public.min(axis=0), public.max(axis=0)
    numbers = ((public != low) & (public != high)).any(axis=0)
    return np.where(numbers, public.std(axis=0, dtype=np.float64), 0.0)
