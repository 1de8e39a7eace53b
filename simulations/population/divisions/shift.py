"""What is changed at parties after the division: features get noise that grows from party to party, labels are
swapped or wrong.

Li et al. 2022 (Federated learning on non-IID data silos, "noise-based feature imbalance": party i of N gets Gaussian
noise of level sigma * i / N). Swapped labels are concept shift: the same features mean another class. Public rows stay
as they are, and nothing public depends on what is changed. Wrong labels are mistakes: of the Glyph data of Papernot et
al. 2018 at least a tenth are (section 4.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from consilium.protocol.errors import ConfigError
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.population.partition import Partition
from consilium.simulations.population.specs import DataSpec, ShiftSpec

_ORDER, _NOISE, _SWAP, _CLASSES, _WRONG = 0x6F72646572, 0x6E6F697365, 0x73776170, 0x636C617373, 0x77726F6E67


def shifted(data: DataSpec, dataset: Dataset, partition: Partition, seed: int) -> Dataset:
    """The data set with what `data.shift` changes; nothing outside the parties' rows does.

    Noise is in standard deviations of the public rows that are asked, and on features that are numbers. Of a table
    these are its columns of numbers; a missing value stays missing. Of arrays they are features of which the public
    rows have more than two values. Of images, which models see as they are, every pixel gets noise of one size: one
    that is always black has no deviation of its own.

    Raises
    ------
    ConfigError : there are no such classes, or the share of parties is less than one party.
    """
    shift, names = data.shift, list(partition.parties)
    x, y = dataset.x, dataset.y
    if shift.noise:
        x, scale = x.copy(), _scale(data, dataset, x[partition.queries])
        (columns,) = np.nonzero(scale)
        for index, (name, level) in enumerate(noise_levels(shift, names, seed).items()):
            rows = partition.parties[name]
            noise = np.random.default_rng([seed, _NOISE, index]).standard_normal((len(rows), len(columns)))
            x[np.ix_(rows, columns)] += (level * scale[columns] * noise).astype(np.float32)
    if shift.swap:
        y, other = y.copy(), _other_class(shift, dataset.classes, seed)
        for name in swapped_parties(shift, names, seed):
            y[partition.parties[name]] = other[y[partition.parties[name]]]
    if shift.wrong:
        generator, rows = np.random.default_rng([seed, _WRONG]), np.concatenate(list(partition.parties.values()))
        rows = generator.permutation(rows)[: round(shift.wrong * len(rows))]
        steps = generator.integers(1, len(dataset.classes), len(rows))
        y = np.array(y)
        y[rows] = (y[rows] + steps) % len(dataset.classes)
    return replace(dataset, x=x, y=y) if shift.noise or shift.swap or shift.wrong else dataset


def noise_levels(shift: ShiftSpec, names: Sequence[str], seed: int) -> dict[str, float]:
    """Level of the noise of each party by name: noise * i / N for the i-th of N in an order by lot, since names of
    hospitals follow countries and sizes.

    >>> noise_levels(ShiftSpec(noise=0.5), ["a", "b"], 0)
    {'a': 0.5, 'b': 0.25}
    """
    place = np.random.default_rng([seed, _ORDER]).permutation(len(names)) + 1
    return {name: float(shift.noise * at / len(names)) for name, at in zip(names, place, strict=True)}


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
        numbers, at = np.zeros(len(dataset.features), dtype=bool), 0
        for column in dataset.columns:
            numbers[at] = column.kind == "number"
            at += len(column.features)
        return np.where(numbers, np.nanstd(public, axis=0, dtype=np.float64), 0.0)
    if data.representation != "none" or not data.standardise:
        return np.full(len(dataset.features), public.std(dtype=np.float64))
    low, high = public.min(axis=0), public.max(axis=0)
    numbers = ((public != low) & (public != high)).any(axis=0)
    return np.where(numbers, public.std(axis=0, dtype=np.float64), 0.0)
