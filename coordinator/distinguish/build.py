"""A mechanism from its name and `key=value` settings, as a person types them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import TypeAdapter, ValidationError

from consilium.coordinator.mechanisms import ALL_MECHANISMS, AnyMechanism, Mechanism
from consilium.protocol.errors import ConfigError


def build_mechanism(name: str, settings: Sequence[str]) -> Mechanism:
    """The mechanism `name` with its parameters.

    Raises
    ------
    ConfigError : no such mechanism, a setting that is not key=value, or a parameter that is unknown, missing or wrong.

    >>> build_mechanism("gnmax", ["sigma=40"]).describe()
    'GNMax, sigma 40'
    """
    known = {str(each.model_fields["name"].default): each for each in ALL_MECHANISMS}
    if name not in known:
        raise ConfigError(f"there is no mechanism {name!r}", f"Choose one of {', '.join(sorted(known))}.")
    values: dict[str, object] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {setting!r} is not key=value", "Write for example --set sigma=40.")
        if key in values or key == "name":
            raise ConfigError(f"--set {key} is given twice", "Give every parameter once.")
        values[key] = _value(text)
    try:
        return TypeAdapter(AnyMechanism).validate_python({"name": name, **values})
    except ValidationError as error:
        fields = known[name].model_fields
        wanted = ", ".join(key for key in fields if key != "name")
        problems = "; ".join(_words(dict(each), name) for each in error.errors())
        raise ConfigError(f"mechanism {name}: {problems}", f"Its parameters are {wanted}.") from None


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _words(problem: dict[str, object], name: str) -> str:
    where = problem.get("loc")
    parts = [str(part) for part in where if part != name] if isinstance(where, tuple) else []
    return f"{'.'.join(parts)}: {problem['msg']}" if parts else str(problem["msg"])
