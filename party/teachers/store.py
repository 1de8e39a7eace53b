"""Teachers on the party's own disk, one set for each federation; they never travel.

They belong to the federation and not to the coordinator's run, so that a coordinator that was started again finds them
and gets the same votes. `made_from` tells whether they are still those of the party's file and of what was asked.

A manifest with the SHA-256 of each file is written last, so that a half-written set is never mistaken for a whole one.
The files are pickles: they are loaded only from the party's own state folder and only with the hash that was written.
"""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from consilium.models.naming import unpickled
from consilium.models.teachers import Teacher
from consilium.protocol.files import replacing
from consilium.protocol.refusals import Refused, Rule
from consilium.protocol.rows.schema import Schema

MANIFEST = "teachers.json"


@dataclass(frozen=True)
class TeacherSet:
    """Teachers and what they were made from.

    digest: of this very set, so of the votes that it gives. thresholds: float64 (teachers, classes), see
    `party.teachers.voting`; None where each teacher votes for its own prediction.
    """

    schema: Schema
    made_from: str
    digest: str
    teachers: list[Teacher] = field(repr=False)
    thresholds: np.ndarray | None = field(default=None, repr=False)


def save(
    folder: Path,
    federation: str,
    made_from: str,
    schema: Schema,
    teachers: Sequence[Teacher],
    thresholds: np.ndarray | None = None,
) -> None:
    """Write a federation's teachers. Files that a power cut damages do not match their hash and are trained anew."""
    hashes = []
    for index, teacher in enumerate(teachers):
        content = pickle.dumps(teacher)
        with replacing(folder / f"teacher-{index:03d}.pickle", 0o600, durable=False) as file:
            file.write(content)
        hashes.append(hashlib.sha256(content).hexdigest())
    manifest = {
        "federation": federation,
        "made_from": made_from,
        "schema": schema.model_dump(mode="json"),
        "teachers": hashes,
        "thresholds": None if thresholds is None else thresholds.tolist(),
    }
    with replacing(folder / MANIFEST, 0o600, durable=False) as file:
        file.write(json.dumps(manifest, sort_keys=True).encode())


def load(folder: Path, federation: str) -> TeacherSet:
    """The teachers that were saved for this federation.

    Raises
    ------
    Refused : nothing was trained for it, a file is not what was written, or another version wrote it (NOT_TRAINED).
    """
    try:
        content = (folder / MANIFEST).read_bytes()
        manifest = json.loads(content)
        if manifest["federation"] != federation:
            raise Refused(Rule.NOT_TRAINED, detail=f"{folder}: trained for another federation")
        teachers = []
        for index, expected in enumerate(manifest["teachers"]):
            teacher = (folder / f"teacher-{index:03d}.pickle").read_bytes()
            if hashlib.sha256(teacher).hexdigest() != expected:
                raise Refused(Rule.NOT_TRAINED, detail=f"{folder}: teacher {index} is not the file that was written")
            teachers.append(unpickled(teacher))
        return TeacherSet(
            Schema.model_validate(manifest["schema"]),
            manifest["made_from"],
            hashlib.sha256(content).hexdigest(),
            teachers,
            None if manifest["thresholds"] is None else np.array(manifest["thresholds"], dtype=np.float64),
        )
    except (OSError, ValueError, KeyError, AttributeError, ImportError, pickle.UnpicklingError) as error:
        raise Refused(Rule.NOT_TRAINED, detail=f"{folder}: {type(error).__name__}") from None
