"""One audit: try all pairs on few runs, measure the worst on many, compare with the claim.

The outcome is told to people and to programs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rich.console import Console
from rich.table import Table

from consilium.accounting.units import Neighbouring, Unit, votes_moved
from consilium.coordinator.distinguish.game import Claims, PooledNoise, claims_of, codes_of, play
from consilium.coordinator.distinguish.pairs import Layout, Pair, candidates, lay_out
from consilium.coordinator.distinguish.regions import Claim, Measured, Region, choose, measure, statistics_of
from consilium.coordinator.mechanisms.base import Mechanism
from consilium.protocol.errors import ConfigError
from consilium.protocol.noise import NoiseSource
from consilium.report.words import many

MORE_DELTAS = (1e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5)
"""Where a claim that holds at every delta is tested besides the delta that is asked for."""

FINALISTS = 3
"""Pairs that are measured on the full number of runs."""


@dataclass(frozen=True)
class GameSetup:
    """How the game of an audit is played.

    queries : queries in one run. runs : runs under each of D and D', for each pair that is measured.
    confidence : of all bounds of the audit together, so 1 - confidence is how often a true claim is refuted.
    answered_cap : most answers in one run; None lets the audit choose. one_call : see `play`.
    """

    queries: int = 100
    runs: int = 20_000
    delta: float = 1e-5
    confidence: float = 0.999
    unit: Unit = Unit.RECORD
    neighbouring: Neighbouring = Neighbouring.REPLACE
    teachers_per_party: int = 1
    classes: int = 3
    answered_cap: int | None = None
    one_call: bool = False

    def __post_init__(self) -> None:
        limits = (
            ("queries", self.queries, self.queries >= 1, "at least 1"),
            ("runs", self.runs, self.runs >= 200, "at least 200"),
            ("delta", self.delta, 0 < self.delta < 1, "between 0 and 1"),
            ("confidence", self.confidence, 0.5 <= self.confidence < 1, "at least 0.5 and below 1"),
            ("teachers-per-party", self.teachers_per_party, self.teachers_per_party >= 1, "at least 1"),
            ("classes", self.classes, self.classes >= 2, "at least 2"),
            ("answered-cap", self.answered_cap, self.answered_cap is None or self.answered_cap >= 1, "at least 1"),
        )
        for name, value, fine, limit in limits:
            if not fine:
                raise ConfigError(f"{name} is {value}, it must be {limit}", f"Set --{name}.")

    @property
    def moved(self) -> int:
        """Votes that one unit moves in a query."""
        return votes_moved(self.unit, self.teachers_per_party, self.neighbouring)

    @property
    def scouting_runs(self) -> int:
        """Runs on which every pair is tried, to find the worst."""
        return max(400, self.runs // 10)


@dataclass(frozen=True)
class PairResult:
    """What one pair proves. at_delta : at the delta that was asked for. sharpest : where the claim looked weakest."""

    pair: str
    answered_cap: int
    at_delta: Measured
    sharpest: Measured | None

    @property
    def measured(self) -> tuple[Measured, ...]:
        """All bounds of this pair."""
        return (self.at_delta,) if self.sharpest is None else (self.at_delta, self.sharpest)


@dataclass(frozen=True)
class MechanismAudit:
    """The outcome of an audit. `tried`: pairs that were tried on few runs; `simulated`: noise came from a seed."""

    mechanism: str
    claim_source: str
    setup: GameSetup
    tried: int
    results: tuple[PairResult, ...]
    simulated: bool
    seconds: float

    @property
    def violated(self) -> bool:
        """Whether any lower bound exceeds what is claimed for it."""
        return any(measured.violated for result in self.results for measured in result.measured)

    @property
    def headline(self) -> tuple[PairResult, Measured]:
        """The bound that says most: the worst violation, else the highest lower bound at the delta asked for."""
        both = [(result, measured) for result in self.results for measured in result.measured]
        broken = [bound for bound in both if bound[1].violated]
        if broken:
            return max(broken, key=lambda bound: bound[1].lower - bound[1].claimed)
        return max(((result, result.at_delta) for result in self.results), key=lambda bound: bound[1].lower)


@dataclass(frozen=True)
class _Scout:
    """A pair, laid out, with its claim and what few runs promised (see `choose`)."""

    pair: Pair
    layout: Layout
    claim: Claim
    promise: tuple[float, float] = (0.0, 0.0)


def audit_mechanism(
    mechanism: Mechanism,
    noise: NoiseSource,
    setup: GameSetup | None = None,
    claims: Claims | None = None,
    pairs: Sequence[Pair] | None = None,
) -> MechanismAudit:
    """Play the distinguishing game against `mechanism` and bound its epsilon from below.

    claims : what is claimed; the worst case of the mechanism's own event if None (see `claims_of`).
    pairs : pairs to try instead of those made for the mechanism.

    Raises
    ------
    ConfigError : a pair moves more votes than the unit may, or there are no pairs for the mechanism.
    """
    start, setup = time.perf_counter(), setup or GameSetup()
    claims = claims or claims_of(mechanism, setup.unit, setup.neighbouring, setup.teachers_per_party)
    source = PooledNoise(noise)
    if pairs is None:
        pairs = candidates(mechanism, classes=setup.classes, moved=setup.moved, queries=setup.queries)
    scouts = [_scout(pair, setup, claims) for pair in _allowed(pairs, setup, claims)]
    few = setup.scouting_runs
    # As if it were the last pair on its own: this only ranks.
    scouts = [
        replace(pair, promise=_draw_and_choose(mechanism, pair, few, source, setup, claims, 1e-3)[1]) for pair in scouts
    ]
    finalists = _finalists(scouts)
    bounds = 2 * (2 if claims.every_delta else 1) * len(finalists)
    results = [_result(mechanism, pair, source, setup, claims, (1 - setup.confidence) / bounds) for pair in finalists]
    return MechanismAudit(
        mechanism=mechanism.describe(),
        claim_source=claims.source,
        setup=setup,
        tried=len(scouts),
        results=tuple(results),
        simulated=noise.simulated,
        seconds=time.perf_counter() - start,
    )


def _allowed(pairs: Sequence[Pair], setup: GameSetup, claims: Claims) -> list[Pair]:
    for pair in pairs:
        if pair.observed and pair.moved() >= 0 and len(pair.kinds) == setup.queries:
            continue
        if not 0 <= pair.moved() <= setup.moved:
            fault = f"pair {pair.name!r} moves {pair.moved()} votes, but a unit moves at most {setup.moved}"
            raise ConfigError(fault, "Use neighbours with the same number of teachers.")
    if setup.answered_cap is not None:
        return [replace(pair, answered_cap=setup.answered_cap) for pair in pairs if pair.answered_cap is None]
    # A single number is about the whole run; a run that stops early shows less and is claimed to cost as much.
    return [pair for pair in pairs if claims.every_delta or pair.answered_cap is None]


def _scout(chosen: Pair, setup: GameSetup, claims: Claims) -> _Scout:
    layout = lay_out(chosen, setup.queries)
    return _Scout(chosen, layout, partial(claims.epsilon, setup.queries, layout.answered_cap))


def _draw_and_choose(
    mechanism: Mechanism, scout: _Scout, runs: int, noise: NoiseSource, setup: GameSetup, claims: Claims, alpha: float
) -> tuple[list[Region], tuple[float, float]]:
    """Regions chosen on `runs` runs of each database: tables from one half, everything else from the other."""
    layout, half = scout.layout, runs // 2
    a, b = (
        play(mechanism, votes, layout, runs, noise, one_call=setup.one_call) for votes in (layout.d, layout.d_prime)
    )
    codes = codes_of(setup.classes, mechanism.count_sigma(1) > 0)
    fitted = [statistic.fitted(a[:half], b[:half]) for statistic in statistics_of(layout, codes)]
    more = MORE_DELTAS if claims.every_delta else ()
    return choose(fitted, a[half:], b[half:], scout.claim, setup.delta, more, alpha)


def _finalists(scouts: list[_Scout]) -> list[_Scout]:
    """The best at the delta asked for, then those that come closest to refuting the claim anywhere."""
    order = sorted(range(len(scouts)), key=lambda index: scouts[index].promise[1], reverse=True)
    best = max(range(len(scouts)), key=lambda index: scouts[index].promise[0])
    return [scouts[index] for index in list(dict.fromkeys([best, *order]))[:FINALISTS]]


def _result(
    mechanism: Mechanism, scout: _Scout, noise: NoiseSource, setup: GameSetup, claims: Claims, alpha: float
) -> PairResult:
    half = setup.runs // 2
    regions, _ = _draw_and_choose(mechanism, scout, half, noise, setup, claims, alpha)
    layout = scout.layout
    a, b = (
        play(mechanism, votes, layout, setup.runs - half, noise, one_call=setup.one_call)
        for votes in (layout.d, layout.d_prime)
    )
    measured = [measure(region, a, b, scout.claim, alpha) for region in regions]
    return PairResult(scout.pair.name, layout.answered_cap, measured[0], measured[1] if len(measured) > 1 else None)


def _number(value: float) -> str:
    return "none" if math.isinf(value) else f"{value:.4f}"


def _unit(audit: MechanismAudit) -> str:
    setup = audit.setup
    k, moved = setup.teachers_per_party, setup.moved
    done = "replaced" if setup.neighbouring is Neighbouring.REPLACE else "added or removed"
    votes = f"{moved} vote{'s move' if moved > 1 else ' moves'}"
    return f"a {setup.unit}, {done} ({k} teacher{'s' if k > 1 else ''} in a party; {votes})"


def verdict(audit: MechanismAudit) -> str:
    """One sentence that says what was and what was not shown."""
    result, headline = audit.headline
    sure = f"confidence {audit.setup.confidence:g}"
    if audit.violated:
        return (
            f"VIOLATED: epsilon is at least {headline.lower:.4f} at delta {headline.delta:g} ({sure}), "
            f"but {headline.claimed:.4f} is claimed. Votes: {result.pair}."
        )
    if math.isinf(headline.claimed):
        return f"No epsilon is claimed at delta {headline.delta:g}; it is at least {headline.lower:.4f} ({sure})."
    return (
        f"Holds up: epsilon is at least {headline.lower:.4f} at delta {headline.delta:g} ({sure}), within the "
        f"{headline.claimed:.4f} claimed. That is no proof that the claim is true."
    )


def print_audit(audit: MechanismAudit, console: Console, noise: str) -> None:
    """The table of pairs, how it was played and with which noise, and the verdict."""
    setup = audit.setup
    console.print(f"{audit.mechanism}. Unit: {_unit(audit)}. Claim: {audit.claim_source}.")
    table = Table("pair of neighbouring votes", "answers", "delta", "claimed", "at least", "seen by", "", box=None)
    for result in audit.results:
        for index, measured in enumerate(result.measured):
            name, cap = (result.pair, str(result.answered_cap)) if index == 0 else ("", "")
            word = "VIOLATED" if measured.violated else "no claim" if math.isinf(measured.claimed) else "holds up"
            row = (f"{measured.delta:g}", _number(measured.claimed), f"{measured.lower:.4f}", measured.statistic, word)
            table.add_row(name, cap, *row)
    console.print(table)
    console.print(
        f"{many(setup.queries, 'query')} a run; {many(audit.tried, 'pair')} tried on {setup.scouting_runs} runs of each"
        f" side, the worst {len(audit.results)} measured on {setup.runs}; {noise}; {audit.seconds:.1f} s."
    )
    console.print(f"A true claim is refuted with probability at most {1 - setup.confidence:.2g}.")
    console.print(verdict(audit))


def audit_to_json(audit: MechanismAudit, noise: str) -> dict[str, Any]:
    """The same as plain values; null where nothing is claimed."""
    setup = audit.setup
    _, headline = audit.headline
    return {
        "mechanism": audit.mechanism,
        "claim_source": audit.claim_source,
        "violated": audit.violated,
        "verdict": verdict(audit),
        "epsilon_at_least": headline.lower,
        "epsilon_claimed": _finite(headline.claimed),
        "delta": headline.delta,
        "confidence": setup.confidence,
        "false_alarm_rate_at_most": round(1 - setup.confidence, 12),
        "unit": setup.unit.value,
        "neighbouring": setup.neighbouring.value,
        "teachers_per_party": setup.teachers_per_party,
        "queries": setup.queries,
        "runs": setup.runs,
        "noise": noise,
        "simulated_noise": audit.simulated,
        "pairs_tried": audit.tried,
        "pairs": [
            {
                "pair": result.pair,
                "answered_cap": result.answered_cap,
                "bounds": [_bound(measured) for measured in result.measured],
            }
            for result in audit.results
        ],
        "seconds": audit.seconds,
    }


def _bound(measured: Measured) -> dict[str, Any]:
    return {
        "delta": measured.delta,
        "epsilon_claimed": _finite(measured.claimed),
        "epsilon_at_least": measured.lower,
        "statistic": measured.statistic,
        "violated": measured.violated,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
