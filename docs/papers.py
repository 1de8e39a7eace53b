"""The items of docs/laboratory/papers.md: what five documents state, and how far Consilium has it; counted here.

They stand in `docs/figures/papers.json`, one a line. `docs.figures` (`make figures`) renders the page from there:
`<!-- items F -->` is the table of a document, `<!-- items counts -->` that of how many are in which state. In a text
`{papers/strong :: 100 :: exact, CKS}` is a cell of that figure, so a figure that moves moves here too.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, model_validator

from docs.marked import DOCS, pattern, with_parts

ITEMS = pattern("items")
DOCUMENTS = "FVSPN"
State = Literal["covered", "substitute", "partly", "not yet", "no"]
STATES: tuple[State, ...] = get_args(State)
CELL = re.compile(r"\{([^{}]+ :: [^{}]+ :: [^{}]+)\}")


class Item(BaseModel):
    """A statement, table, figure or experiment of a document.

    number: F1. item: where it stands, and what it says. paper: its figure. here: ours. differs: what differs.
    command: what measures ours. substitute: the other data or size, named where the state is that.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: str
    item: str
    paper: str = ""
    here: str = ""
    differs: str = ""
    command: str = ""
    state: State
    substitute: str = ""

    @model_validator(mode="after")
    def _fits(self) -> Item:
        if not re.fullmatch(rf"[{DOCUMENTS}][1-9]\d?", self.number):
            raise ValueError(f"{self.number!r} is no letter of a document and a number")
        if (self.state == "substitute") != bool(self.substitute):
            raise ValueError(f"{self.number}: a substitute, and nothing else, names the other data or size")
        return self

    def line(self, cell: Callable[[str], str]) -> str:
        """A row of its document's table."""
        state = f"substitute: {self.substitute}" if self.substitute else self.state
        differs = "; ".join(part for part in (self.differs, self.command) if part)
        texts = (self.number, self.item, self.paper, self.here, differs, state)
        return (
            "|"
            + "|".join(f" {CELL.sub(lambda match: cell(match[1]), text)} " if text else " " for text in texts)
            + "|\n"
        )


def read_items(docs: Path = DOCS) -> list[Item]:
    """All items, in their order; none without the file. Raises ValueError for one that does not fit."""
    path = docs / "figures" / "papers.json"
    items = [Item(**content) for content in json.loads(path.read_text(encoding="utf-8"))] if path.exists() else []
    for document in DOCUMENTS:
        numbers = [item.number for item in items if item.number[0] == document]
        if numbers != [f"{document}{place}" for place in range(1, len(numbers) + 1)]:
            raise ValueError(f"{path}: the items of {document} are not numbered from 1 on")
    return items


def counts(items: Sequence[Item]) -> str:
    """How many of each document are in which state."""
    lines = [["", "items", *STATES], ["---"] * (2 + len(STATES))]
    for name, documents in (*((f"**{document}**", document) for document in DOCUMENTS), ("together", DOCUMENTS)):
        states = Counter(item.state for item in items if item.number[0] in documents)
        lines.append([name, str(states.total()), *(str(states[state]) for state in STATES)])
    return "".join(map(_line, lines))


def _line(cells: Sequence[str]) -> str:
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|\n"


def with_items(text: str, items: Sequence[Item], cell: Callable[[str], str]) -> str:
    """A page with its tables of items. Raises ValueError for a mark that names no document."""

    def table(name: str) -> str:
        if name == "counts":
            return counts(items)
        lines = [item.line(cell) for item in items if item.number[0] == name]
        if not lines:
            raise ValueError(f"there are no items of {name!r}; documents are {', '.join(DOCUMENTS)}")
        return "| # | item | paper | here | what differs; command | state |\n|---|---|---|---|---|---|\n" + "".join(
            lines
        )

    return with_parts(text, ITEMS, table)
