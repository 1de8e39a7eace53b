"""The game that an audit plays: many runs of a mechanism under D and under D', seen as an outsider sees them.

What is claimed for a mechanism comes from its own events, from its paper, or from the user.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Protocol

import numpy as np
from pydantic import ValidationError

from consilium.accounting.accountant import Accountant
from consilium.accounting.errors import DeltaError
from consilium.accounting.guarantee import Kind
from consilium.accounting.units import Neighbouring, Towards, Unit
from consilium.coordinator.distinguish.pairs import Layout
from consilium.coordinator.mechanisms import ALL_MECHANISMS
from consilium.coordinator.mechanisms.base import Drawn, Mechanism
from consilium.protocol.config_files import faults_of
from consilium.protocol.errors import ConfigError
from consilium.protocol.label_source import NO_LABEL
from consilium.protocol.noise import NoiseSource

_BLOCK = 1 << 16
_NUMBERS = 1 << 21


class PooledNoise:
    """Noise of another source, fetched in blocks and handed out number by number, each once.

    A run asks for little noise at a time, and there are many runs: a sampler that is set up for each call would be most
    of the cost. The numbers are independent, so handing them out in slices changes nothing.
    """

    def __init__(self, source: NoiseSource) -> None:
        self.simulated = source.simulated
        self._source = source
        self._pools: dict[tuple[str, float], np.ndarray] = {}

    def __repr__(self) -> str:
        return f"PooledNoise({self._source!r})"

    def _take(self, kind: str, scale: float, shape: tuple[int, ...]) -> np.ndarray:
        count = math.prod(shape)
        draw = getattr(self._source, kind)
        if count > _BLOCK:
            return draw(scale, shape)
        pool = self._pools.get((kind, scale))
        if pool is None or len(pool) < count:
            pool = draw(scale, (_BLOCK,))
        self._pools[kind, scale] = pool[count:]
        return pool[:count].reshape(shape)

    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        """See `NoiseSource.gaussian`."""
        return self._take("gaussian", sigma, shape)

    def laplace(self, gamma: float, shape: tuple[int, ...]) -> np.ndarray:
        """See `NoiseSource.laplace`."""
        return self._take("laplace", gamma, shape)


BINS = 24
"""Outcomes that a released histogram is sorted into."""
REACH = 2.5
"""Standard deviations around the middle of D and D' that they cover evenly; the two at the ends have the rest."""


def codes_of(classes: int, counts: bool = False) -> int:
    """Number of outcomes: none, a label, a label of the student's own, and "not asked any more".

    counts : histograms are released, and an outcome is none, where the histogram lies, or "not asked any more".
    """
    return BINS + 2 if counts else 2 * classes + 2


