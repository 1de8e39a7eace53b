"""Teachers on the party's own disk, keyed by run; they never travel.

A manifest with the SHA-256 of each file is written last, so that a half-written set is never taken for whole. The
files are pickles: they are loaded only from the party's own state folder and only with the hash that was written.
"""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Sequence
from pathlib import Path

from party.teachers import Teacher
from protocol.refusals import Refused, Rule
from protocol.schema import Schema

MANIFEST = "teachers.json"


def save(folder: Path, federation: str, schema: Schema, teachers: Sequence[Teacher]) -> None:
    """Write the teachers of one run. Files that a power cut damages do not match their hash and are trained anew."""
    hashes = []
    for index, teacher in enumerate(teachers):
        content = pickle.dumps(teacher)
        (folder / f"teacher-{index:03d}.pickle").write_bytes(content)
        hashes.append(hashlib.sha256(content).hexdigest())
    manifest = {"federation": federation, "schema": schema.model_dump(mode="json"), "teachers": hashes}
    temporary = folder / (MANIFEST + ".part")
    temporary.write_text(json.dumps(manifest, sort_keys=True), encoding="utf-8")
    temporary.replace(folder / MANIFEST)


def load(folder: Path, federation: str) -> tuple[Schema, list[Teacher]]:
    """The schema and teachers that were saved for this run.

    Raises
    ------
    Refused : nothing was trained for this federation, or a file is not what was written (NOT_TRAINED).
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        if manifest["federation"] != federation:
            raise Refused(Rule.NOT_TRAINED, detail=f"{folder}: trained for another federation")
        teachers = []
        for index, expected in enumerate(manifest["teachers"]):
            content = (folder / f"teacher-{index:03d}.pickle").read_bytes()
            if hashlib.sha256(content).hexdigest() != expected:
                raise Refused(Rule.NOT_TRAINED, detail=f"{folder}: teacher {index} is not the file that was written")
            teachers.append(pickle.loads(content))
        return Schema.model_validate(manifest["schema"]), teachers
    except (OSError, ValueError, KeyError) as error:
        raise Refused(Rule.NOT_TRAINED, detail=f"{folder}: {type(error).__name__}") from None
