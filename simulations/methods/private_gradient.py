"""The rival that needs no teachers: logistic regression by gradient descent, in rounds of noisy sums of gradients over
all parties.

In each round every unit (a record, a patient's rows at a party, a party) has the mean gradient of its rows' log loss,
clipped to Euclidean norm C; the sum over all parties gets one Gaussian noise of deviation z C (Abadi et al. 2016, arXiv
1607.00133, without sampling: all rows are in every round): see `StatedGuarantee.noise_multiplier`.

The sum is divided by the number n of units, which decides how long a step is. Where units are added or removed n is no
secret of theirs alone: a step is chosen at no charge anyhow, as rounds and C are, on the pool's true labels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field
from scipy.special import expit

from consilium.accounting.units import Unit
from consilium.models.evaluation import leading_metric, row_scores
from consilium.protocol.errors import ConfigError
from consilium.simulations.divide import Case
from consilium.simulations.methods.base import Predicted, PromisedMethod, StatedGuarantee, linear_probabilities
from consilium.simulations.methods.noisy_average import LinearDraws, calibrated
from consilium.simulations.vote import Ensemble

ROUNDS = (10, 30)
CLIPS = (0.1, 1.0)
"""What C may be. Inputs are standardised: at the first every gradient but a sure row's is shortened to C."""
STEPS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""By how much a round may move the model, where all gradients are as long as C and agree."""
_DRAWS = 20
_TRIED = 6  # draws of the noise by which each setting is tried
_MANY = 5_000_000
"""Rows times inputs times classes from which on half as many draws are made, of these and of the result."""
_MOST_CHOOSE = 2000  # rows of the pool that choose, by lot, where there are more
MOST_NUMBERS = 30_000_000  # rows times inputs times classes: of so many, all rounds of all trials take a minute
_AT_ONCE = 1_000_000
_PURPOSE = 0x6772616469656E74


class Setting(NamedTuple):
    """clip: C. step: by how much a round may move the model."""

    clip: float
    step: float


@dataclass(frozen=True)
class UnitRows:
    """Rows side by side that belong to one unit. x: float (rows, inputs + 1), the last of them 1. wanted: float
    (rows, classes), 1 for the class of a row. sizes: rows of each unit, int64 (units,), from large to small."""

    x: np.ndarray = field(repr=False)
    wanted: np.ndarray = field(repr=False)
    sizes: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, units: np.ndarray, classes: int, exact: bool = False) -> UnitRows:
        """Of inputs float (rows, inputs), classes int64 (rows,), and the unit of each row, int64 (rows,). exact: to the
        last digits of float64, which takes twice the time."""
        _, place, counts = np.unique(units, return_inverse=True, return_counts=True)
        order, kind = np.lexsort((place, -counts[place])), np.float64 if exact else np.float32
        rows = np.concatenate([x.astype(kind), np.ones((len(x), 1), dtype=kind)], axis=1)[order]
        return cls(rows, np.eye(classes, dtype=kind)[y[order]], -np.sort(-counts))

    def clipped_sum(self, models: np.ndarray, clips: np.ndarray) -> np.ndarray:
        """Sum over the units of their mean gradients, each clipped, at each of the models float64 (models, inputs + 1,
        classes); clips: of each, float (models,)."""
        two = models.shape[2] == 2  # then one gradient is minus the other, and the shares need no softmax
        columns = (np.diff(models, axis=2) if two else models).transpose(1, 2, 0)  # many models last: sums over a few
        width, classes, count = columns.shape  # classes are quick then
        flat = columns.reshape(width, -1).astype(self.x.dtype)
        total, longer = np.zeros((width * classes, count)), math.sqrt(2) if two else 1.0
        for rows, size in self._blocks(count * classes):
            x = self.x[rows]
            error = (x @ flat).reshape(len(x), classes, count)
            if two:
                error = expit(error)
            else:
                error -= error.max(axis=1, keepdims=True)
                np.exp(error, out=error)
                error /= error.sum(axis=1, keepdims=True)
            error -= self.wanted[rows, -classes:, None]
            if size == 1:  # a gradient of one row is an outer product: its norm is that of the factors
                lengths = longer * np.linalg.norm(error, axis=1) * np.linalg.norm(x, axis=1)[:, None]
                error *= _shortening(lengths, clips)[:, None]
                total += (x.T @ error.reshape(len(x), -1)).reshape(total.shape)
                continue
            of_unit = error.reshape(-1, size, classes * count) / self.x.dtype.type(size)
            gradients = (x.reshape(-1, size, width).swapaxes(1, 2) @ of_unit).reshape(-1, width * classes, count)
            lengths = longer * np.sqrt(np.einsum("ugm,ugm->um", gradients, gradients))
            total += np.einsum("ugm,um->gm", gradients, _shortening(lengths, clips))
        sums = total.reshape(width, classes, count).transpose(2, 0, 1)
        return np.concatenate([-sums, sums], axis=2) if two else sums

    def _blocks(self, columns: int) -> Iterator[tuple[slice, int]]:
        first, width = 0, self.x.shape[1]
        for size in sorted(set(self.sizes.tolist()), reverse=True):
            last = first + size * int((self.sizes == size).sum())
            one = size * (width + columns) + (width * columns if size > 1 else 0)
            step = size * max(1, _AT_ONCE // one)
            for start in range(first, last, step):
                yield slice(start, min(start + step, last)), size
            first = last


def _shortening(lengths: np.ndarray, clips: np.ndarray) -> np.ndarray:
    return np.minimum(1.0, clips / np.maximum(lengths, 1e-30)).astype(lengths.dtype)


Noisy = Callable[[np.ndarray], np.ndarray]
"""Sums over the units in units of C, float64 (settings, inputs + 1, classes) -> the same with noise."""


def seeded(noise: float, seed: Sequence[int]) -> Noisy:
    """noise: z, or 0 for none. Whoever knows the seed can remove it."""
    generator = np.random.default_rng(seed)
    return lambda total: total + noise * generator.standard_normal(total.shape)


def descend(
    rows: UnitRows, start: np.ndarray, settings: Sequence[Setting], rounds: int, noisy: Noisy, units: int | None = None
) -> np.ndarray:
    """The model float64 (settings, inputs + 1, classes) after so many rounds from `start`, by each setting. units: n,
    which each sum is divided by; None: as many as `rows` has."""
    models, units = np.tile(start, (len(settings), 1, 1)), units or len(rows.sizes)
    clips, steps = np.array([setting.clip for setting in settings]), np.array([setting.step for setting in settings])
    for _ in range(rounds):
        total = noisy(rows.clipped_sum(models, clips) / clips[:, None, None])
        models = models - steps[:, None, None] / units * total
    return models


def unit_of_rows(case: Case, unit: Unit) -> np.ndarray:
    """Of each row that a party trains on, party after party, its unit: int64 (rows,). Raises ConfigError: see
    `patient_of_rows`."""
    parties = [case.partition.parties[party] for party in case.parties]
    party = np.repeat(np.arange(len(parties)), [len(rows) for rows in parties])
    if unit is Unit.PARTY:
        return party
    if unit is Unit.RECORD:
        return np.arange(len(party))
    patient = patient_of_rows(case)[np.concatenate(parties)]
    return np.unique(np.stack([party, patient]), axis=1, return_inverse=True)[1].ravel()


def patient_of_rows(case: Case) -> np.ndarray:
    """Of every row of the data set, int64 (rows,). Raises ConfigError: nobody knows, as parties then refuse a run."""
    if case.patient is None:
        raise ConfigError(
            "federation.privacy.unit is patient, and nobody says which rows are of one",
            "Name their column as data.patient, or choose the unit record or party",
        )
    return case.patient


def rows_of(case: Case, unit: Unit, exact: bool = False) -> UnitRows:
    """What all parties train on."""
    parts = [case.train_rows(party) for party in case.parties]
    x, y = case.config.rows.inputs(np.concatenate([x for x, _ in parts])), np.concatenate([y for _, y in parts])
    return UnitRows.of(x, y, unit_of_rows(case, unit), len(case.classes), exact)


def choosing_rows(case: Case) -> np.ndarray:
    """Rows of the pool whose labels choose, int64, ascending."""
    return np.sort(np.random.default_rng([case.seed, _PURPOSE]).permutation(len(case.pool_y))[:_MOST_CHOOSE])


class PrivateGradient(PromisedMethod):
    """Gradient descent of this module, in the federation's unit. What is left out is chosen on the pool's true labels,
    at no charge, which speaks for the rival; so are each draw's factor and intercept (`noisy_average.calibrated`).
    figures: epsilon, delta, units, rounds, clip, step, noise_multiplier."""

    needs_ensemble: ClassVar[bool] = False

    name: Literal["private_gradient"] = "private_gradient"
    rounds: int | None = Field(default=None, ge=1, le=10_000, description="left out: 10, or 30 where that is better")
    clip: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="longest gradient of a unit (Euclidean)"
    )
    step: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="by how much a round may move the model (Euclidean)"
    )

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        """Absent where `descent` says why."""
        descent = self.descent(case)
        return Predicted(absent=descent) if isinstance(descent, str) else descent.predicted(case)

    def descent(self, case: Case) -> LinearDraws | str:
        """The models; or why there are none: nothing finite is promised, or it takes more than `MOST_NUMBERS`."""
        promise, schema = self.guarantee(case), case.config.rows
        if promise is None or promise.epsilon <= 0:
            return "the run promises no epsilon that private gradient descent could keep"
        chosen = choosing_rows(case)
        pool_x, pool_y = schema.inputs(case.pool_x[chosen]), case.pool_y[chosen]
        numbers = sum(map(len, case.partition.parties.values())) * pool_x.shape[1] * len(case.classes)
        if numbers > MOST_NUMBERS:
            return f"rows x inputs x classes are {numbers:,}, above the {MOST_NUMBERS:,} it is run on"
        rows = rows_of(case, promise.unit)
        fewer = 1 if numbers < _MANY else 2
        search = Search(rows, pool_x, pool_y, promise, case.seed, _TRIED // fewer)
        rounds, setting = self.chosen(search)
        drawn = search.models(rounds, [setting] * (_DRAWS // fewer), 1)
        models = [calibrated(model[:-1], pool_x, pool_y) for model in drawn]
        figures = {"epsilon": promise.epsilon, "delta": promise.delta, "units": float(len(rows.sizes))}
        figures |= {"rounds": float(rounds), "noise_multiplier": promise.noise_multiplier(rounds)}
        return LinearDraws(models, figures | setting._asdict())

    def chosen(self, search: Search) -> tuple[int, Setting]:
        """Norm and step at the first number of rounds, then whether more rounds of such a step, or a third, do more."""
        clips = CLIPS if self.clip is None else (self.clip,)
        steps = STEPS if self.step is None else (self.step,)
        few, *more = ROUNDS if self.rounds is None else (self.rounds,)
        settings = [Setting(*pair) for pair in itertools.product(clips, steps)]
        most, best = search.best(few, settings)
        rounds = few
        for count in more:
            shorter = [best.step] if self.step is not None else [best.step, best.step / 3]
            reached, setting = search.best(count, [Setting(best.clip, step) for step in shorter])
            if reached > most:
                most, rounds, best = reached, count, setting
        return rounds, best


@dataclass(frozen=True)
class Search:
    """rows: of all parties. pool_x, pool_y: public rows by which a setting is chosen. tried: draws of the noise that
    choose it. louder: times which the noise is taken, where `rows` are fewer than those that are meant."""

    rows: UnitRows
    pool_x: np.ndarray = field(repr=False)
    pool_y: np.ndarray = field(repr=False)
    promise: StatedGuarantee
    seed: int
    tried: int = _TRIED
    louder: float = 1.0

    def models(self, rounds: int, settings: Sequence[Setting], purpose: int) -> np.ndarray:
        """See `descend`, from `start`. purpose: of the noise."""
        noise = self.louder * self.promise.noise_multiplier(rounds)
        noisy = seeded(noise, [self.seed, _PURPOSE, purpose])
        return descend(self.rows, self.start, settings, rounds, noisy)

    @property
    def start(self) -> np.ndarray:
        """No weights, and the pool's shares of the classes: float64 (inputs + 1, classes)."""
        classes = self.rows.wanted.shape[1]
        start = np.zeros((self.rows.x.shape[1], classes))
        start[-1] = np.log((np.bincount(self.pool_y, minlength=classes) + 1) / (len(self.pool_y) + classes))
        return start

    def best(self, rounds: int, settings: Sequence[Setting]) -> tuple[float, Setting]:
        """What the first of the best settings reaches on the pool in the mean over draws, and which it is."""
        metric = leading_metric(self.pool_y, self.rows.wanted.shape[1])
        models = self.models(rounds, [setting for setting in settings for _ in range(self.tried)], 0)
        reached = [row_scores(linear_probabilities(self.pool_x, model), self.pool_y, metric).mean() for model in models]
        means = np.array(reached).reshape(-1, self.tried).mean(axis=1)
        place = int(np.argmax(np.where(np.isfinite(means), means, -math.inf)))
        return float(means[place]), settings[place]
