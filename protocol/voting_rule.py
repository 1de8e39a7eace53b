"""How a teacher turns its scores into its one vote for a query: one class for each rule, with its own keys. Whatever
the rule, a vote is a function of one teacher, the rows of its shard, its query and what is public, and a teacher has
one vote for each query: no rule changes how many votes a record, a patient or a party moves. How a party carries the
rules out is in `party.voting`."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal, get_args

import numpy as np
from pydantic import Field, TypeAdapter, model_validator

from consilium.protocol.models import Frozen
from consilium.protocol.queries import MOST_REFERENCE_ROWS

Share = Annotated[float, Field(gt=0, lt=1)]


class TopRule(Frozen):
    """The class with the teacher's largest score.

    relative: whether teachers vote by thresholds, which they take from public reference rows. undeclared: whether these
    are such that nobody's knowledge of the classes' shares stands behind them. reference_rows: that the rule takes at
    most.
    """

    relative: ClassVar[bool] = False
    undeclared: ClassVar[bool] = False
    reference_rows: ClassVar[int] = 0

    rule: Literal["top"] = "top"

    def describe(self) -> str:
        """For people, after the mechanism's own words; nothing where teachers vote as papers have it."""
        return ""

    def check_classes(self, classes: int) -> None:
        """Raise ValueError if the rule cannot be one for so many classes."""

    def orders(self, classes: int) -> np.ndarray:
        """Orders float64 (classes,) of the quantiles that are a class's threshold, for a rule that has thresholds."""
        return np.zeros(0)


class RelativeRule(Frozen):
    """The class whose score is largest against the teacher's own scores for it on public reference rows."""

    relative: ClassVar[bool] = True

    rule: Literal["relative"] = "relative"
    quantile: Share = Field(
        default=0.5,
        description="of a teacher's own scores on reference rows, which it subtracts; of two classes: of its"
        " log-odds for the second",
    )
    shares: tuple[Share, ...] = Field(
        default=(),
        description="instead: each class's share among public rows, known without looking at private ones; its"
        " quantile is 1 - share",
    )
    reference: int = Field(
        default=200,
        ge=2,
        le=MOST_REFERENCE_ROWS,
        description="most reference rows, drawn publicly from those that may be asked",
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> RelativeRule:
        if self.shares and "quantile" in self.model_fields_set and self.quantile != 0.5:
            raise ValueError("give quantile or shares, not both")
        if self.shares and not math.isclose(sum(self.shares), 1, abs_tol=1e-6):
            raise ValueError(f"shares sum to {sum(self.shares):g}, they must sum to 1")
        return self

    @property
    def undeclared(self) -> bool:
        return not self.shares and self.quantile == 0.5

    @property
    def reference_rows(self) -> int:
        return self.reference

    def describe(self) -> str:
        """
        >>> RelativeRule(shares=(0.75, 0.25)).describe(), RelativeRule().describe()
        (', votes relative to shares 0.75, 0.25', ', votes relative to quantile 0.5')
        """
        shares = ", ".join(f"{share:g}" for share in self.shares)
        return f", votes relative to {f'shares {shares}' if shares else f'quantile {self.quantile:g}'}"

    def check_classes(self, classes: int) -> None:
        if self.shares and len(self.shares) != classes:
            raise ValueError(f"voting_rule.shares has {len(self.shares)} numbers for {classes} classes")

    def orders(self, classes: int) -> np.ndarray:
        """
        >>> RelativeRule(shares=(0.75, 0.25)).orders(2).tolist(), RelativeRule(quantile=0.9).orders(2).tolist()
        ([0.25, 0.75], [0.09999999999999998, 0.9])
        """
        if self.shares:
            return 1 - np.array(self.shares)
        return np.array([1 - self.quantile, self.quantile]) if classes == 2 else np.full(classes, self.quantile)


VotingRule = TopRule | RelativeRule
VotingRuleSpec = Annotated[VotingRule, Field(discriminator="rule")]
"""The field type of a configuration: a table whose `rule` says which one it is."""
VOTING_RULES: tuple[type[VotingRule], ...] = get_args(VotingRule)


def voting_rule_from_json(text: str) -> VotingRule:
    """What a train request carries. Raises pydantic's ValidationError."""
    return TypeAdapter[VotingRule](VotingRuleSpec).validate_json(text)
