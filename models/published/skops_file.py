"""A trained estimator as skops writes it: arrays and names of classes, in a zip archive without compression.
https://skops.readthedocs.io. skops builds objects of the classes that a file names, so none is built that is not
trusted by name. By itself it trusts scikit-learn's estimators; here are also their parts, LightGBM and XGBoost. Trees
are trusted because what is in them is checked: scikit-learn follows their indices without looking. Other compiled code
(LightGBM's and XGBoost's readers, libsvm) reads the numbers of a file as it always does."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from consilium.models.naming import UnusableModel, told
from consilium.models.published.file import BadModel

_GP = "sklearn.gaussian_process"
_TREE = "sklearn.tree._tree.Tree"
_HISTOGRAM_TREE = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
TRUSTED = frozenset(
    {
        "collections.OrderedDict",
        "lightgbm.basic.Booster",
        "lightgbm.sklearn.LGBMClassifier",
        "numpy.dtype",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        f"{_GP}._gpc._BinaryGaussianProcessClassifierLaplace",
        *(f"{_GP}.kernels.{name}" for name in ("ConstantKernel", "Matern", "Product", "RBF", "Sum", "WhiteKernel")),
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
        "sklearn.utils._bunch.Bunch",
        "xgboost.core.Booster",
        "xgboost.sklearn.XGBClassifier",
        "xgboost.sklearn.XGBRFClassifier",
        _TREE,
        _HISTOGRAM_TREE,
    }
)
"""Beside what skops itself trusts."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
_MOST_SHOWN = 5
_MOST_OBJECTS = 1_000_000
_NOT_CHECKED = re.compile(r"^sklearn\.ensemble\._gb\.")
"""Their prediction writes where the file says, and nothing looks."""


def written(estimator: Any, title: str) -> tuple[bytes, tuple[str, ...]]:
    """The trained estimator as bytes, the same for the same numbers, and the names of its classes that skops does not
    trust by itself. Raises UnusableModel: skops cannot write it, or not so that it is read again."""
    import skops.io

    try:
        content = _canonical(skops.io.dumps(estimator))
        classes = tuple(skops.io.get_untrusted_types(data=content))
        skops.io.loads(content, trusted=[*classes])
    except Exception as error:
        what = f"the student {title} cannot be published without a pickle: {told(error)}"
        action = "Use scikit-learn, LightGBM, XGBoost, torch, or plain attributes and a class at the top of its module"
        raise UnusableModel(what, action) from None
    return content, classes


def read(content: bytes, trusted: frozenset[str], features: int) -> Any:
    """The estimator again, for rows of so many `features`. Nothing that it names is imported before it is trusted.
    Raises BadModel: whatever is wrong with it, or a class that is not trusted."""
    import skops.io

    _check_archive(content)
    allowed = TRUSTED | trusted
    try:
        named = skops.io.get_untrusted_types(data=content)
    except Exception as error:
        raise _damaged(error) from None
    if foreign := [name for name in named if name not in allowed]:
        shown = ", ".join(name[:100] for name in foreign[:_MOST_SHOWN])
        more = f" and {len(foreign) - _MOST_SHOWN} more" if len(foreign) > _MOST_SHOWN else ""
        action = "In Python: load_model(path, trust=[...]) with these names, if you trust whoever made it"
        raise BadModel(f"the student names what is not trusted: {shown}{more}; nothing was imported", action)
    try:
        found = skops.io.loads(content, trusted=sorted(named))
    except ModuleNotFoundError as error:
        raise BadModel(f"the student needs {error.name}, which is not installed", f"pip install {error.name}") from None
    except (Exception, SystemExit) as error:
        raise _damaged(error) from None
    for each in _objects(found):
        _check(each, features)
    return found


