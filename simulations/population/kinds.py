"""The table of divisions: what `data.partition` says, and who does it; what is changed in the rows before and after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from consilium.protocol.errors import ConfigError, DataError, NotEnoughParties
from consilium.protocol.schema import ColumnEncoding
from consilium.simulations.datasets.base import Dataset, Source
from consilium.simulations.population.flower import flower_partition
from consilium.simulations.population.matched import matched_partition
from consilium.simulations.population.partition import (
    Partition,
    PublicPart,
    dirichlet_partition,
    iid_partition,
    natural_partition,
    private_rows,
    public_part,
    shuffled_partition,
    timed_partition,
)
from consilium.simulations.population.specs import DataSpec, Division, ShiftSpec, drawn_parties

_RARE = 0x72617265


def unbalanced(y: np.ndarray, ratio: float, seed: int) -> np.ndarray:
    """Classes made rarer than they are: a data set that is balanced by design becomes one that is not.

    In the Glyph data of Papernot et al. 2018 (section 4.1) some classes are five times as frequent as others, at
    parties as among the public rows.

    Which rows are left, bool (rows,). y: int64 (rows,) of the whole data set.

    In an order of the classes by lot, the first keeps all of its rows and the last 1 / `ratio` of them, those between
    in geometric steps; which rows, is drawn by lot.
    """
    classes = np.unique(y)
    generator = np.random.default_rng([seed, _RARE])
    shares = ratio ** -np.linspace(0, 1, max(len(classes), 2))[: len(classes)]
    left = np.zeros(len(y), dtype=bool)
    for label, share in zip(generator.permutation(classes), shares, strict=True):
        mine = generator.permutation(np.flatnonzero(y == label))
        left[mine[: round(share * len(mine))]] = True
    return left


@dataclass(frozen=True)
class ToDivide:
    """A data set, what a scenario says of its division, and what follows from these."""

    source: Source = field(repr=False)
    data: DataSpec
    minimum_parties: int
    seed: int

    @cached_property
    def public(self) -> PublicPart:
        """The same for every division."""
        return public_part(self.source, self.data.public_rule, self.data.owner_rows_needed, self.seed)

    @cached_property
    def private(self) -> np.ndarray:
        """Rows that parties may have, ascending."""
        rows = private_rows(self.source, self.public)
        return rows[self.left[rows]]

    @cached_property
    def left(self) -> np.ndarray:
        """Rows that the scenario leaves in the data set, bool (rows,)."""
        if self.data.unbalanced > 1:
            return unbalanced(self.source.y, self.data.unbalanced, self.seed)
        return np.ones(len(self.source.y), dtype=bool)

    @cached_property
    def natural(self) -> Partition:
        """By owner. Raises ConfigError where all rows have one."""
        if len(np.unique(self.source.owner)) == 1:
            raise ConfigError(
                f'data.partition is "{self.data.partition}", and all rows of {self.source.name} have one owner',
                'Name the column of hospitals or sites: data.owner; or divide by lot: partition = "iid" with parties',
            )
        return natural_partition(
            self.source,
            self.data.public_rule,
            self.data.owner_rows_needed,
            self.minimum_parties,
            self.seed,
            self.private,
        )

    @property
    def parties(self) -> int:
        """How many: what the scenario says, or as many as the natural division has."""
        return self.data.parties or len(self.natural.parties)

    @property
    def rows(self) -> np.ndarray:
        """Those that are dealt, ascending: all private ones; or where the number of parties is the natural division's,
        its rows, so that the two differ in who has which, and in nothing else."""
        if self.data.parties is not None:
            return self.private
        return np.sort(np.concatenate(list(self.natural.parties.values())))


def _iid(todo: ToDivide) -> Partition:
    whole = todo.data.partition == "groups"
    return iid_partition(todo.source, todo.public, todo.parties, todo.data.most_rows, todo.seed, whole, todo.rows)


def _dirichlet(todo: ToDivide) -> Partition:
    data = todo.data
    return dirichlet_partition(
        todo.source,
        todo.public,
        todo.parties,
        float(data.alpha or 0.0),
        data.sizes,
        data.most_rows,
        data.rows_needed,
        todo.seed,
        todo.rows,
    )


def _matched(todo: ToDivide) -> Partition:
    dealt = todo.natural
    if todo.data.parties is not None:
        dealt = iid_partition(todo.source, todo.public, todo.parties, None, todo.seed, rows=todo.private)
    return matched_partition(todo.source, todo.natural, dealt, todo.seed)


def _time(todo: ToDivide) -> Partition:
    return timed_partition(todo.source, todo.public, todo.parties, todo.data.most_rows, todo.rows, todo.seed)


DIVISIONS: dict[Division, Callable[[ToDivide], Partition]] = {
    "owners": lambda todo: todo.natural,
    "iid": _iid,
    "groups": _iid,
    "dirichlet": _dirichlet,
    "shuffled": lambda todo: shuffled_partition(todo.natural, todo.seed),
    "matched": _matched,
    "time": _time,
    "flwr": lambda todo: flower_partition(todo.source, todo.public, todo.data, todo.seed, todo.private),
}
"""By what `data.partition` says."""


def divided(source: Source, data: DataSpec, minimum_parties: int, seed: int) -> Partition:
    """Who is a party and has which rows, and what is public.

    Raises
    ------
    NotEnoughParties, DataError, ConfigError
    """
    todo = ToDivide(source, data, minimum_parties, seed)
    partition = DIVISIONS[data.partition](todo)
    if data.unbalanced > 1:
        queries, test = (rows[todo.left[rows]] for rows in (partition.queries, partition.test))
        if not len(queries) or not len(test):
            fault = f"{source.name}: data.unbalanced {data.unbalanced:g} leaves no public rows"
            raise DataError(fault, "Lower it, or make more rows public")
        partition = replace(partition, queries=queries, test=test)
    smallest = min((len(rows) for rows in partition.parties.values()), default=0)
    if len(partition.parties) < minimum_parties or smallest < data.rows_needed:
        left = f", {partition.left_out} have fewer" if partition.left_out else ""
        number = "data.partitioner" if data.partitioner else "data.parties"
        raise NotEnoughParties(
            f"{source.name}: {len(partition.parties)} parties with {smallest} rows or more{left}, at least"
            f" {minimum_parties} with {data.rows_needed} are required",
            f"Change {number}, federation.minimum_parties or data.least_rows",
        )
    return partition


_ORDER, _NOISE, _SWAP, _CLASSES, _WRONG = 0x6F72646572, 0x6E6F697365, 0x73776170, 0x636C617373, 0x77726F6E67
_LACKING = 0x6C61636B73


def shifted(data: DataSpec, dataset: Dataset, partition: Partition, seed: int) -> Dataset:
    """Rows with what is changed at parties: noise on features that grows from party to party, labels swapped or wrong,
    columns that they lack.

    Li et al. 2022 (Federated learning on non-IID data silos, "noise-based feature imbalance": party i of N gets
    Gaussian noise of level sigma * i / N). Swapped labels are concept shift: the same features mean another class.
    Public rows stay as they are, and nothing public depends on what is changed. Wrong labels are mistakes: of the Glyph
    data of Papernot et al. 2018 at least a tenth are (section 4.1).

    The data set with what `data.shift` changes; nothing outside the parties' rows does.

    Noise is in standard deviations of the public rows that are asked, and on features that are numbers. Of a table
    these are its columns of numbers; a missing value stays missing. Of arrays they are features of which the public
    rows have more than two values. Of images, which models see as they are, every pixel gets noise of one size: one
    that is always black has no deviation of its own.

    Raises
    ------
    ConfigError : there are no such classes or columns, or the share of parties is less than one party.
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
    if shift.lacking:
        x = x.copy()
        for name, columns in lacking_columns(shift, names, seed).items():
            places = _places(dataset, columns)
            x[np.ix_(partition.parties[name], places)] = np.nanmean(x[np.ix_(partition.queries, places)], axis=0)
    return replace(dataset, x=x, y=y) if x is not dataset.x or y is not dataset.y else dataset


