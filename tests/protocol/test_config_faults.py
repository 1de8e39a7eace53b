"""Faults of configuration in our own words, and the keys that are nearest to an unknown one."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, FiniteFloat, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from consilium.protocol.config_files import MOST_FAULTS, faults_of, in_one, shown, validate
from consilium.protocol.errors import ConfigError
from consilium.protocol.models import Frozen


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Square(Frozen):
    name: Literal["square"] = "square"
    side: float = Field(gt=0)


class Circle(Frozen):
    name: Literal["circle"] = "circle"
    radius: float = Field(gt=0)


class Corner(Frozen):
    x: int = 0
    label: str = Field(default="a", min_length=1, max_length=3, pattern="^[a-z]*$")


class Drawing(Frozen):
    shape: Annotated[Square | Circle, Field(discriminator="name")] = Circle(radius=1)
    corners: tuple[Corner, ...] = Field(default=(), max_length=2)
    least: int = Field(default=1, ge=1, le=9, multiple_of=1)
    share: FiniteFloat = Field(default=0.5, lt=1)
    colour: Colour = Colour.RED
    filled: bool = False
    codes: dict[str, int] = Field(default_factory=dict)
    spot: Corner | None = None
    other: Annotated[Square | Circle, Field(discriminator="name")] = Circle(radius=1)

    @model_validator(mode="after")
    def _check(self) -> Drawing:
        if self.filled and self.colour is Colour.BLUE:
            raise ValueError("blue is never filled")
        return self


CASES: list[tuple[dict[str, Any], str]] = [
    ({"shape": {"name": "square"}}, "shape.side: is required"),
    ({"shape": {"name": "sqare"}}, '''shape.name: must be "square" or "circle", got 'sqare'; did you mean "square"?'''),
    ({"shape": {"side": 1}}, "shape.name: is required"),
    ({"shape": {"name": "circle", "radius": 0}}, "shape.radius: must be greater than 0, got 0"),
    ({"shape": {"name": "circle", "radius": 1, "side": 2}}, "shape.side: unknown key of shape circle"),
    (
        {"shape": {"name": "circle", "radius": 1, "raduis": 2}},
        "shape.raduis: unknown key of shape circle; did you mean shape.radius?",
    ),
    ({"shape": 3}, "shape: must be a table, got 3"),
    ({"corners": [{"x": "many"}]}, "corners.0.x: must be a whole number, got 'many'"),
    ({"corners": [{}, {"lable": "b"}]}, "corners.1.lable: unknown key; did you mean corners.label or spot.label?"),
    ({"corners": [{}, {}, {}]}, "corners: must have at most 2 entries, has 3"),
    ({"corners": "a"}, "corners: must be a list, got 'a'"),
    ({"corners": [{"label": ""}]}, "corners.0.label: must have at least 1 character, got ''"),
    ({"corners": [{"label": "abcd"}]}, "corners.0.label: must have at most 3 characters, got 'abcd'"),
    ({"corners": [{"label": "A"}]}, "corners.0.label: must match pattern '^[a-z]*$', got 'A'"),
    ({"least": 0}, "least: must be at least 1, got 0"),
    ({"least": 10}, "least: must be at most 9, got 10"),
    ({"least": 1.5}, "least: must be a whole number, got 1.5"),
    ({"least": 1e300}, "least: is too large a number, got 1e+300"),
    ({"share": 1}, "share: must be less than 1, got 1"),
    ({"share": math.nan}, "share: must be a finite number, got nan"),
    ({"share": [1]}, "share: must be a number, got a list"),
    ({"colour": "reed"}, 'colour: must be "red" or "blue", got \'reed\'; did you mean "red"?'),
    ({"filled": "perhaps"}, "filled: must be true or false, got 'perhaps'"),
    ({"codes": {"a": {}}}, "codes.a: must be a whole number, got a table"),
    ({"spot": {"y": 1}}, "spot.y: unknown key"),
    ({"spot": {"lable": "b"}}, "spot.lable: unknown key; did you mean spot.label or corners.label?"),
    ({"raduis": 1}, "raduis: unknown key; did you mean other.radius or shape.radius?"),
    ({"colour": "blue", "filled": True}, "blue is never filled"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "told"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_each_fault_in_own_words(table: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate(table, Drawing, "drawing")
    assert caught.value.what == f"drawing: {told}"


def test_every_type_of_fault_has_words() -> None:
    """The fallback is plain too, and quotes no library."""
    custom = InitErrorDetails(type=PydanticCustomError("strange", "Input should be odd"), loc=("least",), input=2)
    error = ValidationError.from_exception_data("Drawing", [custom])
    assert faults_of(error, Drawing, {}) == ["least: has a form that is not allowed here, got 2"]


def test_a_secret_is_not_quoted() -> None:
    table = {"least": "geheim", "geheim": 1, "corners": [{"label": "GEHEIM"}]}
    with pytest.raises(ValidationError) as caught:
        Drawing.model_validate(table)
    assert sorted(faults_of(caught.value, Drawing, table, quoting=False)) == [
        "an unknown key", "corners.0.label: must have at most 3 characters", "least: must be a whole number",
    ]  # fmt: skip
    assert "geheim" in str(faults_of(caught.value, Drawing, table))  # the control


def test_ten_faults_at_most_and_nothing_that_a_terminal_should_not_get() -> None:
    lines = in_one("file", [f"key{index}: unknown key" for index in range(MOST_FAULTS + 5)]).splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("file: 15 faults", "  and 5 more", MOST_FAULTS + 2)
    assert shown("x" * 100) == f"'{'x' * 60}...'"
    assert shown("\x1b[31m") == "'\\x1b[31m'"
    assert shown(10**5000) == "a number of more than 18 digits"
    with pytest.raises(ConfigError, match=r"'\\x1b\[31m': unknown key"):
        validate({"\x1b[31m": 1}, Drawing, "drawing")
