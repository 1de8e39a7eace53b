"""What the commands of the pages work on: a short run, and kits of the federation that docs/deploy.md shows."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from consilium.models.published.model import load_model
from consilium.node import keys as own_keys
from consilium.node.kit import open_kit
from consilium.party.deployed import PARTY
from tests import command_line
from tests.command_line import Done
from tests.deploy.kits import accept_all
from tests.docs.pages import blocks
from tests.federation import FEATURES, make_rows


def changes(*pairs: str) -> list[str]:
    """`--set` for each."""
    return [word for pair in pairs for word in ("--set", pair)]


SHORTER = {
    "stroke": changes(
        "data.least_rows=200", "federation.minimum_parties=5",
        "federation.mechanism={name='confident', threshold=8, sigma1=40, sigma2=40}",
        "federation.query_budget={queries=40, answers=40}",
    ),
    "stroke-distributed": changes(
        "data.least_rows=200", "federation.minimum_parties=5", "federation.least_survivors=8",
        "federation.query_budget={queries=20, answers=20}",
    ),
    "heart.toml": changes(
        "federation.query_budget={queries=20, answers=20}", 'federation.mechanism={name="gnmax", sigma=20}',
        'simulation.hand_labels="none"',
    ),
}  # fmt: skip
"""Ten hospitals instead of 371 or 207, and few queries: what `run` and `prepare` are given besides what is printed."""
OWN_KEYS = "cleveland"
"""The party of docs/deploy.md that makes its own keys."""


def consilium(*words: str, cwd: Path) -> Done:
    """A command, in a folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cwd)
        return command_line.consilium(*words)


@pytest.fixture(scope="session")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`consilium run` with ten hospitals."""
    folder = tmp_path_factory.mktemp("run")
    done = consilium("run", "--out", "out1", *SHORTER["stroke"], cwd=folder)
    assert done.exit_code == 0, done.stderr
    return folder / "out1"


@pytest.fixture(scope="session")
def raw_rows(short_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A row of the short run's student, in raw units."""
    schema = load_model(short_run / "student" / "model.safetensors").schema
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([schema.features, [round(float(value)) for value in schema.center]])
    return path


@pytest.fixture(scope="session")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the operator of docs/deploy.md has before `provision`: federation.toml as printed there, and public rows.

    `keys` beside it is what the party that made its own keys kept.
    """
    folder = tmp_path_factory.mktemp("operator")
    shown = [block for block in blocks() if block.page.name == "deploy.md" and block.language == "toml"]
    (folder / "federation.toml").write_text(shown[0].text, encoding="utf-8")
    lines = [",".join(FEATURES), *(",".join(map(str, row)) for row in make_rows(300, 999)[0])]
    (folder / "public.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    np.savez(folder / "public.npz", features=np.array(FEATURES), queries=make_rows(300, 1000)[0])
    own_keys.make("party", OWN_KEYS, folder / "keys")
    shutil.copy(folder / "keys" / f"{OWN_KEYS}.enrol.json", folder)
    return folder


@pytest.fixture(scope="session")
def own_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """heart.toml as docs/data.md has it, and a heart.csv."""
    folder = tmp_path_factory.mktemp("own")
    shown = [block for block in blocks() if block.page.name == "data.md" and block.language == "toml"]
    (folder / "heart.toml").write_text(shown[0].text, encoding="utf-8")
    write_heart(folder)
    return folder


@pytest.fixture(scope="session")
def kits(operator: Path) -> Path:
    """Kits of that federation; the party with keys of its own has rows, but its keys are still beside the kits."""
    done = consilium("provision", "federation.toml", "--out", "made", cwd=operator)
    assert done.exit_code == 0, done.stderr
    home = operator / "made" / f"party-{OWN_KEYS}"
    x, y = make_rows(600, 1)
    classes = np.array(json.loads((home / "federation.json").read_text(encoding="utf-8"))["rows"]["classes"])
    np.savez(home / "data.npz", x=x, y=y, features=np.array(FEATURES), classes=classes)
    accept_all(operator / "made")
    return operator / "made"


@pytest.fixture(scope="session")
def votes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Votes of 250 teachers, as docs/researchers.md has them."""
    path = tmp_path_factory.mktemp("votes") / "votes.npz"
    np.savez(path, votes=np.tile([[230, 12, 8], [120, 80, 50], [250, 0, 0], [190, 40, 20]], (40, 1)))
    return path


@dataclass(frozen=True)
class Desk:
    """A folder of its own for each command, with copies of what the command names."""

    folder: Path
    makers: dict[str, Callable[[], Path]]

    def lay_out(self, words: list[str]) -> None:
        """Put there whatever a word begins with, but for the new folder behind `--out`."""
        new = {word for option, word in pairwise(words) if option == "--out"}
        for word in words:
            name = word.split("/")[0] if word.split("/")[0] in self.makers else word
            if word.split("/")[0] not in new and name in self.makers and not (self.folder / name).exists():
                copy(self.makers[name](), self.folder / name)

    def kit(self, kits: Path, keys: Path, name: str, joined: bool) -> Path:
        """A copy of one node's kit as it is unpacked, the public pool and a party's own keys beside it."""
        shutil.copytree(kits / name, self.folder / name)
        shutil.copytree(keys, self.folder / "keys")
        pools = sorted(kits.glob("student-*/public.npz"))
        shutil.copy(pools[0], self.folder / "public.npz")
        if joined and name == f"party-{OWN_KEYS}":
            PARTY.join(open_kit(self.folder / name), self.folder / "keys")
        return self.folder / name


@pytest.fixture
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Desk:
    """Names that stand in the commands -> what they are copied from, made when first asked for."""

    def made(fixture: str, *parts: str) -> Callable[[], Path]:
        return lambda: request.getfixturevalue(fixture).joinpath(*parts)

    operator = ("federation.toml", "public.csv", "public.npz", f"{OWN_KEYS}.enrol.json")
    makers = {
        **{name: made("operator", name) for name in operator},
        "heart.toml": made("own_table", "heart.toml"),
        "heart.csv": made("own_table", "heart.csv"),
        "out1": made("short_run"),
        "student": made("short_run", "student"),
        "ROWS.csv": made("raw_rows"),
        "rows.csv": made("raw_rows"),
        "kits": made("kits"),
        "votes.npz": made("votes"),
        "HOME": made("kits", f"party-{OWN_KEYS}"),
        "FEDERATION.json": made("kits", f"party-{OWN_KEYS}", "federation.json"),
        "FEDERATION.toml": made("operator", "federation.toml"),
    }
    return Desk(tmp_path, makers)


def write_heart(folder: Path) -> None:
    """A heart.csv of four hospitals, with the columns that docs/data.md names."""
    generator = np.random.default_rng(5)
    rows = ["age,cp,thal,hospital,disease"]
    for hospital in ("cleveland", "budapest", "zurich", "long-beach"):
        for age in generator.integers(30, 80, 100):
            ill = age + generator.normal(0, 8) > 55
            rows.append(f"{age},{generator.integers(1, 5)},{generator.choice([3, 6, 7])},{hospital},{int(ill)}")
    (folder / "heart.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def copy(source: Path, target: Path) -> None:
    """A file or a folder; folders on the way to it are made."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)
