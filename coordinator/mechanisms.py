"""What `[federation.mechanism]` may say: one table for each mechanism of `accounting.mechanisms`, made from its fields.

Scales of noise that a table leaves out are calibrated to the epsilon that a federation may promise. A mechanism with
two gets sigma1 = sigma2 sqrt(3 queries / answers): its check, which every query pays for, then takes a seventh of the
worst-case cost (a quarter where it is a whole histogram), and the labels the rest. That is close to what public votes
chose for the default scenario.

Who adds how much of the noise that is in sums, and the law of a label, stand here too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cached_property, singledispatch
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, TypeAdapter, ValidationError, create_model

from consilium.accounting.curves.discrete import convolution_slack, pair_slack
from consilium.accounting.errors import NoiseError
from consilium.accounting.events import Mechanism, PartyNoise
from consilium.accounting.mechanisms import (
    Confident,
    Difference,
    GNMax,
    Histogram,
    Immutable,
    ImmutableGaussian,
    Interactive,
    LNMax,
    mechanism_of,
)
from consilium.accounting.target import least_noise, round_down, round_up
from consilium.node.limits import LEAST, MOST
from consilium.protocol.label_source import LabelLaw
from consilium.protocol.messages import CollectionMode
from consilium.protocol.models import Frozen

MECHANISMS: dict[str, type[Mechanism]] = {
    kind.name: kind
    for kind in (LNMax, GNMax, Difference, Histogram, Confident, Interactive, Immutable, ImmutableGaussian)
}
"""All that can be drawn, by the name that a table gives."""

SCALES = ("sigma", "sigma1", "sigma2", "gamma")
"""Parameters that say how much noise there is; with a larger gamma there is less."""


def _number(description: str, **limits: Any) -> Any:
    return Annotated[float, Field(allow_inf_nan=False, description=description, **limits)]


def _sigma(of: str) -> Any:
    """Of the discrete Gaussian on one number."""
    return _number(f"of the noise on {of}, in votes", ge=LEAST["sigma"], le=MOST["sigma"])


_KEYS: Mapping[str, Any] = {
    "sigma": _sigma("one count, or on the difference of two"),
    "sigma2": _sigma("one count"),
    "sigma1": _sigma("what is held against the threshold"),
    "gamma": _number("inverse scale of the noise on one count", ge=1e-12, le=1e3),
    "threshold": Annotated[int, Field(ge=0, le=int(MOST["threshold"]), description="votes, whole")],
    # the limit keeps sums far from the end of int64
    "constant": Annotated[int, Field(ge=0, le=2**53, description="votes that are added to the largest count")],
    "confidence": _number(
        "student's own probability above which its label is confirmed where the check fails; 1: nothing is confirmed",
        ge=0,
        le=1,
    ),
}
"""What a parameter of this name may be in a table."""


def _table_of(kind: type[Mechanism]) -> type[Frozen]:
    keys: dict[str, Any] = {
        field.name: (_KEYS[field.name], ... if field.default is MISSING else field.default) for field in fields(kind)
    }
    if not kind.private:
        keys["unsafe_not_private"] = Literal[True], Field(description="must be said, since it is not private at all")
    name: Any = (Literal[kind.name], kind.name)  # pyright: ignore[reportInvalidTypeForm]
    return create_model(kind.__name__, __base__=Frozen, __doc__=kind.__doc__, name=name, **keys)


TABLES: dict[str, type[Frozen]] = {name: _table_of(kind) for name, kind in MECHANISMS.items()}


def table_of(mechanism: Mechanism) -> dict[str, Any]:
    """The table that says this mechanism."""
    table = {"name": mechanism.name, **mechanism.parameters()}
    return table if mechanism.private else {**table, "unsafe_not_private": True}


def _built(table: Frozen) -> Mechanism:
    values = table.model_dump(exclude={"name", "unsafe_not_private"})
    return mechanism_of(table.name, values)  # pyright: ignore[reportAttributeAccessIssue]


if TYPE_CHECKING:
    AnyMechanism = Mechanism
else:
    AnyMechanism = Annotated[
        Union[tuple(TABLES.values())],  # noqa: UP007
        Field(discriminator="name"),
        # a mechanism that is one already; whatever else it is, its table says what is wrong
        BeforeValidator(lambda value: table_of(value) if hasattr(value, "parameters") else value),
        AfterValidator(_built),
        PlainSerializer(table_of),
    ]
"""The field type of a configuration: read from a table whose `name` says which mechanism it is, and written as one."""

_ADAPTER: TypeAdapter[Mechanism] = TypeAdapter(AnyMechanism)

CHECK_RATIO = 3.0
"""Squared ratio of sigma1 to sigma2 for as many answers as queries."""
WIDE = 320.0
"""An amount of noise that every mechanism takes whose other keys are right."""


def noise_scales(name: object) -> tuple[str, ...]:
    """The keys of a mechanism's table that are scales of its noise, in order; none of an unknown one.

    >>> noise_scales("confident"), noise_scales("lnmax")
    (('sigma1', 'sigma2'), ('gamma',))
    """
    kind = MECHANISMS.get(str(name))
    found = () if kind is None else fields(kind)
    return tuple(field.name for field in found if field.name in SCALES)


def scale_for(key: str, amount: float) -> float:
    """The value of a scale for this amount of noise, or a little more, in four digits: gamma is an inverse one."""
    return round_down(1 / amount) if key == "gamma" else round_up(amount)


def widest(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table of a mechanism with `WIDE` noise where it leaves some out."""
    return {**{key: scale_for(key, WIDE) for key in noise_scales(table.get("name"))}, **table}


