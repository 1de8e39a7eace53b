"""The methods that a study can compare; a new one is a class of `StudyMethod`, named here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from consilium.protocol.config_files import validate
from consilium.protocol.errors import ConfigError
from consilium.simulations.methods.base import StudyMethod
from consilium.simulations.methods.federated import FedAvgMethod
from consilium.simulations.methods.hand_labels import LabelledByHand
from consilium.simulations.methods.noisy_average import NoisyAverage
from consilium.simulations.methods.pate import Pate
from consilium.simulations.methods.pooled import PooledModel
from consilium.simulations.methods.private_gradient import PrivateGradient
from consilium.simulations.methods.teachers import LocalOnly, Plurality

Method = LocalOnly | PooledModel | LabelledByHand | Plurality | Pate | NoisyAverage | PrivateGradient | FedAvgMethod
METHODS: tuple[type[StudyMethod], ...] = get_args(Method)
"""Every method."""

_KINDS = {str(get_args(kind.model_fields["name"].annotation)[0]): kind for kind in METHODS}
METHOD_NAMES = tuple(_KINDS)


def method_of(described: object, where: str = "methods") -> StudyMethod:
    """A method from its name, or from a table with `name` and its keys. `where`: the key that it stands at.

    Raises
    ------
    ConfigError : no such method, a key that it has not, or a value that it may not have.

    >>> method_of("pooled"), method_of({"name": "hand_labels", "labels": 300}).title
    (PooledModel(name='pooled', kind='teacher'), 'labels by hand')
    """
    table: dict[str, Any] = dict(described) if isinstance(described, Mapping) else {"name": described}
    name = table.get("name")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ConfigError(
            f"{where}: no method {name!r}", f"Choose one of {', '.join(_KINDS)}, or a table with such a name"
        )
    return validate(table, kind, f"{where}: {name}")
