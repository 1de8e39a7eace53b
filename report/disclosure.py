"""What a federation discloses, to whom, who is not protected, what a guarantee means: one typed value, and its words. A
mechanism says its `ReleaseKind`, and whether the noise is in the sums (`protocol.releases`); how votes are collected
says what the coordinator sees. Reports, cards, the command line and the pages take their words from here, or are
checked against them (`tests/test_what_leaves.py`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum
from typing import Literal, NamedTuple

from consilium.protocol.messages import CollectionMode
from consilium.protocol.releases import ReleaseKind

ALWAYS = "always"
SEEDED = "The noise came from a seed, so that the run can be repeated: this protects nobody."
UNITS: Mapping[str, str] = {
    "party": "a whole party (a hospital with all its records)",
    "record": "one record (a single case at one party)",
    "patient": "one patient (all records at one party)",
}


_CHANGES: Mapping[str, tuple[str, str, str]] = {
    "replace": ("Other data of {} make", "between two versions of it", ""),
    "add_or_remove": (
        "Adding or removing {} makes",
        "whether it is there",
        " Between two versions of it, up to twice this epsilon may be learnt.",
    ),
}
"""Relations in words: what makes no outcome likelier, between what is guessed, and what is not covered."""


def epsilon_text(epsilon: float) -> str:
    """Rounded up: a shorter epsilon must not promise more than the long one.

    >>> epsilon_text(0.97401), epsilon_text(0.5), epsilon_text(math.inf)
    ('0.975', '0.500', 'unbounded')
    """
    if math.isinf(epsilon):
        return "unbounded"
    return str(Decimal(repr(float(epsilon))).quantize(Decimal("0.001"), ROUND_CEILING))


def surest_guess(epsilon: float, delta: float) -> float:
    """Most often that anybody guesses right between two versions of the data, of which each is as likely before:
    (e^epsilon + delta) / (1 + e^epsilon) (Kairouz, Oh, Viswanath 2015, theorem 2.1).

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
    for base in (10**digits for digits in range(2, 7)):
        cases = math.ceil(round(share * base, 6))
        if cases < base:
            return f"{cases:,} in {base:,}"
    return ALWAYS


def times_as_likely(epsilon: float) -> str:
    """e^epsilon, rounded up: to three digits below 1,000, to a whole number below a million.

    >>> times_as_likely(2.0), times_as_likely(5.0), times_as_likely(40.0), times_as_likely(math.inf)
    ('7.39 times', '148.5 times', '10^18 times', 'any number of times')
    """
    if math.isinf(epsilon):
        return "any number of times"
    if epsilon > math.log(1e6):
        return f"10^{math.ceil(epsilon / math.log(10))} times"
    factor = math.exp(epsilon)
    digits = 2 if factor < 10 else 1 if factor < 1000 else 0
    return f"{math.ceil(factor * 10**digits - 1e-9) / 10**digits:,.{digits}f} times"


def in_plain_words(
    epsilon: float, delta: float, unit: str, neighbouring: str = "replace", data_dependent: bool = False
) -> str:
    """A few sentences on a promise that holds whatever the votes are.

    unit: one of `UNITS`. neighbouring: "replace" or "add_or_remove". data_dependent: a sanitised epsilon is published
    beside it when the federation closes.

    >>> print(in_plain_words(2.0, 1e-5, "record"))
    Other data of one record (a single case at one party) make no outcome more than 7.39 times as likely, plus a \
chance of 1e-05 (delta). Whoever knows all else, and guesses between two versions of it, is right in at most 89 in 100 \
cases; a coin is in 50 in 100.
    >>> print(in_plain_words(math.inf, 1e-5, "party"))
    This is not private: nothing limits what the release may tell about a whole party (a hospital with all its records).
    """
    whom = UNITS[unit]
    if math.isinf(epsilon):
        return f"This is not private: nothing limits what the release may tell about {whom}."
    makes, versions, beyond = _CHANGES[neighbouring]
    share = out_of(surest_guess(epsilon, delta))
    right = "may be right always" if share == ALWAYS else f"is right in at most {share} cases; a coin is in 50 in 100"
    text = (
        f"{makes.format(whom)} no outcome more than {times_as_likely(epsilon)} as likely, plus a chance of"
        f" {delta:g} (delta). Whoever knows all else, and guesses {versions}, {right}.{beyond}"
    )
    if not data_dependent:
        return text
    return (
        f"{text} A data-dependent epsilon is published at the end, with noise: an estimate of what was spent and no"
        " ceiling, whose own cost is in this promise."
    )


