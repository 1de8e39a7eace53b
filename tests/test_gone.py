"""What went stands nowhere: no identifier, key, command or file name of tools/gone.txt, in code, pages or help."""

from __future__ import annotations

import re

from tests.rooms import ROOT
from tools.house import tracked

SPEAKS_OF_IT = {"CHANGELOG.md", "tools/gone.txt"}
TEXT = {"", ".cfg", ".css", ".j2", ".js", ".json", ".md", ".proto", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml"}


def gone() -> list[str]:
    lines = (ROOT / "tools" / "gone.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def pattern(names: list[str]) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, names))})(?![\w-])")


def test_a_name_is_found_as_a_word() -> None:
    found = pattern(["old_key", "--old"])
    assert found.findall("an old_key, --old, my_old_key, --older, old_keys") == ["old_key", "--old"]


def test_what_went_stands_nowhere() -> None:
    names = gone()
    assert len(names) == len(set(names)) > 10
    wanted, wrong = pattern(names), []
    for name in tracked():
        path = ROOT / name
        if name in SPEAKS_OF_IT or path.suffix not in TEXT or path.is_symlink():
            continue
        text = path.read_text(encoding="utf-8", errors="ignore")
        wrong += [f"{name}:{text.count(chr(10), 0, found.start()) + 1}: {found[0]}" for found in wanted.finditer(text)]
    assert wrong == []
