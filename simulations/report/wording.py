"""Numbers and words of the report."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal

from consilium.protocol.parties.messages import VotesMode


def epsilon_text(epsilon: float) -> str:
    """Rounded up: a shorter epsilon must not promise more than the long one.

    >>> epsilon_text(0.97401), epsilon_text(0.5), epsilon_text(math.inf)
    ('0.975', '0.500', 'unbounded')
    """
    if math.isinf(epsilon):
        return "unbounded"
    return str(Decimal(repr(float(epsilon))).quantize(Decimal("0.001"), ROUND_CEILING))


def delta_text(delta: float) -> str:
    """
    >>> delta_text(1e-5), delta_text(0.0)
    ('1e-5', '0')
    """
    return f"{delta:g}".replace("e-0", "e-")


def share_text(value: float | None) -> str:
    """
    >>> share_text(0.68704), share_text(None)
    ('0.687', '–')
    """
    return "–" if value is None else f"{value:.3f}"


def signed(value: float) -> str:
    """
    >>> signed(0.1254), signed(-0.03), signed(-0.0001)
    ('+0.125', '−0.030', '0.000')
    """
    text = f"{abs(value):.3f}"
    return text if text == "0.000" else f"{'+' if value > 0 else '−'}{text}"


def many(count: int, word: str) -> str:
    """
    >>> many(1, "hospital"), many(1200, "hospital"), many(0, "party")
    ('1 hospital', '1,200 hospitals', '0 parties')
    """
    return f"{count:,} {word if count == 1 else plural(word)}"


def plural(word: str) -> str:
    """
    >>> plural("hospital"), plural("party"), plural("day")
    ('hospitals', 'parties', 'days')
    """
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


WHO_SEES: dict[VotesMode, str] = {
    "clear": "Votes were collected in clear: the coordinator saw what each party voted, and added the noise. There is"
    " no epsilon towards the coordinator; it has to be trusted with the votes.",
    "secure": "Votes were collected as secure sums: nobody but the party itself saw its votes. The coordinator saw"
    " exact sums over the parties, and added the noise. There is no epsilon towards the coordinator; it has to be"
    " trusted with the sums.",
    "distributed": "Votes were collected as secure sums with noise that the parties added: nobody saw a party’s votes,"
    " or an exact sum. The epsilon towards the coordinator holds for everything it saw. Labels are computed from that,"
    " so the student and the public get the same epsilon.",
    "verified": "Votes were collected in two parts each, of which the coordinator held one and a second aggregator the"
    " other. They checked every vote without seeing it, and left out by name whoever voted falsely. Nobody saw a"
    " party’s votes, unless these two worked together. The coordinator saw exact sums over the parties, and added the"
    " noise. There is no epsilon towards the coordinator; it has to be trusted with the sums. The second aggregator saw"
    " neither votes nor sums.",
}
"""Who sees what, by how the votes were collected."""
WHO_SEES_NOISY_VERIFIED = (
    "Votes were collected in two parts each, of which the coordinator held one and a second aggregator the other. They"
    " checked every vote without seeing it, left out by name whoever voted falsely, and each added the whole noise to"
    " its half of the sum: nobody saw a party’s votes or an exact sum, unless these two worked together. The epsilon"
    " towards the coordinator holds for everything it saw, and towards the second aggregator for what was released."
)


def who_sees(votes: VotesMode, noisy: bool) -> str:
    """Who sees what. noisy: sums came with noise in them."""
    return WHO_SEES_NOISY_VERIFIED if votes == "verified" and noisy else WHO_SEES[votes]