IN_A_SENTENCE = (
    "Private knowledge transfer: teachers of many data holders vote, noisy counts of the votes or noisy winners are"
    " released and accounted, a student learns from them."
)
"""The whole method, as the package, the command and the first pages say it."""


class Bound(StrEnum):
    """Which of the promised epsilons holds towards somebody. The nodes' counts only noise that they do not know; the
    larger is for whoever sees what is released and knows a part of the noise."""

    STUDENT = "the student's"
    NODES = "the nodes'"
    LARGER = "the larger"
    TRUSTED = "none"


class Audience(NamedTuple):
    """Somebody, and what they see. bound: whose epsilon holds towards them."""

    who: str
    sees: str
    bound: Bound


class People(NamedTuple):
    """Some people, and whether the promise is about their rows."""

    who: str
    protected: Literal["yes", "no", "in part"]
    why: str


@dataclass(frozen=True)
class Disclosure:
    """What is disclosed to whom. release: to the student. collection: of the votes.

    >>> Disclosure(ReleaseKind.WINNER, "secure").towards_coordinator
    'noisy sums of the votes'
    """

    release: ReleaseKind
    collection: CollectionMode

    @property
    def noise_in_sums(self) -> bool:
        """Whether nobody sees votes, and what the nodes see, noisy sums, has an epsilon of its own."""
        return self.collection != "plaintext"

    @property
    def towards_coordinator(self) -> str:
        return "noisy sums of the votes" if self.noise_in_sums else "each party's votes, without noise"

    def audiences(self, party: str = "party", parties: str = "parties") -> tuple[Audience, ...]:
        """Who sees what. party, parties: what one, and several, are called."""
        released, votes = f"the released {self.release.noun}s", self.towards_coordinator.replace("party", party)
        of_parties = Bound.LARGER if self.collection == "secure" else Bound.STUDENT  # each knows a part of the noise
        asked = "which public rows are asked, and what the public sees"
        if self.collection == "secure":
            asked = "which public rows are asked, what the public sees, and their own part of the noise"
        rows = [
            Audience("the student", released, Bound.STUDENT),
            Audience("the public, which has the model", f"what is made of {released}, or these", Bound.STUDENT),
            Audience(f"the other {parties}", asked, of_parties),
            Audience("the coordinator", votes, Bound.NODES if self.noise_in_sums else Bound.TRUSTED),
        ]
        if self.collection == "verified":
            shares = (
                "shares of the votes that are random numbers by themselves, unless it works together with the"
                " coordinator, and who was left out for a false vote"
            )
            rows.append(Audience("the second aggregator", shares, Bound.NODES))
        return tuple(rows)

    def towards_nodes(self, epsilon: float) -> str:
        """What is promised towards whoever collects votes, as the end of a line. epsilon: of the noisy sums, if any.

        >>> Disclosure(ReleaseKind.WINNER, "secure").towards_nodes(2.1)
        'epsilon at most 2.100 towards the coordinator'
        """
        if not self.noise_in_sums:
            return f"no epsilon towards the coordinator: it is trusted with {self.towards_coordinator}"
        second = " and the second aggregator" if self.collection == "verified" else ""
        return f"epsilon at most {epsilon_text(epsilon)} towards the coordinator{second}"


def people(party: str = "party", parties: str = "parties", unit: str = "", unprotected: str = "") -> tuple[People, ...]:
    """Who is protected, and who is not. unit: what the promise is about, in words; left out: what one party holds.
    unprotected: why the promise holds for nobody; left out where it does hold."""
    held = unprotected or f"the promise is about {unit or f'what one {party} holds'}"
    return (
        People(f"people with rows at a {party} that votes", "no" if unprotected else "yes", held),
        People(
            f"people in the public rows: patients of held-out {parties}, those that are asked about, the test rows",
            "no",
            "their rows are public by assumption: the student, the coordinator and all"
            f" {parties} may see them in full, and no noise covers them",
        ),
        People(
            f"people with rows at a {party} and among the public rows",
            "no" if unprotected else "in part",
            unprotected or f"the promise covers the rows at the {party}, and not the public ones",
        ),
    )
