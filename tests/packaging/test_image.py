"""What the Dockerfile copies: enough to build the very same wheel, and no secret."""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path, PurePosixPath

from tests.packaging.conftest import PLANTED, ROOMS, ROOT, build


def sent(context: Path) -> list[str]:
    """What Docker sends of a context. Of the rules in .dockerignore that fit a file or its folder, the last decides."""
    rules = []
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            pattern = re.escape(line.removeprefix("!")).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
            rules.append((re.compile(pattern), line.startswith("!")))
    names = [file.relative_to(context).as_posix() for file in context.rglob("*") if file.is_file()]
    chosen = []
    for name in names:
        kept = True
        for pattern, keep in rules:
            if any(pattern.fullmatch(str(part)) for part in (PurePosixPath(name), *PurePosixPath(name).parents)):
                kept = keep
        if kept:
            chosen.append(name)
    return chosen


def names_in(wheel: Path) -> set[str]:
    """Its files."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_image_is_built_from_code_only(checkout: Path, wheel: Path, tmp_path: Path) -> None:
    source = tmp_path / "src"
    for name in sent(checkout):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(checkout / name, source / name)
        assert PLANTED.encode() not in (source / name).read_bytes(), name
    assert {path.name for path in source.iterdir()} == {
        *ROOMS,
        "consilium",
        *("pyproject.toml", "constraints.txt", "README.md", "LICENSE"),
    }
    made = build(source, "wheel", tmp_path / "wheel")
    assert names_in(wheel) - names_in(made) == set()
    same = made.read_bytes() == wheel.read_bytes()
    assert same, "pytest takes minutes to show how two wheels differ"