def with_noise(
    table: Mapping[str, Any],
    queries: int,
    answers: int,
    epsilon: float,
    cost: Callable[[Mechanism], float],
    rough: Callable[[Mechanism], float],
    enough: float | None = None,
) -> dict[str, Any]:
    """The table of a mechanism with the scales of noise that it leaves out, so that its `cost` is just below `epsilon`.
    `rough` is never below the cost, and takes less time: it is asked first. enough: see `least_noise`, of `rough`. A
    table that is wrong otherwise comes back with any scales, for its own validation to say what is wrong. Raises
    CalibrationError: no noise is enough. AccountingError: none of this mechanism can be charged."""
    left_out = [key for key in noise_scales(table.get("name")) if key not in table]
    if not left_out:
        return dict(table)
    shares = dict.fromkeys(left_out, 1.0)
    if len(shares) == 2:
        shares["sigma1"] = math.sqrt(CHECK_RATIO * queries / answers)

    def filled(amount: float) -> dict[str, Any]:
        return {**table, **{key: scale_for(key, amount * share) for key, share in shares.items()}}

    def price(amount: float, of: Callable[[Mechanism], float] = cost) -> float:
        try:
            return of(_ADAPTER.validate_python(filled(amount)))
        except ValidationError:
            return math.inf  # too little or too much noise for the mechanism

    try:
        rough(_ADAPTER.validate_python(filled(WIDE)))
    except ValidationError:
        return filled(WIDE)
    return filled(least_noise(price, epsilon, least_noise(lambda amount: price(amount, rough), epsilon, enough)))


@singledispatch
def law_of(mechanism: Mechanism, votes: int, classes: int, in_sums: Sequence[float]) -> LabelLaw | None:
    """Of labels that are drawn on `votes` votes; None where the noisy counts themselves are released. in_sums: standard
    deviation of all noise that a count of each round's sum holds; empty where counts are exact."""
    label = mechanism.label_noise
    if label is None or mechanism.count_sigma > 0:
        return None
    return LabelLaw(votes, (in_sums or (label.deviation,))[-1])


@law_of.register
def _(mechanism: Immutable, votes: int, classes: int, in_sums: Sequence[float]) -> LabelLaw:
    """What is added to the largest count is left out: a label is surer than this says."""
    return LabelLaw(votes, math.sqrt(2) / mechanism.gamma)


@law_of.register
def _(mechanism: ImmutableGaussian, votes: int, classes: int, in_sums: Sequence[float]) -> LabelLaw:
    return LabelLaw(votes, mechanism.sigma)


@law_of.register
def _(mechanism: Confident, votes: int, classes: int, in_sums: Sequence[float]) -> LabelLaw:
    """Of sums with noise C_j the check compares max_j(n_j - m_j + C_j - C), C the mean of the C_j (`draw.projected`).
    C is independent of that, and has the variance s^2 / classes: with C, as `LabelLaw` has it, so much less is left for
    the check's own noise."""
    cells, label = in_sums or (0.0, mechanism.sigma2)
    own = math.sqrt(max(mechanism.sigma1**2 - cells**2 / classes, 0.0))
    return LabelLaw(votes, label, mechanism.threshold, own, cells, mechanism.needs_probabilities)