def _check_archive(content: bytes) -> None:
    """A zip archive can hold far more than its length; one without compression cannot."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise _damaged(error) from None
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise BadModel("the student's archive is compressed", _ACTION)
    if sum(entry.file_size for entry in entries) > len(content):
        raise BadModel("the student's archive claims more than it holds", _ACTION)


_ACTION = "Such a student must not be used"


def _damaged(error: BaseException) -> BadModel:
    return BadModel(f"the student's estimator cannot be read: {type(error).__name__}", _ACTION)


def _check(found: Any, features: int) -> None:
    """Raise BadModel for trees whose indices lead out of them, and for what cannot be checked."""
    name = f"{type(found).__module__}.{type(found).__qualname__}"
    if _NOT_CHECKED.match(name):
        raise BadModel("gradient boosting of scikit-learn is not read", "Use HistGradientBoostingClassifier")
    if name == _TREE:
        if found.n_features != features:
            raise BadModel(
                f"a tree of the student takes {found.n_features} inputs and rows have {features}: what it reads cannot"
                " be checked",
                "Use no trees behind a transformer that gives another number of columns, as a OneHotEncoder does",
            )
        if found.node_count > found.capacity:
            raise BadModel("a tree of the student is not what it claims", _ACTION)
        inner = found.children_left != -1
        _check_nodes(inner, found.children_left, found.children_right, found.feature, features)
    if name == _HISTOGRAM_TREE:
        nodes = found.nodes
        inner = nodes["is_leaf"] == 0
        if nodes["is_categorical"].any():
            raise BadModel("a tree of the student splits by category, which is not read", "Encode categories before")
        _check_nodes(inner, nodes["left"], nodes["right"], nodes["feature_idx"], features)


def _check_nodes(inner: np.ndarray, left: np.ndarray, right: np.ndarray, feature: np.ndarray, features: int) -> None:
    """Each child comes after its parent, so every way ends; each feature is one of the rows'."""
    at = np.arange(len(inner))
    for child in (left.astype(np.int64), right.astype(np.int64)):
        if not len(inner) or ((child <= at) | (child >= len(inner)))[inner].any():
            raise BadModel("a tree of the student has nodes that form none", _ACTION)
    asked = feature.astype(np.int64)[inner]
    if (asked < 0).any() or (asked >= features).any():
        raise BadModel("a tree of the student asks for inputs which there are not", _ACTION)


def _objects(found: Any) -> Iterator[Any]:
    """Everything that can be reached from an object through attributes and containers, each once."""
    seen: dict[int, Any] = {}
    waiting = [found]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, str | bytes | int | float | type):
            continue
        seen[id(each)] = each  # kept alive, or another object might get its id
        if len(seen) > _MOST_OBJECTS:
            raise BadModel(f"the student has more than {_MOST_OBJECTS} parts", _ACTION)
        yield each
        if isinstance(each, dict):
            waiting += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple | set | frozenset) or (
            isinstance(each, np.ndarray) and each.dtype == object
        ):
            waiting += list(np.ravel(each)) if isinstance(each, np.ndarray) else list(each)
        else:
            waiting.append(getattr(each, "__dict__", None))


def _without_gaps(content: bytes) -> bytes:
    """Zeros where an array of records, as trees have, has bytes between its fields: there is whatever memory held."""
    if not content.startswith(b"\x93NUMPY"):
        return content
    array = np.load(io.BytesIO(content), allow_pickle=False)
    if array.dtype.names is None:
        return content
    clean, out = np.zeros(array.shape, array.dtype), io.BytesIO()
    for name in array.dtype.names:
        clean[name] = array[name]
    np.save(out, clean)
    return out.getvalue()


def _canonical(content: bytes) -> bytes:
    """The same archive with places in memory and the time of writing taken out: equal models have equal bytes."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {entry: _without_gaps(archive.read(entry)) for entry in archive.namelist()}
    names: dict[Any, Any] = {}

    def renamed(node: dict[str, Any]) -> dict[str, Any]:
        if "__id__" in node:
            node["__id__"] = names.setdefault(node["__id__"], len(names) + 1)
        if (name := node.get("file")) in files:
            node["file"] = names.setdefault(name, f"{len(names) + 1}.{name.rpartition('.')[2]}")
        return node

    table = json.loads(files.pop("schema.json"), object_hook=renamed)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for old, data in sorted(files.items(), key=lambda item: names.get(item[0], item[0])):
            archive.writestr(zipfile.ZipInfo(names.get(old, old), _EPOCH), data)
        archive.writestr(zipfile.ZipInfo("schema.json", _EPOCH), json.dumps(table))
    return out.getvalue()
