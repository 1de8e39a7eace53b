"""Names of parties from the names of owners, which may be any text."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

import numpy as np

from consilium.simulations.datasets.base import Source

LONGEST = 48
"""Characters that are kept of an owner's name: with a number behind it, it is still a party's (64 at most)."""


def party_names(source: Source, owners: np.ndarray) -> dict[int, str]:
    """Id of each of the owners -> its name as a party; no two are alike, also where case does not count."""
    label, width = safe(source.owner_label) or "party", len(str(source.owner.max()))
    numbers = {int(who): f"{who:0{width}d}" for who in owners}
    if source.owner_names is None:
        return {who: f"{label}-{number}" for who, number in numbers.items()}
    own = {who: safe(source.owner_names[who]) for who in numbers}
    if all(not name or name.isdecimal() for name in own.values()):
        own = {who: f"{label}-{name}" if name else "" for who, name in own.items()}
    same = Counter(name.casefold() for name in own.values())
    return {
        who: name if name and same[name.casefold()] == 1 else f"{name or label}-{numbers[who]}"
        for who, name in own.items()
    }


def safe(name: str) -> str:
    """What is left of a name where only letters without accents, digits and `.`, `_`, `-` may be; perhaps nothing.

    >>> safe("Universitätsspital Zürich (Süd)"), safe("../etc"), safe("北京")
    ('Universitatsspital-Zurich-Sud', 'etc', '')
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9._]+", "-", plain).strip("-._")[:LONGEST].rstrip("-._")
