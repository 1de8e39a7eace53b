"""What a mechanism releases for a query, to whom it may concern: kinds, as they stand on the wire, and their words."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class ReleaseKind(StrEnum):
    """What a student gets for a query, and with it whoever gets anything made of it."""

    WINNER = "winner"
    """A label for each query: the winner of the vote, found with noise."""
    WINNER_OR_ABSTENTION = "winner or abstention"
    """The winner, found with noise, or that there is none."""
    WINNER_OR_CONFIRMATION = "winner, abstention or confirmation"
    """The same; for an abstention perhaps the student's own label, which says no more than that there is no winner."""
    COUNTS = "noisy counts"
    """The count of votes for each class, with noise on each. The winner is computed from them."""
    EXACT = "exact winner"
    """A winner that noise hardly changes. Not private."""

    @property
    def abstains(self) -> bool:
        """Whether a query may be asked, and charged, without a label of the parties'."""
        return self in (ReleaseKind.WINNER_OR_ABSTENTION, ReleaseKind.WINNER_OR_CONFIRMATION)

    @property
    def noun(self) -> str:
        """What is released for one query, as it is counted.

        >>> ReleaseKind.COUNTS.noun, ReleaseKind.WINNER_OR_ABSTENTION.noun
        ('noisy histogram', 'label')
        """
        return "noisy histogram" if self is ReleaseKind.COUNTS else "label"

    @property
    def leaves(self) -> str:
        """What leaves for each query, as part of a sentence."""
        return _LEAVES[self]

    @property
    def stays(self) -> str:
        """What of the votes leaves in no form, as part of a sentence."""
        return f"No {'exact count is released' if self is ReleaseKind.COUNTS else 'count is released, exact or noisy'}."

    @property
    def sentence(self) -> str:
        """
        >>> ReleaseKind.WINNER.sentence
        'Released for each query: the winner of the vote, found with noise. No count is released, exact or noisy.'
        """
        return f"Released for each query: {self.leaves}. {self.stays}"


_LEAVES: Mapping[ReleaseKind, str] = {
    ReleaseKind.WINNER: "the winner of the vote, found with noise",
    ReleaseKind.WINNER_OR_ABSTENTION: "the winner of the vote, found with noise, or an abstention",
    ReleaseKind.WINNER_OR_CONFIRMATION: "the winner of the vote, found with noise; or an abstention, or that the votes"
    " do not contradict the student's own label",
    ReleaseKind.COUNTS: "a noisy histogram (the number of votes for every class, with noise added to each; the largest"
    " is the winner)",
    ReleaseKind.EXACT: "the winner of the vote, which noise hardly changes: this protects nobody",
}
AT_MOST: Mapping[str, ReleaseKind] = {
    "lnmax": ReleaseKind.WINNER,
    "gnmax": ReleaseKind.WINNER,
    "difference": ReleaseKind.WINNER,
    "confident": ReleaseKind.WINNER_OR_ABSTENTION,
    "interactive": ReleaseKind.WINNER_OR_CONFIRMATION,
    "histogram": ReleaseKind.COUNTS,
    "distributed": ReleaseKind.COUNTS,
    "distributed_two_phase": ReleaseKind.COUNTS,
    "immutable": ReleaseKind.EXACT,
    "immutable_gaussian": ReleaseKind.EXACT,
}
"""The most that a release of this name discloses to anybody but the coordinator: what a party is charged for and so
reads off the promise alone. Of noise by the parties it is the histograms, whether the student gets them or labels."""