def _coded(drawn: Drawn, classes: int, middle: np.ndarray, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """`middle` float64 (queries,): between D and D', of the difference of the first two counts, where votes move."""
    if drawn.counts is None:
        outcomes = np.where(drawn.labels == NO_LABEL, 0, 1 + drawn.labels + classes * drawn.reinforced)
    else:  # Gaussian noise of one width: the difference is all that tells D from D'
        away = (drawn.counts[:, 0] - drawn.counts[:, 1] - middle) / (math.sqrt(2) * sigma)
        outcomes = 1 + np.clip(np.floor((away / REACH + 1) / 2 * BINS), 0, BINS - 1)
    return outcomes.astype(np.int16), drawn.answered


def play(
    mechanism: Mechanism, votes: np.ndarray, layout: Layout, runs: int, noise: NoiseSource, *, one_call: bool = False
) -> np.ndarray:
    """Outcomes of `runs` runs on `votes` int64 (queries, classes): int16 (runs, queries), numbers below `codes_of`.

    Every run starts from a fresh copy of the mechanism, so runs are independent whatever it keeps within one. After
    the answer that uses up the cap, all further outcomes of a run are "not asked any more": a coordinator refuses them.

    one_call : draw many runs in one call of the mechanism. Much faster, and only right for mechanisms whose queries are
        known to be independent within a call; noise that is reused there would be shared by those runs.
    """
    queries, classes = votes.shape
    probabilities = layout.probabilities
    between = (layout.d + layout.d_prime) / 2
    middle, sigma = between[:, 0] - between[:, 1], mechanism.count_sigma(1)
    outcomes, answered = np.empty((runs, queries), dtype=np.int16), np.empty((runs, queries), dtype=bool)
    if one_call:
        most = max(1, _NUMBERS // votes.size)
        for start in range(0, runs, most):
            part = slice(start, min(start + most, runs))
            times = (part.stop - start, 1)
            scores = None if probabilities is None else np.tile(probabilities, times)
            drawn = mechanism.draw(np.tile(votes, times), noise, scores)
            coded = _coded(drawn, classes, np.tile(middle, times[0]), sigma)
            outcomes[part], answered[part] = (codes.reshape(-1, queries) for codes in coded)
    else:
        for run in range(runs):
            fresh = copy.deepcopy(mechanism)
            for call in layout.calls:
                scores = None if probabilities is None else probabilities[call]
                outcomes[run, call], answered[run, call] = _coded(
                    fresh.draw(votes[call], noise, scores), classes, middle[call], sigma
                )
    if layout.answered_cap < queries:
        before = answered.cumsum(axis=1) - answered
        outcomes[before >= layout.answered_cap] = codes_of(classes, sigma > 0) - 1
    return outcomes


class Claims(Protocol):
    """Epsilon for a run of `asked` queries of which at most `answered` get a label, at any delta."""

    @property
    def source(self) -> str:
        """Who claims it, in words."""
        ...

    @property
    def every_delta(self) -> bool:
        """Whether an epsilon is claimed at every delta, or at one alone."""
        ...

    def epsilon(self, queries: int, answered: int, delta: float) -> float:
        """The claim; inf where nothing is claimed."""
        ...


class EventClaims:
    """The worst case that the accountant states for the mechanism's own event, towards whoever gets what is released.

    An audit sees what leaves, not what a coordinator sees whom the parties send noisy histograms.
    """

    every_delta = True

    def __init__(self, mechanism: Mechanism, unit: Unit, neighbouring: Neighbouring, teachers_per_party: int) -> None:
        self.source = "worst case of its own event"
        self._mechanism = mechanism
        self._unit = unit
        self._neighbouring = neighbouring
        self._teachers_per_party = teachers_per_party
        self._accountant = lru_cache(maxsize=32)(self._charged)

    def _charged(self, queries: int, answered: int) -> Accountant:
        event = self._mechanism.event(
            asked=queries,
            answered=answered,
            unit=self._unit,
            neighbouring=self._neighbouring,
            teachers_per_party=self._teachers_per_party,
        )
        accountant = Accountant()
        labels_alone = self._mechanism.count_sigma(1) == 0
        accountant.commit(replace(event, towards=Towards.STUDENT) if labels_alone else event)
        return accountant

    def epsilon(self, queries: int, answered: int, delta: float) -> float:
        """See `Claims.epsilon`. A delta that the event alone uses up has no claim."""
        try:
            return self._accountant(queries, answered).guarantee(delta, Kind.WORST_CASE).epsilon
        except DeltaError:
            return math.inf


class PaperClaims:
    """What the near-zero-cost paper states for its mechanism, in section 4.2. It is not a guarantee."""

    every_delta = True

    def __init__(self, mechanism: Mechanism) -> None:
        self.source = "near-zero-cost paper, section 4.2"
        self._mechanism = mechanism

    def epsilon(self, queries: int, answered: int, delta: float) -> float:
        """See `Claims.epsilon`."""
        claimed = self._mechanism.claimed_epsilon(queries, delta)
        return math.inf if claimed is None else claimed


class UserClaims:
    """One number at one delta, for the whole run."""

    every_delta = False

    def __init__(self, epsilon: float, delta: float) -> None:
        self.source = "given by the user"
        self._epsilon = epsilon
        self._delta = delta

    def epsilon(self, queries: int, answered: int, delta: float) -> float:
        """See `Claims.epsilon`."""
        return self._epsilon if delta >= self._delta else math.inf


def claims_of(mechanism: Mechanism, unit: Unit, neighbouring: Neighbouring, teachers_per_party: int) -> Claims:
    """The claim that goes with a mechanism when nobody names another."""
    if not mechanism.private:
        return PaperClaims(mechanism)
    return EventClaims(mechanism, unit, neighbouring, teachers_per_party)


def build_mechanism(name: str, settings: Sequence[str]) -> Mechanism:
    """The mechanism `name` with its parameters.

    Raises
    ------
    ConfigError : no such mechanism, a setting that is not key=value, or a parameter that is unknown, missing or wrong.

    >>> build_mechanism("gnmax", ["sigma=40"]).describe()
    'GNMax, sigma 40'
    """
    known = {str(kind.model_fields["name"].default): kind for kind in ALL_MECHANISMS}
    if name not in known:
        raise ConfigError(f"there is no mechanism {name!r}", f"Choose one of {', '.join(sorted(known))}.")
    values: dict[str, object] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {setting!r} is not key=value", "Write for example --set sigma=40.")
        if key in values or key == "name":
            raise ConfigError(f"--set {key} is given twice", "Give every parameter once.")
        values[key] = _value(text)
    try:
        return known[name].model_validate(values)
    except ValidationError as error:
        fields = known[name].model_fields
        wanted = ", ".join(key for key in fields if key != "name")
        problems = "; ".join(faults_of(error, known[name], values))
        raise ConfigError(f"mechanism {name}: {problems}", f"Its parameters are {wanted}.") from None


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text
