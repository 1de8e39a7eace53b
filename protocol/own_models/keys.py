"""What a configuration says of a model that others wrote.

Reading a configuration imports nothing and builds nothing: a scenario or a run folder may come from anybody, and
who looks at one runs no code of it. Names are looked up where a model is trained.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue, field_validator

from consilium.protocol.models import Frozen
from consilium.protocol.own_models.naming import NAME_PATTERN

Optimiser = Literal["adamw", "adam", "sgd"]

CROSS_ENTROPY = "cross_entropy"


class FactoryKeys(Frozen):
    """Which callable makes the model, and with which arguments."""

    factory: str = Field(
        pattern=NAME_PATTERN,
        max_length=200,
        description="`package.module:callable` or `package.module.Class`, importable where it is trained; a name"
        " without a dot is an entry point",
    )
    parameters: dict[str, JsonValue] = Field(default_factory=dict, description="its arguments, by name")

    @field_validator("parameters")
    @classmethod
    def _can_be_written_as_toml(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if _has_null(value):
            raise ValueError("null is no value of TOML: leave the argument out")
        return value


class TorchKeys(FactoryKeys):
    """A torch module, and how it is trained. The factory is called with `inputs`, `classes` and `parameters`."""

    loss: str = Field(
        default=CROSS_ENTROPY,
        pattern=NAME_PATTERN,
        max_length=200,
        description="`cross_entropy`, or the name of a callable (logits (n, outputs), labels (n,)) -> scalar",
    )
    epochs: int = Field(default=20, ge=1, le=100_000, description="times that every row is seen")
    steps: int = Field(default=0, ge=0, le=10_000_000, description="steps, whatever `epochs` says; 0: by `epochs`")
    batch: int = Field(default=32, ge=1, le=65_536, description="rows in one step")
    learning_rate: float = Field(default=0.003, gt=0, le=10, description="at the start of a cosine schedule")
    weight_decay: float = Field(default=0.01, ge=0, lt=100, description="of the optimiser")
    optimiser: Optimiser = Field(default="adamw", description="torch's, with its own defaults else")
    images: bool = Field(
        default=False,
        description="rows are square images of one channel, or of three: the module gets (n, channels, side, side), its"
        " factory `inputs` = [channels, side, side]",
    )


class PickleKeys(Frozen):
    """An untrained estimator that cloudpickle wrote, or a callable without arguments that returns one."""

    file: str = Field(default="", max_length=1000, description="where it is")
    sha256: str = Field(default="", pattern=r"^([0-9a-f]{64})?$", description="of the file; left out: any")


def _has_null(value: JsonValue) -> bool:
    if isinstance(value, dict):
        return any(map(_has_null, value.values()))
    if isinstance(value, list):
        return any(map(_has_null, value))
    return value is None
