"""Which models a published student may be: a fixed list, each with its arrays, and what must hold of them. Whatever a
file says, only these are built, out of numbers whose shapes, types and ranges were checked first. What others wrote is
published without a pickle: estimators as skops writes them, torch modules as arrays. Of these nothing that a file names
is imported or run, unless whoever loads it trusts it: classes beside `skops_file.TRUSTED`, and the factory of a module
as it is passed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pydantic import Field, FiniteFloat

from consilium.models.base import Constant, Model
from consilium.models.images.graph_cnn import GraphCnnModel, Sight
from consilium.models.images.network import HIDDEN, ImageModel
from consilium.models.images.pixels import Pixels, shape_of
from consilium.models.kernel import KernelModel
from consilium.models.keys import FactoryKeys, TorchKeys
from consilium.models.linear import Linear
from consilium.models.naming import UnusableModel, told
from consilium.models.own_model import OwnClassifier, OwnModel
from consilium.models.published import skops_file
from consilium.models.published.file import BadModel
from consilium.protocol.config_files import validate
from consilium.protocol.errors import ConfigError
from consilium.protocol.images import width
from consilium.protocol.models import Frozen
from consilium.protocol.schema import Schema

MOST_ROWS = 100_000
"""Within a model with a kernel: represented, they are far more bytes than in the file."""
MOST_NETWORKS = 4
ESTIMATOR, TORCH = "estimator", "torch"
_MODULE = "module."
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Parts:
    """A model taken apart: its kind, a few settings, and arrays. Of one that others wrote also what may be used to put
    it together: names of classes that are trusted, and the factory of a torch module, called as factory(inputs=...,
    classes=..., **parameters), the parameters being those of the settings."""

    kind: str
    settings: dict[str, Any]
    arrays: Arrays = field(repr=False)
    trusted: frozenset[str] = frozenset()
    factory: Callable[..., Any] | None = field(default=None, repr=False)


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


class _Estimator(Frozen):
    title: str = Field(max_length=1000)
    classes: tuple[str, ...] = Field(max_length=1000)


class _Torch(FactoryKeys):
    images: bool


def take_apart(model: Model) -> Parts:
    """Whoever trained a model trusts all of it. Raises UnusableModel: one that others wrote, which cannot be written
    without a pickle. TypeError: a model of no known kind, which is a fault of this program."""
    match model:
        case Constant():
            return Parts("constant", {}, {"probabilities": np.array(model.probabilities, dtype=np.float64)})
        case Linear():
            arrays = {"coefficients": model.coefficients, "intercept": model.intercept, "seen": model.seen}
            return Parts("linear", {}, arrays)
        case KernelModel():
            offset = {} if model.offset is None else {"offset": model.offset}
            return Parts("kernel", {"gamma": model.gamma}, {"rows": model.rows, "weights": model.weights, **offset})
        case GraphCnnModel():
            networks, arrays = model.sight.networks, {"rows": model.rows, "weights": model.kernel.weights}
            settings: dict[str, Any] = {"gamma": model.kernel.gamma, "scales": list(model.sight.scales)}
            settings["networks"] = [
                {"low": network.pixels.low, "high": network.pixels.high, "channels": network.channels}
                for network in networks
            ]
            for number, network in enumerate(networks):
                arrays |= {f"network-{number}.{name}": array for name, array in network.weights.items()}
            return Parts("graph_cnn", settings, arrays)
        case OwnModel():
            return _own_parts(model)
    raise TypeError(f"{type(model).__name__} is no model that can be published")


def _own_parts(model: OwnModel) -> Parts:
    estimator = model.classifier.estimator
    arrays: Arrays = {"seen": model.classifier.classes_.astype(np.int64)}
    module = getattr(estimator, "module_", None)
    if not hasattr(module, "state_dict"):
        content, classes = skops_file.written(estimator, model.title)
        arrays["skops"] = np.frombuffer(content, dtype=np.uint8)
        settings = {"title": model.title, "classes": list(classes)}
        return Parts(ESTIMATOR, settings, arrays, trusted=frozenset(classes))
    for name, tensor in estimator.module_.state_dict().items():
        array = arrays[_MODULE + name] = tensor.detach().cpu().numpy()
        if array.dtype.str not in ("<f4", "<f8", "<i8", "<i4", "|u1"):
            raise UnusableModel(
                f"the module's {name} is {array.dtype}, which a student's file does not hold",
                "Keep it as float32, float64, int32, int64 or uint8",
            )
    settings = estimator.keys.model_dump(include={"factory", "parameters", "images"})
    return Parts(TORCH, settings, arrays, factory=estimator.factory)


def needed(parts: Parts) -> str:
    """What it takes to load it, for its card; empty for a model of numbers alone."""
    if parts.kind == TORCH:
        return (
            f"a torch module that `{parts.settings['factory']}` makes: pass that as `factory` to `load_model`, if you"
            " trust it; no code of it is in the file"
        )
    if parts.kind != ESTIMATOR:
        return ""
    use = "; `consilium predict FOLDER ROWS.csv` then uses it"
    foreign = [name for name in parts.settings["classes"] if name not in skops_file.TRUSTED]
    action = f"; load it with `load_model(path, trust={foreign!r})`, if you trust them" if foreign else use
    return f"{parts.settings['title']} as skops writes it: the libraries of its classes must be installed{action}"


def put_together(parts: Parts, schema: Schema) -> Model:
    """The model again. Raises BadModel: of no known kind, or its parts do not fit each other or the schema."""
    if parts.kind not in _KINDS:
        raise BadModel(f"the student is of the unknown kind {parts.kind[:40]!r}", f"Known: {', '.join(_KINDS)}")
    settings_type, build = _KINDS[parts.kind]
    try:
        return build(dict(parts.arrays), validate(parts.settings, settings_type, parts.kind), schema, parts)
    except ConfigError as error:
        raise BadModel(f"the student's description: {error.what}", "Such a student must not be used") from None


def _constant(arrays: Arrays, settings: _None, schema: Schema, parts: Parts) -> Model:
    check_shapes(arrays, {"classes": len(schema.classes)}, {"probabilities": ("f8", "classes")})
    return Constant(tuple(float(value) for value in arrays["probabilities"]))


def _linear(arrays: Arrays, settings: _None, schema: Schema, parts: Parts) -> Model:
    wanted = {"coefficients": ("f8", "seen inputs"), "intercept": ("f8", "seen"), "seen": ("i8", "seen")}
    check_shapes(arrays, {"inputs": _width(schema)}, wanted)
    _check_seen(arrays["seen"], schema)
    return Linear(**arrays, classes=len(schema.classes))  # pyright: ignore[reportArgumentType]


def _kernel(arrays: Arrays, settings: _Kernel, schema: Schema, parts: Parts) -> Model:
    offset = arrays.pop("offset", None)
    if offset is not None:
        check_shapes({"offset": offset}, {"classes": len(schema.classes)}, {"offset": ("f8", "classes")})
    rows = _kernel_rows(arrays, _width(schema), schema)
    return KernelModel(rows, arrays["weights"], settings.gamma, offset)


def _graph_cnn(arrays: Arrays, settings: _GraphCnn, schema: Schema, parts: Parts) -> Model:
    if len(settings.scales) != 1 + len(settings.networks):
        raise _unfit(f"{len(settings.scales)} scales for {len(settings.networks)} networks")
    networks = [
        _network(within(arrays, f"network-{number}."), network, schema)
        for number, network in enumerate(settings.networks)
    ]
    rows = _kernel_rows(arrays, len(schema.features), schema)
    sight = Sight(schema.inputs, tuple(networks), settings.scales)
    return GraphCnnModel.around(sight, rows, arrays["weights"], settings.gamma)


def _network(arrays: Arrays, settings: _Network, schema: Schema) -> ImageModel:
    if settings.high <= settings.low:
        raise _unfit(f"pixels from {settings.low:g} to {settings.high:g}")
    pixels = Pixels(shape_of(len(schema.features)), settings.low, settings.high)
    shape, channels, classes = pixels.shape, settings.channels, len(schema.classes)
    bound = {"planes": shape.channels, "five": 5, "c": channels, "d": 2 * channels, "h": HIDDEN, "classes": classes}
    bound["flat"] = 2 * channels * (shape.side // 4) ** 2
    layers = {"0.0": "c planes five five", "0.3": "d c five five", "0.7": "h flat", "1": "classes h"}
    wanted = {f"{layer}.weight": ("f4", sizes) for layer, sizes in layers.items()}
    wanted |= {f"{layer}.bias": ("f4", sizes.split()[0]) for layer, sizes in layers.items()}
    check_shapes(arrays, bound, wanted)
    return ImageModel(pixels, classes, channels, arrays)


def _estimator(arrays: Arrays, settings: _Estimator, schema: Schema, parts: Parts) -> Model:
    check_shapes(arrays, {}, {"skops": ("u1", "bytes"), "seen": ("i8", "seen")})
    seen = _check_seen(arrays["seen"], schema)
    estimator = skops_file.read(arrays["skops"].tobytes(), parts.trusted, _width(schema))
    return OwnModel(OwnClassifier(seen, b"", int(seen[0]), estimator), len(schema.classes), settings.title)


def _torch(arrays: Arrays, settings: _Torch, schema: Schema, parts: Parts) -> Model:
    weights = within(arrays, _MODULE)
    check_shapes(arrays, {}, {"seen": ("i8", "seen")})
    seen = _check_seen(arrays["seen"], schema)
    if parts.factory is None:
        raise BadModel(
            f"the student is a torch module that {settings.factory} makes; nothing was imported",
            "In Python: load_model(path, factory=...), if you trust it",
        )

    import torch  # two seconds to import

    from consilium.models.torch_classifier import TorchClassifier

    restored = TorchClassifier(TorchKeys(**settings.model_dump()), parts.factory)
    try:
        with torch.random.fork_rng(devices=[]):
            module = restored.untrained(_width(schema), len(seen))
        tensors = {name: torch.from_numpy(array.copy()) for name, array in weights.items()}
        module.load_state_dict(tensors, strict=True)
    except (Exception, SystemExit) as error:
        action = "Pass the factory that it was trained with"
        raise BadModel(f"the student is not what {settings.factory} makes: {told(error)}", action) from None
    restored.module_, restored.classes_, restored.n_features_in_ = module.eval(), np.arange(len(seen)), _width(schema)
    own = OwnClassifier(seen, b"", int(seen[0]), restored)
    return OwnModel(own, len(schema.classes), f"torch {settings.factory}")


_KINDS: dict[str, tuple[type[Frozen], Callable[[Arrays, Any, Schema, Parts], Model]]] = {
    "constant": (_None, _constant),
    "linear": (_None, _linear),
    "kernel": (_Kernel, _kernel),
    "graph_cnn": (_GraphCnn, _graph_cnn),
    ESTIMATOR: (_Estimator, _estimator),
    TORCH: (_Torch, _torch),
}


def _width(schema: Schema) -> int:
    return width(schema.representation, len(schema.features))


def within(arrays: Arrays, start: str) -> Arrays:
    """Those whose names begin so, without that, taken out."""
    return {name.removeprefix(start): arrays.pop(name) for name in list(arrays) if name.startswith(start)}


def _kernel_rows(arrays: Arrays, inputs: int, schema: Schema) -> np.ndarray:
    wanted = {"rows": ("f4", "rows inputs"), "weights": ("f4", "rows classes")}
    bound = check_shapes(arrays, {"inputs": inputs, "classes": len(schema.classes)}, wanted)
    if bound["rows"] > MOST_ROWS:
        raise _unfit(f"{bound['rows']} rows, the most is {MOST_ROWS}")
    return arrays["rows"]


def check_shapes(arrays: Arrays, bound: dict[str, int], wanted: dict[str, tuple[str, str]]) -> dict[str, int]:
    """Exactly the `wanted` arrays, each with its type and the named sizes; a size without a value gets one here. Raises
    BadModel."""
    if set(arrays) != set(wanted):
        odd = sorted(name[:40] for name in set(arrays) ^ set(wanted))
        raise _unfit(f"arrays that are missing or too many: {', '.join(map(repr, odd[:5]))}")
    bound = dict(bound)
    for name, (kind, sizes) in wanted.items():
        array, names = arrays[name], sizes.split()
        expected = tuple(bound.get(size, found) for size, found in zip(names, array.shape, strict=False))
        if array.dtype != np.dtype(f"<{kind}") or array.ndim != len(names) or array.shape != expected or not array.size:
            raise _unfit(f"{name} is {array.dtype} of shape {array.shape}")
        bound |= dict(zip(names, array.shape, strict=True))
    return bound


def _check_seen(seen: np.ndarray, schema: Schema) -> np.ndarray:
    """The classes that a model has seen, int64 (seen,): two or more of the schema's, ascending. Raises BadModel."""
    if len(seen) < 2 or seen[0] < 0 or seen[-1] >= len(schema.classes) or (np.diff(seen) <= 0).any():
        raise _unfit("classes that the schema does not have")
    return seen


def _unfit(what: str) -> BadModel:
    return BadModel(f"the student's parts do not fit: {what}", "Such a student must not be used")
