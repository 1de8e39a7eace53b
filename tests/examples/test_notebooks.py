"""The notebooks of the site are the scripts in examples/, run: all of them run, and show nothing that they must not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from docs._site.notebooks import page_of
from docs.execute import NAMES, NOTEBOOKS, ROOT, SCRIPTS, execute, faults, main, notebook_of


def committed(name: str) -> NotebookNode:
    """The notebook that the site shows."""
    return nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)


def shown(output: NotebookNode | None = None, prose: str = "", count: int = 1) -> NotebookNode:
    """An executed notebook of one cell of code and one of prose after it."""
    cell = new_code_cell("x = 1.5", execution_count=count, outputs=[] if output is None else [output])
    return new_notebook(cells=[cell, new_markdown_cell(prose)])


def printed(text: str, name: str = "stdout") -> NotebookNode:
    """What a cell prints."""
    return new_output("stream", name=name, text=text)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_its_script(name: str) -> None:
    """`make notebooks` was run after the last change."""
    cells = [(cell.cell_type, cell.source) for cell in committed(name).cells]
    assert cells == [(cell.cell_type, cell.source) for cell in notebook_of(name).cells]


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_shows_nothing_that_it_must_not(name: str) -> None:
    assert faults(committed(name)) == []


def test_every_notebook_is_listed() -> None:
    """In the site's navigation and on the page that lists them; and every script has one."""
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = (NOTEBOOKS / "index.md").read_text(encoding="utf-8")
    assert sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")) == list(NAMES)
    for name in NAMES:
        assert f"notebooks/{name}.md\n" in settings
        assert f"]({name}.md)" in listed


@pytest.mark.parametrize(
    ("notebook", "told"),
    [
        (shown(), None),
        (shown(printed("epsilon 0.8")), None),
        (shown(printed("kits/party-oslo.tar.gz and ./a/tmp/b")), None),
        (shown(prose="x is 1.5, and there are 3 of 1,500"), None),
        (shown(printed("0.25"), "a quarter is 0.25."), None),
        (shown(printed("/home/me/run")), "path"),
        (shown(printed("File /tmp/notebook-x/a.py")), "path"),
        (shown(printed(r"C:\Users\me")), "path"),
        (shown(printed("at 2026-11-22")), "date"),
        (shown(printed("<object at 0x7f00aa00>")), "memory"),
        (shown(printed("careful", "stderr")), "stderr"),
        (shown(new_output("error", ename="ValueError", evalue="", traceback=[])), "ValueError"),
        (shown(new_output("display_data", {"text/html": "<script>1</script>"})), "run or fetch"),
        (shown(new_output("display_data", {"text/html": '<img src="https://e.org/a.png">'})), "run or fetch"),
        (shown(new_output("display_data", {"image/svg+xml": "x" * 500_000})), "bytes"),
        (shown(prose="it is 2.5"), "2.5"),
        (shown(prose="it is 11.5"), "11.5"),
        (shown(count=2), "not executed"),
    ],
)
def test_faults_are_found(notebook: NotebookNode, told: str | None) -> None:
    found = faults(notebook)
    assert len(found) == (told is not None)
    assert told is None or told in found[0]


def test_a_page_has_code_text_tables_and_pictures(tmp_path: Path) -> None:
    picture = "<svg aria-label=\"Title text 'What it costs'\"></svg>"
    table = '<div><style>a{}</style><table border="1" class="dataframe"><tr><td>1</td></tr></table></div>'
    cells = [
        new_markdown_cell("# Title\n\nSee [another](other.ipynb) and [a page](../results.md)."),
        new_code_cell("f()", outputs=[printed("said\n"), new_output("execute_result", {"text/html": table})]),
        new_code_cell("g()", outputs=[new_output("execute_result", {"image/svg+xml": picture, "text/plain": "Chart"})]),
        new_markdown_cell("## Under this"),
        new_code_cell("h()", outputs=[new_output("execute_result", {"image/svg+xml": "<svg></svg>"})]),
    ]
    path = tmp_path / "shown.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    page, pictures = page_of(path)
    assert pictures == {"shown-1.svg": picture, "shown-2.svg": "<svg></svg>"}
    for part in (
        "[another](other.md) and [a page](../results.md)",
        "```python\nf()\n```",
        "```text\nsaid\n```",
        "<table><tr><td>1</td></tr></table>",
        "![What it costs](shown-1.svg)",
        "![Chart: Under this](shown-2.svg)",
        "(shown.ipynb)",
    ):
        assert part in page
    assert "<style>" not in page


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["none"]) == 2
    assert "no such notebook: none. There are " in capsys.readouterr().err


@pytest.mark.proofs  # ten to thirty seconds each; what they call is tested elsewhere
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs(name: str) -> None:
    """In a kernel of its own, in an empty folder; what comes out could be shown."""
    assert faults(execute(notebook_of(name))) == []


@pytest.mark.proofs  # the same cells run in a kernel: above
def test_a_script_runs_as_it_stands(tmp_path: Path) -> None:
    """Without Jupyter; the one that prints most of what the reader is told."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(SCRIPTS / "first_principles.py")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=800)
    assert (done.returncode, done.stderr) == (0, "")
    assert "worst case over all votes" in done.stdout
    assert list(tmp_path.iterdir()) == []


WITHOUT_TORCH = '''
import sys
from importlib.machinery import PathFinder


class Without(PathFinder):
    """What there is but torch."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] == "torch" else super().find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = Without
'''


@pytest.mark.proofs
@pytest.mark.parametrize("name", ["torch alone", *NAMES])
def test_a_script_needs_no_torch(name: str, tmp_path: Path) -> None:
    """Nor do the processes that it starts; `own_teacher` has torch for its subject; the first is the control."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(WITHOUT_TORCH)
    environment = {**os.environ, "PYTHONPATH": f"{hidden}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    script = ["-c", "import torch"] if name == "torch alone" else [str(SCRIPTS / f"{name}.py")]
    done = subprocess.run(
        [sys.executable, *script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=800
    )
    if name in ("torch alone", "own_teacher"):
        assert done.returncode != 0 and "torch" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
