"""Published students that others wrote, without a pickle: estimators as skops writes them, torch modules as arrays.

What a file names is neither imported nor run, unless it is trusted: classes of `TRUSTED` and those that whoever loads
it names; the factory of a module only as it is passed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from pydantic import Field

from consilium.models.base import Model
from consilium.models.guard import GuardedClassifier
from consilium.models.keys import FactoryKeys, TorchKeys
from consilium.models.naming import UnusableModel, told
from consilium.models.own_model import OwnModel
from consilium.models.published import skops_file
from consilium.models.published.file import Arrays, BadModel, Parts, check_seen, check_shapes, unfit
from consilium.protocol.images import width
from consilium.protocol.models import Frozen
from consilium.protocol.schema import Schema

ESTIMATOR, TORCH = "estimator", "torch"
_MODULE = "module."


@dataclass(frozen=True)
class OwnCodeTrust:
    """What of a model that others wrote may be used: names of `classes`, and the `factory` of a torch module.

    factory : called as factory(inputs=..., classes=..., **parameters), the parameters being those of the file.
    """

    classes: frozenset[str] = frozenset()
    factory: Callable[..., Any] | None = field(default=None, repr=False)


NOTHING = OwnCodeTrust()
"""No more than what this package itself trusts."""


class _Estimator(Frozen):
    title: str = Field(max_length=1000)
    classes: tuple[str, ...] = Field(max_length=1000)


class _Torch(FactoryKeys):
    images: bool


def own_parts(model: OwnModel) -> Parts:
    """The trained model as settings and arrays.

    Raises
    ------
    UnusableModel : it cannot be written without a pickle.
    """
    estimator, seen = model.classifier.estimator, model.classifier.seen.astype(np.int64)
    module = getattr(estimator, "module_", None)
    if hasattr(module, "state_dict"):
        return _torch_parts(estimator, seen)
    content, classes = skops_file.written(estimator, model.title)
    settings = {"title": model.title, "classes": list(classes)}
    return Parts(ESTIMATOR, settings, {"skops": np.frombuffer(content, dtype=np.uint8), "seen": seen})


def trust_of_maker(model: Model, parts: Parts) -> OwnCodeTrust:
    """What whoever trained `model` trusts when it is read again: itself."""
    if parts.kind == ESTIMATOR:
        return OwnCodeTrust(frozenset(parts.settings["classes"]))
    if isinstance(model, OwnModel):
        return OwnCodeTrust(factory=model.classifier.estimator.factory)
    return NOTHING


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


def _estimator(trusted: OwnCodeTrust, arrays: Arrays, settings: _Estimator, schema: Schema) -> Model:
    check_shapes(arrays, {}, {"skops": ("u1", "bytes"), "seen": ("i8", "seen")})
    seen = check_seen(arrays["seen"], schema)
    features = width(schema.representation, len(schema.features))
    estimator = skops_file.read(arrays["skops"].tobytes(), trusted.classes, features)
    return OwnModel(_guarded(seen, estimator), len(schema.classes), settings.title)


def _torch(trusted: OwnCodeTrust, arrays: Arrays, settings: _Torch, schema: Schema) -> Model:
    seen = arrays.pop("seen", np.zeros(0, dtype=np.int64))
    check_shapes({"seen": seen}, {}, {"seen": ("i8", "seen")})
    check_seen(seen, schema)
    if not all(name.startswith(_MODULE) for name in arrays):
        raise unfit("arrays that are of no module")
    factory = trusted.factory
    if factory is None:
        raise BadModel(
            f"the student is a torch module that {settings.factory} makes; nothing was imported",
            "In Python: load_model(path, factory=...), if you trust it",
        )

    import torch  # two seconds to import

    from consilium.models.torch_classifier import TorchClassifier

    features = width(schema.representation, len(schema.features))
    restored = TorchClassifier(TorchKeys(**settings.model_dump()), factory)
    weights = {name.removeprefix(_MODULE): torch.from_numpy(array.copy()) for name, array in arrays.items()}
    try:
        with torch.random.fork_rng(devices=[]):
            module = restored.untrained(features, len(seen))
        module.load_state_dict(weights, strict=True)
    except (Exception, SystemExit) as error:
        action = "Pass the factory that it was trained with"
        raise BadModel(f"the student is not what {settings.factory} makes: {told(error)}", action) from None
    restored.module_, restored.classes_, restored.n_features_in_ = module.eval(), np.arange(len(seen)), features
    return OwnModel(_guarded(seen, restored), len(schema.classes), f"torch {settings.factory}")


def own_kinds(trusted: OwnCodeTrust) -> dict[str, tuple[str, type[Frozen], Callable[[Arrays, Any, Schema], Model]]]:
    """Kind -> what it takes, see `StudentSpec.inputs`; its settings; what puts it together of arrays and settings."""
    return {
        ESTIMATOR: ("representation", _Estimator, partial(_estimator, trusted)),
        TORCH: ("representation", _Torch, partial(_torch, trusted)),
    }


def _torch_parts(estimator: Any, seen: np.ndarray) -> Parts:
    arrays = {}
    for name, tensor in estimator.module_.state_dict().items():
        array = tensor.detach().cpu().numpy()
        if array.dtype.str not in ("<f4", "<f8", "<i8", "<i4", "|u1"):
            raise UnusableModel(
                f"the module's {name} is {array.dtype}, which a student's file does not hold",
                "Keep it as float32, float64, int32, int64 or uint8",
            )
        arrays[_MODULE + name] = array
    settings = estimator.keys.model_dump(include={"factory", "parameters", "images"})
    return Parts(TORCH, settings, {**arrays, "seen": seen})


def _guarded(seen: np.ndarray, estimator: Any) -> GuardedClassifier:
    return GuardedClassifier(seen, b"", int(seen[0]), estimator)
