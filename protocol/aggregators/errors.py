"""What can go wrong with the second aggregator, as the coordinator tells it."""

from __future__ import annotations

from consilium.protocol.secagg.errors import SecAggError


class AggregatorAway(SecAggError):
    """The second aggregator is not there, or does not answer. Nothing is used up: the same session goes on later."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the second aggregator does not answer: {reason}",
            "Start it, or telephone whoever runs it, and ask again; nothing was used up",
        )


class AggregatorWentBack(AggregatorAway):
    """The second aggregator has forgotten what it gave: an older state of it was restored. It would give its half of
    the same queries again, so nothing is asked of it."""

    def __init__(self, signed: int, known: int) -> None:
        SecAggError.__init__(
            self,
            f"the second aggregator's state went back: it gave its half of {signed} sums of this federation, and knows"
            f" {known}",
            "Have the newest backup of its state/ restored; if that is lost, close this federation and make another"
            " with a new second aggregator (consilium provision add-aggregator)",
        )


class AggregatorRefuses(SecAggError):
    """The second aggregator does not serve in this federation, or does not give its half of this sum.

    rule: of its refusal, by name.
    """

    def __init__(self, reason: str, cure: str, rule: str = "") -> None:
        self.rule = rule
        ask = "Its own log has the detail; nothing was given"
        super().__init__(f"the second aggregator refuses: {reason}", f"{cure}. {ask}" if cure else ask)
