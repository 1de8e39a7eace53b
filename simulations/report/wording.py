"""Numbers and words of the report."""

from __future__ import annotations


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
