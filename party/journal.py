"""What this party was asked last and what it said, by stage: for `status` and the node's own log.

One small file in the state of a kit, `answers.json`. It holds times, rules and digests, nothing of rows or votes, and
stays here. A party without pinned terms, as in a simulation, keeps none.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field, ValidationError

from consilium.party.home import Home
from consilium.protocol.files import replacing
from consilium.protocol.models import Frozen
from consilium.protocol.refusals import Refusal, Rule

FILE = "answers.json"
HELLO, TRAIN = "query.hello", "train.teacher"
VOTES = ("query.vote", "query.sa_masked", "query.sa_unmask", "query.va_upload")
"""Requests with whose answer votes leave, in plaintext or as part of a sum."""


class LastAnswer(Frozen):
    """To one kind of request. refused: the refusal in words, empty where there is none. federation: its digest, empty
    where the request does not say. late: it was told that the others serve already."""

    at: str
    refused: str = ""
    federation: str = ""
    late: bool = False

    @property
    def rule(self) -> Rule | None:
        """Of the refusal, which the file has in words: its first one."""
        word = self.refused.removeprefix("refused: ").partition(",")[0]
        return Rule(word) if word in set(Rule) else None


class AnswersFile(Frozen):
    """The last answer to each kind of request."""

    answers: Mapping[str, LastAnswer] = Field(default_factory=dict)


def note(home: Home, kind: str, federation: str, late: bool, refusal: Refusal | None) -> None:
    """Write an answer down. Whatever goes wrong, the answer itself must not suffer."""
    if home.terms_file is None:
        return
    refused = "" if refusal is None else f"refused: {refusal}"
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with contextlib.suppress(OSError):
        answers = {**read(home.folder), kind: LastAnswer(at=now, refused=refused, federation=federation, late=late)}
        with replacing(home.state / FILE, mode=0o600, durable=False) as file:
            file.write(AnswersFile(answers=answers).model_dump_json().encode())


def read(folder: Path) -> dict[str, LastAnswer]:
    """By kind of request; empty where nothing was asked, or the file is damaged."""
    try:
        return dict(AnswersFile.model_validate(json.loads((folder / "state" / FILE).read_text())).answers)
    except (OSError, ValueError, ValidationError):
        return {}
