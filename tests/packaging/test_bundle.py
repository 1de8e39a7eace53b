"""What travels with `flwr run .`: code, and never keys, runs, data or a party's home; and the code runs on its own.

What the Dockerfile copies: enough to build the very same wheel, and no secret.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from flwr.cli.build import build_fab_from_disk
from flwr.cli.config_utils import load_and_validate

from tests.packaging.conftest import PLANTED, ROOMS, ROOT, build
from tests.packaging.test_rooms import BUNDLED

IMPORTS = """
import sys
import consilium.coordinator.server_app, consilium.node_app, consilium
found = {module.__file__ for name, module in sys.modules.items() if name.split(".")[0] == "consilium"}
outside = sorted(file for file in found if not file.startswith(sys.argv[1]))
assert not outside, outside
assert not {"consilium.simulations", "consilium.student"} & sys.modules.keys()
print(consilium.coordinator.server_app.app, consilium.node_app.app)
"""


@pytest.fixture(scope="module")
def bundle(checkout: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(build_fab_from_disk(checkout)))


def test_the_bundle_holds_code_only(bundle: zipfile.ZipFile) -> None:
    names = bundle.namelist()
    for name in names:
        assert PLANTED.encode() not in bundle.read(name), name
    code = [name for name in names if name not in ("pyproject.toml", ".info/CONTENT")]
    assert {name.split("/")[0] for name in code} == {"consilium", *BUNDLED}
    assert all(name.endswith(".py") for name in code)
    assert "coordinator/server_app.py" in names
    assert "party/client_app.py" in names


def test_the_bundle_runs_where_nothing_else_is_called_consilium(bundle: zipfile.ZipFile, tmp_path: Path) -> None:
    folder = tmp_path / "app"
    bundle.extractall(folder)
    # Flower puts the unpacked bundle first on the path; -I: no PYTHONPATH, no working folder
    code = f"import sys; sys.path.insert(0, {str(folder)!r})\n{IMPORTS}"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(folder)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "ServerApp" in done.stdout
    assert "NodeApp" in done.stdout


def test_flower_accepts_the_project() -> None:
    config, warnings = load_and_validate(ROOT / "pyproject.toml")
    assert config["tool"]["flwr"]["app"]["components"]["serverapp"] == "consilium.coordinator.server_app:app"
    assert warnings == []


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
