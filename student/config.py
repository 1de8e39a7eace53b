"""How the student asks and learns."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from consilium.protocol.models import Frozen
from consilium.student.asking.selection import Strategy
from consilium.student.trainers.kinds import LogisticRegressionStudent, TrainerSpec
from consilium.student.trainers.settings import Inputs


class StudentSpec(Frozen):
    """One student: how it asks, and what it trains (`student.trainers.kinds`)."""

    queries: int = Field(default=0, ge=0, description="rows of the pool to ask; 0: as many as the cap allows")
    batch: int = Field(default=0, ge=0, description="rows in one request; 0: all of a round")
    rounds: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="rounds of asking; in each but the first, queries are chosen by `selection` with the model so far,"
        " and its probabilities go with them",
    )
    selection: Strategy = Field(
        default="random",
        description="`k_centre` and `typical` look at the public rows alone and choose the first queries too; `typical`"
        " (the densest row of each cluster) suits a few queries for each class",
    )
    trainer: TrainerSpec = Field(default=LogisticRegressionStudent(), description="what it trains, see below")
    self_training: bool = Field(
        default=False,
        description="label rows without a label where the student's own probability is high, and train again; costs no"
        " privacy",
    )
    self_training_confidence: float = Field(
        default=0.9, gt=0.5, lt=1, description="probability from which such a label is taken"
    )
    self_training_rounds: int = Field(default=3, ge=1, le=50, description="times that it trains again")

    @field_validator("trainer", mode="before")
    @classmethod
    def _is_a_table(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError(f'a table says what is trained: write [trainer] with name = "{value}", and its keys there')
        return value

    @property
    def inputs(self) -> Inputs:
        """What the model takes."""
        return self.trainer.inputs
