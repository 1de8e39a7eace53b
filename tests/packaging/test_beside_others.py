"""The installed package where others own the names of its rooms: packages on the path, and the user's own files.

The environment has the wheel and no checkout. `protocol`, `student`, `party`, `cli` and so on come first on the path,
and lie in the working folder too; each fails when it is imported.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.conftest import FOREIGN, Installed

pytestmark = pytest.mark.slow
COMMAND, MODULE = ["consilium"], ["python", "-m", "consilium"]


def test_the_others_are_really_in_the_way(installed: Installed, hostile_folder: Path, tmp_path: Path) -> None:
    """The control: one of them fails where it is imported by its bare name."""
    done = installed.run("python", "-P", "-c", f"import {FOREIGN[0]}", cwd=tmp_path)
    assert f"somebody else owns {FOREIGN[0]}" in done.stderr
    done = installed.run("python", "-c", "import numpy", cwd=hostile_folder)
    assert "numpy of the working folder" in done.stderr


def test_a_partys_client_process_starts(installed: Installed, hostile_folder: Path) -> None:
    """What Flower's SuperNode starts for a party, in its own environment, see `node.apps`."""
    write = (
        "from pathlib import Path; from consilium.party.deployed import PARTY;"
        "from consilium.node.apps import check_flower, write_programs;"
        "check_flower(); print(write_programs(Path('programs').resolve(), PARTY.app))"
    )
    programs = installed.run("python", "-P", "-c", write, cwd=hostile_folder)
    assert programs.returncode == 0, programs.stderr
    done = installed.run(f"{programs.stdout.strip()}/flower-superexec", "--help", cwd=hostile_folder)
    assert done.returncode == 0, done.stderr
    assert "flower-superexec" in done.stdout


def test_every_command_can_be_asked_for_help(installed: Installed, hostile_folder: Path) -> None:
    for command in (COMMAND, MODULE):
        done = installed.run(*command, "--help", cwd=hostile_folder)
        assert done.returncode == 0, done.stderr
        assert "provision" in done.stdout
