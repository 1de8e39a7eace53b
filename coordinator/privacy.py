"""What a federation states of its privacy: the table `[federation.privacy]`, and that of a sanitised epsilon in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field, model_validator

from consilium.accounting.sanitise.release import SanitisedPlan
from consilium.accounting.units import Neighbouring, Unit
from consilium.protocol.models import Frozen, Terse
from consilium.protocol.parties.messages import MOST_CANDIDATES, VotesMode


class Sanitised(Frozen):
    """Publish a data-dependent epsilon at close, with noise; the fields are those of `accounting.SanitisedPlan`.

    They are fixed before the run, on public or simulated votes (`consilium accounting epsilon` plans them): a choice
    that looks at private votes would itself be a release.
    """

    order: float = Field(gt=1, le=1e4, description="Rényi order at which the cost is released")
    beta: float = Field(gt=0, le=10, description="decay of the smooth sensitivity")
    sigma_ss: float = Field(gt=0, le=1e6, description="noise, in units of the smooth sensitivity")
    log_scale_sigma: float | None = Field(
        default=None, gt=0, le=1e6, description="noise on the logarithm of the sensitivity, which is then released too"
    )
    confidence: float = Field(default=0.95, gt=0, lt=1, description="of the bound that is published")

    def plan(self) -> SanitisedPlan:
        """As the accounting takes it."""
        return SanitisedPlan(**self.model_dump())


class Privacy(Terse, Frozen):
    """`unit` has no default on purpose: whoever states an epsilon says for what."""

    UNWRITTEN: ClassVar[Mapping[str, Any]] = {"candidates": 1}

    unit: Unit = Field(description="whose data the promise is about; no default on purpose")
    neighbouring: Neighbouring = Field(
        default=Neighbouring.REPLACE,
        description="how the unit's data may change; with k > 1 teachers a record or patient moves 2 votes by"
        " `replace`, 1 by `add_or_remove`",
    )
    delta: float = Field(gt=0, lt=1, description="of the promise")
    epsilon: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="most that may be promised; scales of noise that `[federation.mechanism]` leaves out are calibrated"
        " to it",
    )
    sanitised: Sanitised | None = Field(
        default=None,
        description="publish a data-dependent epsilon, with noise, when the run closes; clear votes only",
    )
    candidates: int = Field(
        default=1,
        ge=1,
        le=MOST_CANDIDATES,
        description="runs on these parties' votes among which this one is chosen, itself among them: all are charged"
        " ([why](decisions/tuning.md)); no `sanitised` beside it",
    )

    @model_validator(mode="after")
    def _one_candidate_where_votes_decide(self) -> Privacy:
        if self.sanitised is not None and self.candidates > 1:
            raise ValueError(
                f"privacy.candidates {self.candidates} and privacy.sanitised: a sanitised epsilon is of one run, and"
                " votes of the others are not at hand. Leave one of them out"
            )
        return self


def check_sanitised_votes(privacy: Privacy, votes: VotesMode) -> None:
    """Raise ValueError where a sanitised epsilon is planned for votes that nobody can check."""
    if privacy.sanitised is not None and votes != "clear":
        raise ValueError(
            f"privacy.sanitised needs clear votes, not {votes} ones: it is computed from histograms, and a lying party"
            " behind masks, or a lying aggregator, may make a histogram that no votes give. Leave it out, or collect"
            " votes in clear"
        )
