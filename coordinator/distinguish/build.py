"""A mechanism from its name and `key=value` settings, as a person types them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import ValidationError

from consilium.coordinator.mechanisms import ALL_MECHANISMS, Mechanism
from consilium.protocol.config_files import faults_of
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
        return known[name].model_validate(values)
    except ValidationError as error:
        fields = known[name].model_fields
        wanted = ", ".join(key for key in fields if key != "name")
        problems = "; ".join(faults_of(error, known[name], values))
        raise ConfigError(f"mechanism {name}: {problems}", f"Its parameters are {wanted}.") from None


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text
