"""The notebooks in docs/notebooks/, made from the scripts in examples/ by running them.

`python -m docs.execute [NAME ...]` runs each script cell by cell in a kernel of its own, in an empty folder, and writes
the notebook with what came out. Nothing is written of a notebook that fails, or whose outputs hold what is nobody's
business: paths and names of this machine, dates, scripts, pictures of other people's servers.
"""

from __future__ import annotations

import os
import re
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from traitlets.config import Config

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "examples"
NOTEBOOKS = ROOT / "docs" / "notebooks"
NAMES = tuple(sorted(path.stem for path in SCRIPTS.glob("*.py")))
CELL_SECONDS = 600
"""Limit of a cell that hangs; nothing depends on how fast the machine is."""
MOST_BYTES = 400_000
"""Of a notebook with its pictures."""
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "file_extension": ".py", "mimetype": "text/x-python"},
}
LOCAL = {
    "a path of this machine": re.compile(r"(?<![\w.<])/(?:home|tmp|dev|work|root|var|usr|opt|Users|mnt)/|[A-Z]:\\"),
    "a date": re.compile(r"\b20[2-9]\d-[01]\d-[0-3]\d\b"),
    "an address in memory": re.compile(r"\bat 0x[0-9a-f]{6,}"),
    "something a browser would run or fetch": re.compile(r"<script|<iframe|<link|(?:src|href)=[\"']?(?:https?:)?//"),
}
"""What no output may hold."""
NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*\.\d+(?![\w.]*\d)")
"""A decimal fraction in prose: something that was computed."""


def notebook_of(name: str) -> NotebookNode:
    """The notebook of a script, without outputs; the same script gives the same bytes."""
    made = nbformat.from_dict(jupytext.read(SCRIPTS / f"{name}.py", fmt="py:percent"))
    made.metadata = nbformat.from_dict(METADATA)
    for number, cell in enumerate(made.cells, start=1):
        cell.id, cell.metadata = f"cell-{number:02d}", NotebookNode()
    made.nbformat, made.nbformat_minor = 4, 5
    return made


def execute(notebook: NotebookNode) -> NotebookNode:
    """Run all cells in a kernel of its own, in an empty folder.

    Raises
    ------
    nbclient.exceptions.CellExecutionError : a cell raised.
    """
    with tempfile.TemporaryDirectory(prefix="notebook-") as folder:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "IPYTHONDIR": f"{folder}/.ipython",
            "JUPYTER_RUNTIME_DIR": f"{folder}/.runtime",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        client = NotebookClient(
            notebook,
            # sockets in its own folder: over TCP anybody on this machine could listen
            config=Config({"ConnectionFileMixin": {"transport": "ipc", "ip": f"{folder}/.kernel"}}),
            kernel_name="python3",
            timeout=CELL_SECONDS,
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": folder}},
        )
        executed = client.execute(env=environment)
    executed.metadata = nbformat.from_dict(METADATA)
    return executed


def faults(notebook: NotebookNode) -> list[str]:
    """What keeps an executed notebook from being shown to strangers, one line each; empty if nothing does."""
    found = []
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if [cell.execution_count for cell in code] != list(range(1, len(code) + 1)):
        found.append("cells were not executed once each, in their order")
    for number, cell in enumerate(notebook.cells, start=1):
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                found.append(f"cell {number} ends in {output.ename}")
            if output.get("name") == "stderr":
                found.append(f"cell {number} writes to stderr: {output.text.splitlines()[0]}")
            shown = "\n".join(_texts(output))
            found += [
                f"cell {number} shows {what}: {hit[0]}" for what, rule in LOCAL.items() if (hit := rule.search(shown))
            ]
    if (size := len(nbformat.writes(notebook))) > MOST_BYTES:
        found.append(f"{size:,} bytes, at most {MOST_BYTES:,}")
    return found + [
        f"cell {number} says {value}, which nothing above it prints" for number, value in uncomputed(notebook)
    ]


def uncomputed(notebook: NotebookNode) -> Iterator[tuple[int, str]]:
    """Decimal fractions in prose that stand in no code or output above: (number of the cell, the fraction)."""
    above: set[str] = set()
    for number, cell in enumerate(notebook.cells, start=1):
        if cell.cell_type == "markdown":
            yield from ((number, value) for value in NUMBER.findall(cell.source) if value not in above)
        else:
            shown = (text for output in cell.outputs for text in _texts(output))
            above.update(value for text in (cell.source, *shown) for value in NUMBER.findall(text))


def _texts(output: NotebookNode) -> Iterator[str]:
    """All text of one output, pictures in text form (SVG) included."""
    for text in (output.get("text"), *output.get("data", {}).values()):
        if isinstance(text, str):
            yield text


def main(names: list[str]) -> int:
    """Make the notebooks; returns the exit code."""
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        print(f"no such notebook: {', '.join(unknown)}. There are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    failed = False
    for name in names or NAMES:
        began, before = time.monotonic(), _processor_seconds()
        executed = execute(notebook_of(name))
        seconds, processor = time.monotonic() - began, _processor_seconds() - before
        wrong = faults(executed)
        for line in wrong:
            print(f"{name}: {line}", file=sys.stderr)
        if not wrong:
            nbformat.write(executed, NOTEBOOKS / f"{name}.ipynb")
        failed |= bool(wrong)
        print(f"{name}: {seconds:.0f} s, of the processor {processor:.0f} s{', not written' if wrong else ''}")
    return int(failed)


def _processor_seconds() -> float:
    """Of all processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