def lacking_columns(shift: ShiftSpec, names: Sequence[str], seed: int) -> dict[str, tuple[str, ...]]:
    """The columns that each party lacks, by name; those that lack none are left out."""
    drawn = drawn_parties(shift.lacking, len(names), seed, _LACKING)
    return {names[index]: item.columns for index, item in sorted(drawn.items())}


def _places(dataset: Dataset, columns: Sequence[str]) -> np.ndarray:
    """Where the features of these columns are, int64. Raises ConfigError for a column that is none."""
    table = dataset.columns or tuple(ColumnEncoding(column=name, kind="number") for name in dataset.features)
    features = {column.column: column.features for column in table}
    if unknown := [name for name in columns if name not in features]:
        raise ConfigError(f"data.shift.lacking: there is no column {unknown[0]!r}", f"There are {', '.join(features)}")
    return np.array([dataset.features.index(name) for column in columns for name in features[column]])


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
        numbers, start = np.zeros(len(dataset.features), dtype=bool), 0
        for column in dataset.columns:
            numbers[start] = column.kind == "number"
            start += len(column.features)
        return np.where(numbers, np.nanstd(public, axis=0, dtype=np.float64), 0.0)
    if data.representation != "none" or not data.standardise:
        return np.full(len(dataset.features), public.std(dtype=np.float64))
    low, high = public.min(axis=0), public.max(axis=0)
    numbers = ((public != low) & (public != high)).any(axis=0)
    return np.where(numbers, public.std(axis=0, dtype=np.float64), 0.0)