BY_MASKED_PARTIES, BY_TWO_AGGREGATORS = 2 / 3, 1 / 2
"""Share of a mechanism's variance that the sure givers add: of two thirds of the parties, who are sure to be in a sum,
all parties then make up the whole; of two aggregators each adds half."""
PARTS: Mapping[CollectionMode, float] = {"secure": BY_MASKED_PARTIES, "verified": BY_TWO_AGGREGATORS}
LEAST_TOP_UP = 4.0
"""Variance. Less would be so fine that the sum is no discrete Gaussian up to rounding."""


@dataclass(frozen=True)
class SumNoise:
    """How the noise of one parameter `sigma`, which a mechanism has on exact sums, comes into the sums themselves.

    Each giver, a party or one of two aggregators, adds a discrete Gaussian of variance v = drawn.sigma^2 / shares, so
    that `shares` of them, who are sure to be honest, add `part` of sigma^2 together: what nodes are held to, who see
    the sums. The coordinator makes up what is missing to sigma^2: so students get the noise of exact sums.

    Of a sum the student knows no share: all honest ones and the top-up make its noise. With h honest givers, that is
    at least sigma^2: where h v < sigma^2 the top-up is the rest, or `LEAST_TOP_UP` if that is more; else the first
    ceil(sigma^2 / v) honest shares are enough, and any further ones add what is independent of the votes. So of no
    more than ceil(1 / part) shares' worth, and one top-up, the law is compared with one discrete Gaussian: `slack`.

    sigma: of the mechanism, on one count. part: see above. shares: givers that are sure to be honest and in a sum.
    colluders: givers whose noise does not count. topped_up: False for a check, which has its own noise on top.

    >>> noise = SumNoise(112.1, BY_MASKED_PARTIES, 139, 0)
    >>> noise.drawn, round(noise.top_up(139), 1), round(noise.top_up(207), 1), noise.slack < 1e-18
    (PartyNoise(sigma=91.53, shares=139), 64.7, 9.5, True)
    >>> SumNoise(112.1, BY_TWO_AGGREGATORS, 1, 0).top_up(2)
    0.0
    """

    sigma: float
    part: float
    shares: int
    colluders: int = 0
    topped_up: bool = True

    @cached_property  # asked for at each sum
    def drawn(self) -> PartyNoise:
        """What the givers are asked to add."""
        return PartyNoise(round_up(math.sqrt(self.part) * self.sigma), self.shares)

    def check(self) -> None:
        """Raise NoiseError where a share is so fine that little is proved of their sum."""
        if self._share < 1:
            raise NoiseError(
                f"noise of sigma {self.sigma:g} in {self.shares} shares is of variance {self._share:.2g} in each, which"
                f" must be at least 1: {self.cure}"
            )

    @property
    def cure(self) -> str:
        """Where shares are too fine: of variance 4.5 they cost nothing on top, and labels what they do elsewhere."""
        enough = math.ceil(math.sqrt(4.5 * self.shares / self.part))
        return f"raise sigma to {enough}, or promise a lower epsilon, or collect votes as verified"

    @property
    def _share(self) -> float:
        """Variance of what one giver adds."""
        return self.drawn.sigma**2 / self.shares

    def top_up(self, givers: int) -> float:
        """Sigma of what the coordinator adds to a sum to which so many have given; 0.0 for nothing."""
        missing = self.sigma**2 - max(0, givers - self.colluders) * self._share if self.topped_up else 0.0
        return math.sqrt(max(missing, LEAST_TOP_UP)) if missing > 0 else 0.0

    def total(self, givers: int) -> float:
        """Standard deviation of all noise on a count, top-up and colluders' shares included."""
        return math.hypot(math.sqrt(givers * self._share), self.top_up(givers))

    @property
    def slack(self) -> float:
        """Largest |log ratio| of the noise towards a student, whoever is in the sum, to one discrete Gaussian. Raises
        NoiseError: a share is so fine that nothing is proved of it."""
        share, most = math.sqrt(self._share), math.ceil(self.sigma**2 / self._share)
        self.check()
        fewest = min(most, self.shares) * self._share
        topped = (
            pair_slack(math.sqrt(variance), math.sqrt(max(self.sigma**2 - variance, LEAST_TOP_UP)))
            for variance in (fewest, max(fewest, self.sigma**2 - LEAST_TOP_UP))
        )
        return convolution_slack(most, share) + max(topped)
