"""What the federation means for each party: its weight and its own epsilon, as rows of the report's table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from consilium.protocol.errors import DataError
from consilium.protocol.strict_json import number
from consilium.report.disclosure import epsilon_text


@dataclass(frozen=True)
class OwnEpsilon:
    """Parties of one weight."""

    weight: int
    epsilon_text: str
    count: int
    names: tuple[str, ...]


def own_epsilons(by_party: Mapping[str, Mapping[str, Any]]) -> list[OwnEpsilon]:
    """One row for each weight, the least first; empty where every party counts once.

    by_party : as `coordinator.ledger.privacy.by_party` gives it.

    Raises
    ------
    DataError : it is not of that form.
    """
    rows = []
    try:
        for weight in sorted({own["weight"] for own in by_party.values()}):
            names = [party for party, own in by_party.items() if own["weight"] == weight]
            text = epsilon_text(number(dict(by_party[names[0]]), "epsilon"))
            rows.append(OwnEpsilon(weight, text, len(names), tuple(sorted(names))))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"weights of the parties are malformed: {error}", "Run the scenario again") from None
    return rows
