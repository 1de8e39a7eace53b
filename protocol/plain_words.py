"""What an (epsilon, delta) promise means, in the words that every node prints: how much likelier, and how sure.

Two versions of the data that differ in one unit give outputs P and Q with P(S) <= e^epsilon Q(S) + delta and the same
with both exchanged, for every set S of outputs. So an outcome becomes at most e^epsilon times as likely, plus
delta; and whoever is to say which version it was, each being as likely before, is right with probability at most
(e^epsilon + delta) / (1 + e^epsilon), however it is done (Kairouz, Oh, Viswanath 2015, theorem 2.1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal

ALWAYS = "always"
_BASES = (100, 1000, 10_000, 100_000, 1_000_000)
_LARGEST = math.log(1e6)
_UNITS: Mapping[str, str] = {
    "party": "a whole party (a hospital with all its records)",
    "record": "one record (a single case at one party)",
    "patient": "one patient (all records at one party)",
}
_CHANGES: Mapping[str, str] = {
    "replace": "Other data of {} make",
    "add_or_remove": "Whether {} is among the data makes",
}


def epsilon_text(epsilon: float) -> str:
    """Rounded up: a shorter epsilon must not promise more than the long one.

    >>> epsilon_text(0.97401), epsilon_text(0.5), epsilon_text(math.inf)
    ('0.975', '0.500', 'unbounded')
    """
    if math.isinf(epsilon):
        return "unbounded"
    return str(Decimal(repr(float(epsilon))).quantize(Decimal("0.001"), ROUND_CEILING))


def surest_guess(epsilon: float, delta: float) -> float:
    """Most often that anybody guesses right between two versions of the data, of which each is as likely before.

    >>> round(surest_guess(0.8, 1e-5), 4), surest_guess(0.0, 0.0), surest_guess(math.inf, 1e-5)
    (0.69, 0.5, 1.0)
    """
    wrong = math.exp(-epsilon) / (1 + math.exp(-epsilon))
    return 1 - wrong + delta * wrong


def out_of(share: float) -> str:
    """A share as cases, rounded up: what is said must not be less than what may be; and never all of them below 1.

    >>> out_of(0.68997), out_of(0.9933), out_of(0.5), out_of(1.0)
    ('69 in 100', '994 in 1,000', '50 in 100', 'always')
    """
    for base in _BASES:
        cases = math.ceil(round(share * base, 6))
        if cases < base:
            return f"{cases:,} in {base:,}"
    return ALWAYS


def rounded_up(factor: float) -> str:
    """A factor of at least 1, rounded up to three digits below 1,000 and to a whole number above.

    >>> rounded_up(7.389056), rounded_up(148.413), rounded_up(22026.5), rounded_up(math.inf)
    ('7.39', '148.5', '22,027', 'any number')
    """
    if math.isinf(factor):
        return "any number"
    if factor >= 1000:
        return f"{math.ceil(factor):,}"
    digits = 2 if factor < 10 else 1
    return f"{math.ceil(factor * 10**digits - 1e-9) / 10**digits:.{digits}f}"


def times_as_likely(epsilon: float) -> str:
    """e^epsilon, rounded up.

    >>> times_as_likely(2.0), times_as_likely(40.0), times_as_likely(math.inf)
    ('7.39 times', '10^18 times', 'any number of times')
    """
    if math.isinf(epsilon):
        return "any number of times"
    if epsilon > _LARGEST:
        return f"10^{math.ceil(epsilon / math.log(10))} times"
    return f"{rounded_up(math.exp(epsilon))} times"


def in_plain_words(
    epsilon: float, delta: float, unit: str, neighbouring: str = "replace", data_dependent: bool = False
) -> str:
    """A few sentences on a promise that holds whatever the votes are.

    Parameters
    ----------
    unit : "party", "record" or "patient". neighbouring : "replace" or "add_or_remove".
    data_dependent : a sanitised epsilon is published beside it when the federation closes.

    >>> print(in_plain_words(2.0, 1e-5, "record"))
    Other data of one record (a single case at one party) make no outcome more than 7.39 times as likely, plus a \
chance of 1e-05 (delta). Whoever knows all else, and guesses between two versions of it, is right in at most 89 in 100 \
cases; a coin is in 50 in 100.
    >>> print(in_plain_words(math.inf, 1e-5, "party"))
    This is not private: nothing limits what the release may tell about a whole party (a hospital with all its records).
    """
    whom = _UNITS[unit]
    if math.isinf(epsilon):
        return f"This is not private: nothing limits what the release may tell about {whom}."
    share = out_of(surest_guess(epsilon, delta))
    right = "may be right always" if share == ALWAYS else f"is right in at most {share} cases; a coin is in 50 in 100"
    estimate = (
        " A data-dependent epsilon is published at the end, with noise: an estimate of what was spent and no ceiling,"
        " whose own cost is in this promise."
    )
    return (
        f"{_CHANGES[neighbouring].format(whom)} no outcome more than {times_as_likely(epsilon)} as likely, plus a"
        f" chance of {delta:g} (delta). Whoever knows all else, and guesses between two versions of it, {right}."
        f"{estimate if data_dependent else ''}"
    )
