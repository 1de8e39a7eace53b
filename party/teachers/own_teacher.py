"""The `[teacher]` table of `party.toml`: a party's own choice, whatever kind the coordinator asks for.

Only a party itself may name a scikit-learn class. No kind that a coordinator may ask for (`protocol.parties.teachers`)
has such a key: nobody else can make a party import anything.
"""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from consilium.protocol.parties.teachers import AnyTeacher, TeacherKind

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

CLASS_PATTERN = r"^sklearn(\.[a-z][a-z0-9_]*)+\.[A-Z][A-Za-z0-9]*$"


class SklearnSpec(TeacherKind):
    """Any classifier of scikit-learn, by name.

    estimator: for example "sklearn.svm.SVC". parameters: its arguments; `random_state` is given where it has one.
    """

    may_refuse_rows: ClassVar[bool] = True

    model: Literal["sklearn"]
    estimator: str = Field(pattern=CLASS_PATTERN, max_length=200)
    parameters: dict[str, bool | int | float | str] = Field(default_factory=dict)

    @property
    def title(self) -> str:
        """What people call it."""
        return self.estimator

    @model_validator(mode="after")
    def _can_be_built(self) -> SklearnSpec:
        try:
            self.build(0)
        except (TypeError, ImportError, AttributeError) as error:
            raise ValueError(f"{self.estimator} cannot be built: {error}") from None
        return self

    def build(self, seed: int) -> BaseEstimator:
        """The untrained estimator.

        Raises
        ------
        ValueError : the name is of something else than a classifier of scikit-learn. TypeError, ImportError,
            AttributeError : there is no such class, or it has no such arguments.
        """
        from sklearn.base import BaseEstimator, ClassifierMixin  # a second to import: only for those who name a class

        module, _, name = self.estimator.rpartition(".")
        found = getattr(importlib.import_module(module), name)
        if not (inspect.isclass(found) and issubclass(found, ClassifierMixin) and issubclass(found, BaseEstimator)):
            raise ValueError(f"{self.estimator} is no classifier")
        if not found.__module__.startswith("sklearn."):
            raise ValueError(f"{self.estimator} is a class of {found.__module__}, not of scikit-learn")
        parameters: dict[str, Any] = dict(self.parameters)
        if "random_state" in inspect.signature(found).parameters:
            parameters.setdefault("random_state", seed % 2**32)
        return found(**parameters)


OwnTeacher = Annotated[AnyTeacher | SklearnSpec, Field(discriminator="model")]
"""Any kind that a coordinator may ask for, or a class of scikit-learn."""
