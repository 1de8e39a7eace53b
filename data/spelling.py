"""Texts that are one value, written in several ways: case, blanks, accents, plural, yes and no, a letter for a word."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence

TRUE, FALSE = ("yes", "y", "true", "t", "1", "ja", "oui", "si", "sí"), ("no", "n", "false", "f", "0", "nein", "non")


def alike(text: str) -> str:
    """What is left of a text without case, accents, blanks and marks between words; digits keep what parts them.

    >>> alike("St. Mary"), alike("st mary"), alike("Nord-2"), alike("1.5"), alike("A+")
    ('stmary', 'stmary', 'nord2', '1.5', 'a+')
    """
    plain = "".join(sign for sign in unicodedata.normalize("NFKD", text) if not unicodedata.combining(sign)).casefold()
    plain = re.sub(r"(?<!\d)[\s_.'’\"]+|[\s_.'’\"]+(?!\d)", "", plain)
    return re.sub(r"(?<=[^\W\d_])-(?=\w)", "", plain) or text


def spellings(counts: dict[str, int]) -> dict[str, str]:
    """Text -> the most frequent text that it is another spelling of: case, blanks, accents, plural, yes and no, and a
    letter for the word that begins with it.

    >>> spellings({"Yes": 5, "yes": 9, "Y": 1, "No": 4, "0": 2, "male": 3, "females": 1})
    {'Yes': 'yes', 'Y': 'yes', '0': 'No'}
    >>> spellings({"M": 5, "male": 9, "f": 2, "Female": 5})
    {'M': 'male', 'f': 'Female'}
    >>> spellings({"A": 5, "AB": 9, "0": 2, "B": 3})
    {}
    """
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for text in counts:
        groups[alike(text)].append(text)
    keys = set(groups)
    for key in sorted(keys):
        if len(key) > 4 and key.endswith("s") and key[:-1] in groups and key.isalpha():
            groups[key[:-1]] += groups.pop(key)
    truth = [key for key in groups if key in TRUE or key in FALSE]
    words = {"yes", "no", "ja", "nein", "oui", "non", "true", "false", "si"}
    if words & set(truth) and len(truth) > 2 and len(groups) <= len(truth) + 2:
        for side in (TRUE, FALSE):
            first, *others = [key for key in groups if key in side] or [""]
            for other in others:
                groups[first] += groups.pop(other)
    longer = [key for key in groups if len(key) > 2 and key.isalpha() and not set(key) <= set("ivxlcdm")]
    for key in [key for key in groups if len(key) == 1 and key.isalpha()]:
        meant = [word for word in longer if word.startswith(key)]
        if len(meant) == 1 and len(groups) <= 2 * len(longer) + 1:
            groups[meant[0]] += groups.pop(key)
    merged = {}
    for texts in groups.values():
        if len(texts) > 1:
            words_first = [text for text in texts if len(text) > 1] or texts
            chosen = max(words_first, key=lambda text: counts[text])
            merged |= {text: chosen for text in texts if text != chosen}
    return {text: merged[text] for text in counts if text in merged}


def slips(names: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Pairs that differ by one letter, or by two that are exchanged, in a long word."""
    keys = {name: alike(name) for name in names if len(alike(name)) >= 6}
    ordered = sorted(keys)
    if len(ordered) > 500:
        return
    for place, first in enumerate(ordered):
        for second in ordered[place + 1 :]:
            if abs(len(keys[first]) - len(keys[second])) <= 1 and _one_slip(keys[first], keys[second]):
                words = zip(first.split(), second.split(), strict=False)
                long = [min(len(one), len(other)) >= 5 for one, other in words if alike(one) != alike(other)]
                if long and all(long):
                    yield first, second


def _one_slip(first: str, second: str) -> bool:
    start = next((place for place, (one, other) in enumerate(zip(first, second, strict=False)) if one != other), None)
    if start is None:
        start = min(len(first), len(second))
    one, other = first[start:], second[start:]
    if any(sign.isdigit() for sign in one[:2] + other[:2]):
        return False
    swapped = len(one) > 1 and len(other) > 1 and one[:2] == other[1::-1] and one[2:] == other[2:]
    return swapped or one[1:] == other[1:] or one[1:] == other or one == other[1:]
