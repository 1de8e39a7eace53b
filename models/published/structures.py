"""Which models a published student may be: a fixed list, each with its arrays, and what must hold of them.

Whatever a file says, only these are built, out of numbers whose shapes, types and ranges were checked first; and those
that others wrote (`published.own_models`), as far as whoever loads the file trusts them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pydantic import Field, FiniteFloat

from consilium.models.base import Constant, Model
from consilium.models.images.graph_cnn import GraphCnnModel, Sight
from consilium.models.images.network import HIDDEN, ImageModel
from consilium.models.images.pixels import Pixels, shape_of
from consilium.models.kernel import KernelModel
from consilium.models.keys import Inputs
from consilium.models.own_model import OwnModel
from consilium.models.published.file import Arrays, BadModel, Parts, check_seen, check_shapes, unfit
from consilium.models.published.own_models import NOTHING, OwnCodeTrust, own_kinds, own_parts
from consilium.models.tabular import Linear
from consilium.protocol.config_files import validate
from consilium.protocol.errors import ConfigError
from consilium.protocol.images import width
from consilium.protocol.models import Frozen
from consilium.protocol.schema import Schema

MOST_ROWS = 100_000
"""Within a model with a kernel: represented, they are far more bytes than in the file."""

MOST_NETWORKS = 4


class _None(Frozen):
    pass


class _Kernel(Frozen):
    gamma: FiniteFloat = Field(gt=0)


class _Network(Frozen):
    low: FiniteFloat
    high: FiniteFloat
    channels: int = Field(ge=1, le=1024)


class _GraphCnn(Frozen):
    gamma: FiniteFloat = Field(gt=0)
    scales: tuple[FiniteFloat, ...]
    networks: tuple[_Network, ...] = Field(min_length=1, max_length=MOST_NETWORKS)


def take_apart(model: Model) -> Parts:
    """A trained model as settings and arrays.

    Raises
    ------
    UnusableModel : one that others wrote, which cannot be written without a pickle. TypeError : a model of no known
        kind, which is a fault of this program.
    """
    match model:
        case Constant():
            return Parts("constant", {}, {"probabilities": np.array(model.probabilities, dtype=np.float64)})
        case Linear():
            arrays = {"coefficients": model.coefficients, "intercept": model.intercept, "seen": model.seen}
            return Parts("linear", {}, arrays)
        case KernelModel():
            offset = {} if model.offset is None else {"offset": model.offset}
            arrays = {"rows": model.rows, "weights": model.weights, **offset}
            return Parts("kernel", {"gamma": model.gamma}, arrays)
        case GraphCnnModel():
            networks = model.sight.networks
            settings = {
                "gamma": model.kernel.gamma,
                "scales": list(model.sight.scales),
                "networks": [_network_settings(network) for network in networks],
            }
            seen = {
                f"network-{number}.{name}": array
                for number, network in enumerate(networks)
                for name, array in network.weights.items()
            }
            return Parts("graph_cnn", settings, {"rows": model.rows, "weights": model.kernel.weights, **seen})
        case OwnModel():
            return own_parts(model)
    raise TypeError(f"{type(model).__name__} is no model that can be published")


def put_together(parts: Parts, schema: Schema, inputs: Inputs, trusted: OwnCodeTrust = NOTHING) -> Model:
    """The model again. `trusted`: what of a model that others wrote may be used here.

    Raises
    ------
    BadModel : not one of the known kinds, or its parts do not fit each other or the schema.
    """
    kinds = {**_BUILDERS, **own_kinds(trusted)}
    if parts.kind not in kinds:
        raise BadModel(f"the student is of the unknown kind {parts.kind[:40]!r}", f"Known: {', '.join(kinds)}")
    wanted, settings_type, build = kinds[parts.kind]
    if wanted not in (inputs, None):
        raise BadModel(f"a student of kind {parts.kind} does not take {inputs}", "Such a student must not be used")
    try:
        return build(dict(parts.arrays), validate(parts.settings, settings_type, parts.kind), schema)
    except ConfigError as error:
        raise BadModel(f"the student's description: {error.what}", "Such a student must not be used") from None


def _constant(arrays: Arrays, settings: _None, schema: Schema) -> Model:
    check_shapes(arrays, {"classes": len(schema.classes)}, {"probabilities": ("f8", "classes")})
    return Constant(tuple(float(value) for value in arrays["probabilities"]))


def _linear(arrays: Arrays, settings: _None, schema: Schema) -> Model:
    wanted = {"coefficients": ("f8", "seen inputs"), "intercept": ("f8", "seen"), "seen": ("i8", "seen")}
    check_shapes(arrays, {"inputs": _width(schema)}, wanted)
    check_seen(arrays["seen"], schema)
    return Linear(**arrays, classes=len(schema.classes))  # pyright: ignore[reportArgumentType]


def _network(arrays: Arrays, settings: _Network, schema: Schema) -> ImageModel:
    if settings.high <= settings.low:
        raise unfit(f"pixels from {settings.low:g} to {settings.high:g}")
    pixels = Pixels(shape_of(len(schema.features)), settings.low, settings.high)
    shape, channels, classes = pixels.shape, settings.channels, len(schema.classes)
    bound = {"planes": shape.channels, "five": 5, "c": channels, "d": 2 * channels, "h": HIDDEN, "classes": classes}
    bound["flat"] = 2 * channels * (shape.side // 4) ** 2
    check_shapes(
        arrays,
        bound,
        {
            "0.0.weight": ("f4", "c planes five five"),
            "0.0.bias": ("f4", "c"),
            "0.3.weight": ("f4", "d c five five"),
            "0.3.bias": ("f4", "d"),
            "0.7.weight": ("f4", "h flat"),
            "0.7.bias": ("f4", "h"),
            "1.weight": ("f4", "classes h"),
            "1.bias": ("f4", "classes"),
        },
    )
    return ImageModel(pixels, classes, channels, arrays)


def _kernel(arrays: Arrays, settings: _Kernel, schema: Schema) -> Model:
    offset = arrays.pop("offset", None)
    if offset is not None:
        check_shapes({"offset": offset}, {"classes": len(schema.classes)}, {"offset": ("f8", "classes")})
    rows = _kernel_rows(arrays, _width(schema), schema)
    return KernelModel(rows, arrays["weights"], settings.gamma, offset)


def _graph_cnn(arrays: Arrays, settings: _GraphCnn, schema: Schema) -> Model:
    if len(settings.scales) != 1 + len(settings.networks):
        raise unfit(f"{len(settings.scales)} scales for {len(settings.networks)} networks")
    networks = []
    for number, network in enumerate(settings.networks):
        start = f"network-{number}."
        own = {name.removeprefix(start): arrays.pop(name) for name in list(arrays) if name.startswith(start)}
        networks.append(_network(own, network, schema))
    rows = _kernel_rows(arrays, len(schema.features), schema)
    sight = Sight(schema.inputs, tuple(networks), settings.scales)
    return GraphCnnModel.around(sight, rows, arrays["weights"], settings.gamma)


_BUILDERS: dict[str, tuple[Inputs | None, type[Frozen], Callable[[Arrays, Any, Schema], Model]]] = {
    "constant": (None, _None, _constant),
    "linear": ("representation", _None, _linear),
    "kernel": ("representation", _Kernel, _kernel),
    "graph_cnn": ("features", _GraphCnn, _graph_cnn),
}


def _width(schema: Schema) -> int:
    return width(schema.representation, len(schema.features))


def _network_settings(model: ImageModel) -> dict[str, Any]:
    return {"low": model.pixels.low, "high": model.pixels.high, "channels": model.channels}


def _kernel_rows(arrays: Arrays, width: int, schema: Schema) -> np.ndarray:
    wanted = {"rows": ("f4", "rows width"), "weights": ("f4", "rows classes")}
    bound = check_shapes(arrays, {"width": width, "classes": len(schema.classes)}, wanted)
    if bound["rows"] > MOST_ROWS:
        raise unfit(f"{bound['rows']} rows, the most is {MOST_ROWS}")
    return arrays["rows"]
