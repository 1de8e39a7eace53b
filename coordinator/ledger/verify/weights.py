"""Weights that a run states, and the epsilon of each party that follows from its own."""

from __future__ import annotations

from collections import Counter
from typing import Any

from consilium.coordinator.ledger.privacy import by_party
from consilium.coordinator.ledger.verify.claims import close_to, number
from consilium.coordinator.ledger.verify.files import entry
from consilium.coordinator.ledger.verify.findings import Contradiction, agree
from consilium.coordinator.ledger.verify.recorded import Recorded


def check_weights(name: str, summary: dict[str, Any], recorded: Recorded) -> str:
    """Each party has the weight that the ledger keeps, and the epsilon that this gives it; one line for each weight.

    Raises
    ------
    Contradiction : a weight or an epsilon is another. Damaged : it is no number.
    """
    parties = entry(summary, name, "parties")
    if not recorded.weights.keys() >= set(parties):
        raise Contradiction(f"{name}: a party took part without a weight")
    truth = by_party(recorded.config, {party: recorded.weights[party] for party in parties})["by_party"]
    agree(f"{name}: parties of by_party", sorted(entry(summary, name, "by_party")), sorted(truth))
    epsilons: dict[int, float] = {}
    for party, own in truth.items():
        agree(f"{name}: weight of {party}", entry(summary, name, "by_party", party, "weight"), own["weight"])
        epsilons[own["weight"]] = number(own, "the ledger", "epsilon")
        close_to(
            f"{name}: epsilon of {party}", number(summary, name, "by_party", party, "epsilon"), epsilons[own["weight"]]
        )
    found = Counter(own["weight"] for own in truth.values())
    return "; ".join(f"{found[weight]} x weight {weight}, epsilon {epsilons[weight]:.4f}" for weight in sorted(found))
