"""Run what README and the tutorial show, as written, in the environment that README's first command makes.

    python3 tools/blocks.py [--list] [PAGE ...]

It needs nothing but Python. Blocks of shell and Python run in the checkout's folder, in their order, page by page. A
block of `text` after one says what it prints: each of its lines must stand in the output, in that order, where `...` is
any text. A block that cannot run here has a comment before it, `<!-- elsewhere: WHY -->`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/tutorial.md")
BLOCK = re.compile(
    r"(?:^<!-- elsewhere: (?P<why>[^\n]*) -->\n+)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$"
    r"(?:\n+^```text\n(?P<said>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
RUNS = {"sh": ("bash", "-euo", "pipefail", "-c"), "python": ("python", "-c")}


@dataclass(frozen=True)
class Block:
    """place: `README.md:12`. said: what it must print. why: it runs elsewhere."""

    place: str
    kind: str
    text: str
    said: str
    why: str


def blocks(page: str) -> Iterator[Block]:
    """All that a page shows, in its order."""
    written = (ROOT / page).read_text(encoding="utf-8")
    for found in BLOCK.finditer(written):
        line = written.count("\n", 0, found.start("kind")) + 1
        yield Block(f"{page}:{line}", found["kind"], found["text"], found["said"] or "", found["why"] or "")


def missing(said: str, output: str) -> str:
    """The first line of `said` that `output` does not have after the one before; empty where it has them all."""
    place, printed = 0, re.sub(r"\s+", " ", output)
    for line in filter(None, map(str.strip, said.splitlines())):
        parts = (re.escape(re.sub(r"\s+", " ", part)) for part in line.split("..."))
        found = re.compile(".*?".join(parts)).search(printed, place)
        if found is None:
            return line
        place = found.end()
    return ""


def run(block: Block) -> str:
    """What is wrong with it; empty where nothing is."""
    if block.kind not in RUNS:
        return f"nobody runs a block of {block.kind or 'no kind'}: write sh or python"
    paths = os.pathsep.join([str(ROOT / ".venv" / "bin"), os.environ["PATH"]])
    done = subprocess.run(
        [*RUNS[block.kind], block.text], cwd=ROOT, env={**os.environ, "PATH": paths},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        return f"exit code {done.returncode}\n{done.stdout}"
    if line := missing(block.said, done.stdout):
        return f"it does not print {line!r}\n{done.stdout}"
    return ""


def main(arguments: list[str]) -> int:
    """Exit code 1: a block is not as its page says."""
    pages = [name for name in arguments if not name.startswith("--")] or PAGES
    wrong = 0
    for block in (block for page in pages for block in blocks(page)):
        title = f"{block.place}  {block.kind}  {block.text.splitlines()[0]}"
        if block.why:
            print(f"elsewhere  {title} ({block.why})", flush=True)
        elif "--list" in arguments:
            print(f"runs       {title}", flush=True)
        else:
            start = time.monotonic()
            told = run(block)
            wrong += bool(told)
            print(
                f"{'WRONG' if told else 'ok':10} {title} ({time.monotonic() - start:.0f} s)\n{told}".strip(), flush=True
            )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
