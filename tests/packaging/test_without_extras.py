"""An install without extras, played by an interpreter that refuses to import what they bring: the default scenario
runs and is audited, and whatever needs more says which extra, before anything is computed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from consilium.protocol.extras import EXTRA_OF
from tests.packaging.conftest import ROOT
from tests.simulations.test_resume import SMALL

TINY = [part for change in SMALL for part in ("--set", change)]
REFUSE = """
import os, sys

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in os.environ["REFUSED"].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refusing())
"""
"""As sitecustomize.py, which every process reads: those of parties too."""
EVERYTHING = ",".join(EXTRA_OF)
NO_TORCH, NO_TABLES = "torch,flwr", "polars,sklearn"


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("refusing")
    (folder / "sitecustomize.py").write_text(REFUSE)
    return folder


def python(refusing: Path, refused: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """One process with its children, to none of which these modules are there."""
    paths = os.pathsep.join([str(refusing), str(ROOT)])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd, env={**os.environ, "PYTHONPATH": paths, "REFUSED": refused},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def consilium(refusing: Path, refused: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return python(refusing, refused, "-m", "consilium", *arguments, cwd=cwd)


def test_they_are_really_refused(refusing: Path, tmp_path: Path) -> None:
    """The control: none of them can be imported there, and all others can."""
    for module in ("torch", "flwr", "polars"):
        done = python(refusing, EVERYTHING, "-c", f"import {module}", cwd=tmp_path)
        assert f"No module named '{module}'" in done.stderr
        assert python(refusing, "none", "-c", f"import {module}", cwd=tmp_path).returncode == 0


@pytest.mark.proofs
def test_the_default_scenario_is_the_same_without_extras(refusing: Path, tmp_path: Path) -> None:
    """With report and audit; without Flower's classes the very bytes are those that come with them."""
    for out, refused in (("bare", EVERYTHING), ("all", "none")):
        done = consilium(refusing, refused, "run", "--quiet", "--out", out, *TINY, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    for file in ("labels.parquet", "student/model.safetensors"):
        assert (tmp_path / "bare" / file).read_bytes() == (tmp_path / "all" / file).read_bytes()
    assert (tmp_path / "bare" / "report.html").stat().st_size > 10_000
    assert consilium(refusing, EVERYTHING, "audit", "bare", cwd=tmp_path).returncode == 0


@pytest.mark.proofs
@pytest.mark.parametrize("votes", ["secure", "verified"])
def test_secure_sums_need_no_extra(refusing: Path, tmp_path: Path, votes: str) -> None:
    more = ["--set", f"federation.collection={votes}"]
    done = consilium(refusing, EVERYTHING, "run", "--quiet", "--out", "run", *TINY, *more, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


HELP = """
import typer
from consilium.cli import app
from tests.command_line import consilium
from tests.test_every_command import COMMANDS

assert len(COMMANDS) > 20
wrong = [name for name in COMMANDS if consilium(*name.split(), "--help").exit_code]
assert not wrong, wrong
"""


@pytest.mark.slow
def test_every_command_explains_itself_without_extras(refusing: Path, tmp_path: Path) -> None:
    done = python(refusing, EVERYTHING, "-c", HELP, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


COUNCIL = """
import sys

import polars as pl

from consilium import Council

if __name__ == "__main__":
    frame = pl.read_csv("patients.csv")
    council = Council(epsilon=4.0, delta=1e-5, unit="party", out="run")
    council.fit(frame, "ill", owners="hospital")
    assert council.predict_proba(frame.head(3)).shape == (3, 2)
    assert council.run_.audit()
    refused = {"torch", "flwr"} & sys.modules.keys()
    assert not refused, refused
"""


def patients(folder: Path) -> None:
    """A table of 60 hospitals of 100 patients."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(6000, 2))
    ill = (x[:, 0] + generator.normal(size=6000) > 0).astype(int)
    rows = [f"{a:.4f},{b:.4f},{y},h{place % 60}" for place, ((a, b), y) in enumerate(zip(x, ill, strict=True))]
    (folder / "patients.csv").write_text("\n".join(["age,pressure,ill,hospital", *rows]) + "\n")


@pytest.mark.slow
def test_own_rows_need_neither_torch_nor_flower(refusing: Path, tmp_path: Path) -> None:
    patients(tmp_path)
    check = ["data", "check", "patients.csv", "--owner", "hospital", "--label", "ill"]
    assert consilium(refusing, NO_TORCH, *check, cwd=tmp_path).returncode == 0
    (tmp_path / "council.py").write_text(COUNCIL)
    done = python(refusing, NO_TORCH, "council.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    predicted = consilium(refusing, NO_TORCH, "predict", "run", "patients.csv", "--out", "risks.csv", cwd=tmp_path)
    assert predicted.returncode == 0, predicted.stderr
    assert len((tmp_path / "risks.csv").read_text().splitlines()) == 6001


REFUSALS = {
    "images": (["run", "mnist-250", "--out", "run"], "torch", "images"),
    "trees": (["run", "--out", "run", "--set", "federation.teacher={model='random_forest'}"], "sklearn", "tables"),
    "noise that protects": (["run", "--out", "run", "--set", "simulation.noise=system"], "opendp", "tables"),
    "a table": (["data", "check", "patients.csv", "--owner", "hospital", "--label", "ill"], "polars", "tables"),
    "a study": (["study", "list"], "flwr", "study"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_is_missing_is_said_before_anything_is_computed(refusing: Path, tmp_path: Path, case: str) -> None:
    arguments, module, extra = REFUSALS[case]
    patients(tmp_path)
    done = consilium(refusing, module, *arguments, "--format", "json", cwd=tmp_path)
    error = json.loads(done.stdout)["error"]
    assert error["action"] == f"pip install 'consilium-pate[{extra}]'"
    assert done.returncode == error["exit_code"] == 2
    assert not (tmp_path / "run").exists()


def test_a_public_name_that_needs_an_extra_names_it(refusing: Path, tmp_path: Path) -> None:
    done = python(refusing, NO_TABLES, "-c", "from consilium import Council", cwd=tmp_path)
    assert done.stderr.splitlines()[-1].endswith("pip install 'consilium-pate[tables]'")


BROKEN = "from consilium.protocol.extras import typed_imports\nwith typed_imports():\n    import flwr.absent"


def test_a_library_that_is_there_and_broken_is_no_missing_extra(refusing: Path, tmp_path: Path) -> None:
    done = python(refusing, "none", "-c", BROKEN, cwd=tmp_path)
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'flwr.absent'"
