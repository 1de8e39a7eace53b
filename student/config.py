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
        description="`margin`: rows on which the model is least sure; `typical`: the densest row of each cluster of"
        " public rows, which suits a few queries for each class, and chooses the first queries too",
    )
    prevalence: tuple[FiniteFloat, ...] = Field(
        default=(),
        description="shares of the classes, in their order, that are known from outside (a registry, say; never from"
        " test rows): probabilities are shifted so that their mean over the pool is this; left out: probabilities stay"
        " shares of votes",
    )
    public_labels: Annotated[int, Field(ge=0)] | Literal["all"] = Field(
        default=0,
        description="in a simulation: everybody knows the labels of so many rows that may be asked, by lot, or of all,"
        " and the student is brought to them before it is published; none of them judges. Elsewhere the file of public"
        " rows has them, see [public labels](published-student.md#with-public-labels)",
    )
    trainer: TrainerSpec = Field(
        default=LogisticRegressionStudent(),
        description="what it trains, see below; left out: `graph` where rows are images, else `logistic_regression`",
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
