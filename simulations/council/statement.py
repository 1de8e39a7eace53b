"""What is promised of a fit, and who is meant: `Council.privacy_` and `Run.privacy`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from consilium.protocol.strict_json import number
from consilium.simulations.report.wording import delta_text, epsilon_text

SEEDED = "The noise came from a seed, so that the run can be repeated: this protects nobody."
_TOWARDS = {"student": "whoever sees the student or its labels", "coordinator": "the coordinator"}


@dataclass(frozen=True)
class PrivacyStatement:
    """The promise, fixed before anything was asked: a worst case over all votes, never a function of them.

    epsilon, delta : what is promised of one fit, and the one to publish.
    unit, relation : whose data it is about, and what may change of them.
    towards : "student" or "coordinator", who sees what the promise covers. votes : how they were collected.
    noise : "system", or "seeded", which protects nobody.
    fits, epsilon_of_all_fits, delta_of_all_fits : the same estimator fitted again on rows of the same owners: releases
        add up, by basic composition (the sums).
    epsilon_student : towards whoever sees what is released; less than `epsilon` where the coordinator sees more.
    secret_epsilon_data_dependent : at the votes at hand; a function of them, so telling it tells about them. It is in
        no text and no picture of the run.
    """

    epsilon: float
    delta: float
    unit: str
    relation: str
    towards: str
    votes: str
    noise: str
    epsilon_student: float
    secret_epsilon_data_dependent: float | None = field(repr=False, compare=False)
    fits: int = 1
    epsilon_of_all_fits: float = 0.0
    delta_of_all_fits: float = 0.0

    @classmethod
    def of(cls, privacy: Mapping[str, Any], before: tuple[tuple[float, float], ...] = ()) -> PrivacyStatement:
        """From the block `privacy` of a summary. before: (epsilon, delta) of earlier fits on the same owners."""
        epsilon, delta = number(privacy, "epsilon_promised"), float(privacy["delta"])
        secret = privacy.get("epsilon_data_dependent")
        return cls(
            epsilon=epsilon,
            delta=delta,
            unit=str(privacy["unit"]),
            relation=str(privacy["relation"]),
            towards=str(privacy["towards"]),
            votes=str(privacy["votes"]),
            noise=str(privacy["noise"]),
            epsilon_student=number(privacy, "epsilon_student"),
            secret_epsilon_data_dependent=None if secret is None else float(secret),
            fits=1 + len(before),
            epsilon_of_all_fits=epsilon + sum(earlier for earlier, _ in before),
            delta_of_all_fits=delta + sum(earlier for _, earlier in before),
        )

    @property
    def protects(self) -> bool:
        """False where the noise came from a seed."""
        return self.noise == "system"

    def lines(self) -> list[str]:
        """For people; nothing secret in it."""
        told = [
            f"epsilon at most {epsilon_text(self.epsilon)} at delta {delta_text(self.delta)},"
            " promised before anything was asked",
            f"unit: {self.relation}",
            f"towards {_TOWARDS.get(self.towards, self.towards)}; votes: {self.votes}",
        ]
        if self.votes == "clear" or self.towards == "student":
            seen = "votes" if self.votes == "clear" else "sums of votes"
            told.append(f"no epsilon towards the coordinator, which is trusted with {seen}")
        if self.fits > 1:
            told.append(
                f"fitted {self.fits} times on the same owners: together epsilon at most"
                f" {epsilon_text(self.epsilon_of_all_fits)} at delta {delta_text(self.delta_of_all_fits)}"
            )
        return [*told, *([] if self.protects else [SEEDED])]

    def __str__(self) -> str:
        return "\n".join(self.lines())
