"""How large the house is, beside its budgets: `python tools/house.py`; exit code 1 where one is exceeded.

    python tools/house.py --follow      # what one query, one row of a table and one epsilon enter of our own code

Counted are tracked files: lines and files of Python of each room, without what protoc generates, of tests and of
benchmarks, and words of all pages. Budgets stand in tools/house.toml. What tools/gone.txt lists stands nowhere: see
tests/test_gone.py.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ROOMS = sorted(path.name for path in (ROOT / "consilium").iterdir() if path.is_symlink())
FOLDERS = (*ROOMS, "consilium", "tests", "benchmarks")
COLUMNS = {"features": ["age", "pressure"], "classes": ["no", "yes"], "center": [50, 120], "scale": [10, 15]}


def tracked() -> list[str]:
    """Files of the repository, those that are new too."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in names if (ROOT / name).is_file()]


def counted(names: list[str]) -> dict[str, tuple[int, int]]:
    """Lines and files of each folder and of all rooms; words and files of the pages."""
    lines, files = Counter[str](), Counter[str]()
    for name in names:
        text = (ROOT / name).read_text(encoding="utf-8") if name.endswith((".py", ".md")) else ""
        folder = name.partition("/")[0]
        if name.endswith(".md"):
            lines["pages"] += len(text.split())
            files["pages"] += 1
        elif name.endswith(".py") and "_pb2" not in name and folder in FOLDERS:
            for part in (folder, *(["rooms"] if folder in (*ROOMS, "consilium") else [])):
                lines[part] += text.count("\n")
                files[part] += 1
    return {name: (lines[name], files[name]) for name in ("rooms", *FOLDERS, "pages")}


@contextmanager
def followed(of: str) -> Iterator[None]:
    """Prints files, functions and calls of our own that are entered inside, in any thread."""
    calls = Counter[tuple[str, str]]()

    def call(frame: Any, event: str, _: object) -> None:
        code = frame.f_code
        ours = code.co_filename.startswith(str(ROOT)) and "site-packages" not in code.co_filename
        if event == "call" and ours and code.co_filename != __file__ and code.co_name != "<module>":
            calls[str(Path(code.co_filename).resolve()), code.co_qualname] += 1

    threading.setprofile(call)
    sys.setprofile(call)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    print(f"{of:20}{len({file for file, _ in calls}):6} files{len(calls):6} functions{calls.total():9,} calls")


def vote(collection: str) -> None:
    """One query of a student to four hospitals, whose nodes run in this process."""
    from consilium.coordinator.label_service import LabelService
    from consilium.simulations import run
    from consilium.simulations.run import run_scenario
    from consilium.simulations.scenario import load_scenario
    from tests.workers import Here

    ask = LabelService.ask

    def watched(*arguments: Any, **named: Any) -> Any:
        with followed(f"a query, {collection}"):
            return ask(*arguments, **named)

    run.running_workers = contextmanager(lambda *_, **__: iter([[Here()]]))
    LabelService.ask = watched
    changes = (
        'data={set="heart", public_share=0.3, least_rows=5}', "federation.minimum_parties=3",
        'federation.teacher={model="logistic_regression"}', 'federation.mechanism={name="gnmax", sigma=4.0}',
        "federation.query_budget={queries=1, answers=1}", f"federation.collection={collection}",
        'student.trainer={name="logistic_regression"}', "simulation.manual_labels=none",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        run_scenario("one query", load_scenario("stroke", changes), "local", 0, Path(folder) / "run")


def row(folder: Path) -> None:
    """A party's table, from its file to the teacher that learnt from it."""
    import numpy as np

    from consilium.data.private_rows import FileRows
    from consilium.models.keys import LogisticRegressionSpec
    from consilium.models.table import fit_teachers
    from consilium.party.home import PartyFile
    from consilium.protocol.schema import Schema

    text = "".join(f"{30 + place},{100 + 2 * place},{'yes' if place % 3 else 'no'}\n" for place in range(40))
    (folder / "rows.csv").write_text("age,pressure,outcome\n" + text, encoding="utf-8")
    file, schema = PartyFile.model_validate({"data": "rows.csv", "label": {"column": "outcome"}}), Schema(**COLUMNS)
    with followed("a CSV"):
        table = FileRows(folder / file.data, file.rules).read(schema)
        fit_teachers(LogisticRegressionSpec(), table, [np.arange(40)], [0], 2)


def follow(what: str) -> None:
    """Each in a process of its own, so that none finds what another has cached."""
    sys.path.insert(0, str(ROOT))
    if what == "epsilon":
        from consilium import accounting

        with followed("an epsilon"):
            accounting.epsilon([[230, 20], [180, 70]], accounting.GNMax(sigma=40), delta=1e-5)
    elif what == "csv":
        with tempfile.TemporaryDirectory() as folder:
            row(Path(folder))
    else:
        vote(what)


def main(arguments: list[str]) -> int:
    """Print the table, or follow."""
    if arguments[:1] == ["--follow"]:
        for what in ("plaintext", "secure", "verified", "epsilon", "csv"):
            if arguments[1:] == [what]:
                follow(what)
            elif not arguments[1:]:
                subprocess.run([sys.executable, __file__, "--follow", what], cwd=ROOT, check=False)
        return 0
    budgets = tomllib.loads((ROOT / "tools" / "house.toml").read_text(encoding="utf-8"))
    over = 0
    print(f"{'':14}{'lines':>9}{'budget':>9}{'files':>7}{'budget':>8}   (pages: words)")
    for name, numbers in counted(tracked()).items():
        most = (budgets[name]["words" if name == "pages" else "lines"], budgets[name]["files"])
        wrong = any(number > limit for number, limit in zip(numbers, most, strict=True))
        over += wrong
        print(f"{name:14}{numbers[0]:9,}{most[0]:9,}{numbers[1]:7,}{most[1]:8,}{'   above its budget' * wrong}")
    return int(over > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
