"""Tutorials, as a reader goes through them: every command and every block of Python in its order, in one folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.conftest import SHORTER
from tests.docs.conftest import consilium as in_a_folder
from tests.docs.pages import ROOT, Block, Command, blocks

PAGES = sorted(path.name for path in (ROOT / "docs").glob("tutorial-*.md"))
ELSEWHERE = r"pip |consilium attack stroke$"
"""Fetches from the network; takes minutes, see tests/simulations/attack/test_command.py."""
CODES = {r"data check clinics\.csv": 1}
"""The check says that the file must be mended."""


def shortened(words: list[str]) -> list[str]:
    """The same command over ten hospitals; what is printed comes last, and so wins."""
    if words[0] in ("run", "prepare") and "own.toml" not in words:
        named = words[1:2] if words[1:2] == ["stroke"] else []
        return [words[0], *named, *SHORTER["stroke"], *words[1 + len(named) :]]
    return words


def go_through(page: list[Block], folder: Path) -> dict[str, str]:
    """All of a page: command -> what it said."""
    outputs = {}
    for block in page:
        if block.language == "python":
            exec(compile(block.text, block.place, "exec"), {})
        elif block.language == "toml":
            (folder / "shapes.toml").write_text(block.text, encoding="utf-8")
        for line in block.text.splitlines() if block.is_shell else []:
            if re.match(ELSEWHERE, line):
                continue
            done = in_a_folder(*shortened(Command(block.place, line).words[1:]), cwd=folder)
            expected = next((code for text, code in CODES.items() if re.search(text, line)), 0)
            assert done.exit_code == expected, f"{block.place}: {line}: {done.output}"
            outputs[line] = done.output
    return outputs


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.proofs if re.search("15|60", name) else pytest.mark.slow) for name in PAGES],
)
def test_a_tutorial_works_from_top_to_bottom(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outputs = go_through([block for block in blocks() if block.page.name == name], tmp_path)
    if name == "tutorial-own-table.md":
        first, second = (said for line, said in outputs.items() if line.startswith("consilium data check"))
        planted = ("'> 89'", "'NA'", "spelled in several", "'admitted'", "write x / 18.016")
        assert [fault for fault in planted if fault not in " ".join(first.split())] == []
        assert "18.016" not in second and "For noise that protects" in outputs["consilium run own.toml --out own"]
