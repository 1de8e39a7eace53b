"""The pages as the tests read them: fenced blocks with the place where they stand, and text without them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
"""Everything that is kept up to date; the changelog speaks of the past."""

FENCE = re.compile(r"^```(?P<language>[a-z]*)[^\n]*\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        """`docs/deploy.md:31`."""
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"

    @property
    def is_shell(self) -> bool:
        """Whether it holds commands."""
        return self.language in ("sh", "bash") or self.text.startswith("consilium ")


@dataclass(frozen=True)
class Command:
    """One line of a block of commands, without its comment."""

    place: str
    text: str


def blocks() -> list[Block]:
    """All fenced blocks of all pages."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(page, line, match["language"], match["text"]))
    return found


def commands() -> list[Command]:
    """All lines of all blocks of commands; `A && B` is two."""
    found = []
    for block in blocks():
        if not block.is_shell:
            continue
        for number, line in enumerate(block.text.split("\n"), block.line + 1):
            told = re.sub(r"(^|\s)#.*$", "", line).strip()
            found += [
                Command(f"{block.page.relative_to(ROOT).as_posix()}:{number}", part)
                for part in told.split(" && ")
                if part
            ]
    return found


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def inline_code(page: Path) -> list[str]:
    """What stands between backticks outside of fences, on one line."""
    return [" ".join(text.split()) for text in re.findall(r"(?<!`)`([^`]+)`(?!`)", prose(page))]
