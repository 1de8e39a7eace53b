"""Teachers and students by the name of their kind, for tests that go through several kinds."""

from __future__ import annotations

from typing import Any

from consilium.models.keys import TEACHERS, TRAINERS
from consilium.student.config import StudentSpec


def teacher_of(model: str, **keys: Any) -> Any:
    """A teacher of this kind, with those of `keys` that the kind has."""
    (kind,) = (kind for kind in TEACHERS if kind.model_fields["model"].default == model)
    return kind(**{key: value for key, value in keys.items() if key in kind.model_fields})


def student_of(trainer: str = "logistic_regression", **keys: Any) -> StudentSpec:
    """A student that trains this kind; of `keys` that are no student's, the kind gets those that it has."""
    (kind,) = (kind for kind in TRAINERS if kind.model_fields["name"].default == trainer)
    general = {key: value for key, value in keys.items() if key in StudentSpec.model_fields}
    special = {key: value for key, value in keys.items() if key in kind.model_fields}
    return StudentSpec.model_validate({**general, "trainer": {"name": trainer, **special}})
