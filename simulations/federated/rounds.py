"""How often models are averaged, over whom, and by which of Flower's strategies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flwr.serverapp.strategy import FedAvg, FedProx


@dataclass(frozen=True)
class Rounds:
    """How often, and with whom: `count` rounds, `fraction` of the parties in each by lot (at least one).

    proximal_mu: None for Flower's FedAvg, else that of its FedProx.
    """

    count: int
    fraction: float = 1.0
    proximal_mu: float | None = None

    def strategy(self) -> FedAvg:
        """Without evaluation at the parties, see `client_app`."""
        nodes: dict[str, Any] = {
            "fraction_train": self.fraction,
            "fraction_evaluate": 0.0,
            "min_train_nodes": 1,
            "min_evaluate_nodes": 0,
            "min_available_nodes": 1,
        }
        return FedAvg(**nodes) if self.proximal_mu is None else FedProx(**nodes, proximal_mu=self.proximal_mu)

    def parties_in_each(self, parties: int) -> int:
        """How many of so many parties Flower asks in each round.

        >>> [Rounds(1, fraction).parties_in_each(30) for fraction in (0.01, 0.5, 1.0)]
        [1, 15, 30]
        """
        return max(int(parties * self.fraction), 1)
