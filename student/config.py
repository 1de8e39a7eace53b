"""How the student asks and learns."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, field_validator

from consilium.models.keys import GraphStudent, LogisticRegressionStudent, TrainerSpec
from consilium.protocol.models import Frozen
from consilium.protocol.schema import Schema, of_images
from consilium.student.selection import Strategy

FURTHEST_SUM = 1e-6
"""Of declared shares from 1."""


class StudentSpec(Frozen):
    """One student: how it asks, and what it trains (`models.keys`)."""

    queries: int = Field(default=0, ge=0, description="public rows to ask; 0: as many as the query budget allows")
    batch: int = Field(default=0, ge=0, description="rows in one request; 0: all of a round")
    rounds: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="rounds of asking; after the first, `selection` chooses with the model so far, whose"
        " probabilities go with the queries",
    )
    selection: Strategy = Field(
        default="random",
        description="`margin`: rows on which the model is least sure; `typical`: the densest row of each cluster,"
        " for a few queries a class, in the first round too",
    )
    prevalence: tuple[FiniteFloat, ...] = Field(
        default=(),
        description="shares of the classes known from outside (a registry, never test rows), [to which"
        " probabilities are shifted](published-student.md#calibration-and-thresholds)",
    )
    public_labels: Annotated[int, Field(ge=0)] | Literal["all"] = Field(
        default=0,
        description="simulated: so many of the rows that may be asked, or all, have [public"
        " labels](published-student.md#with-public-labels); none of them judges",
    )
    trainer: TrainerSpec = Field(
        default=LogisticRegressionStudent(),
        description="what it trains; left out: `graph` of images, else `logistic_regression`",
    )

    @field_validator("trainer", mode="before")
    @classmethod
    def _is_a_table_of_a_kind_that_is_there(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError(f'a table says what is trained: write [trainer] with name = "{value}", and its keys there')
        return value

    @field_validator("prevalence")
    @classmethod
    def _are_shares(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if value and (min(value) <= 0 or abs(sum(value) - 1) > FURTHEST_SUM):
            raise ValueError(f"shares of classes are above 0 and sum to 1; these sum to {sum(value):g}")
        return value

    def for_rows(self, schema: Schema) -> StudentSpec:
        """The same with the trainer that rows of this schema get where none is named."""
        if "trainer" in self.model_fields_set or not of_images(schema):
            return self
        return self.model_copy(update={"trainer": GraphStudent()})
