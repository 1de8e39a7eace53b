"""`import consilium`: the public names, where they are documented, and what an import brings with it.

`py.typed` holds for whoever installs the wheel: pyright knows the public names, and what they take.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import consilium
from tests.packaging.conftest import ROOT, Installed

HEAVY = ("torch", "flwr", "sklearn", "polars", "matplotlib", "numpy", "pydantic", "typer")


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("name", sorted(consilium.__all__))
def test_a_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(consilium, name)
    assert name in dir(consilium)
    if name == "__version__":
        assert value != ""
    else:
        assert value.__doc__, name
    assert f"`{name}" in (ROOT / "docs" / "api.md").read_text(encoding="utf-8")


def test_type_checkers_see_the_names_that_python_imports() -> None:
    tree = ast.parse((ROOT / "consilium" / "__init__.py").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    seen = {(node.module, each.name) for node in imports if node.module.startswith("consilium.") for each in node.names}
    imported = {(f"consilium.{module}", name) for module, names in consilium._MODULES.items() for name in names}
    assert seen == imported
    assert sorted(consilium.__all__) == sorted([*(name for _, name in seen), "__version__"])
    assert all(getattr(import_module(module), name) is getattr(consilium, name) for module, name in seen)


def test_an_import_brings_no_library_with_it() -> None:
    told = python(f"import sys, consilium; dir(consilium); print([name for name in {HEAVY} if name in sys.modules])")
    assert told == "[]"
    # the control: a name that is used does
    told = python(f"import sys, consilium; consilium.GNMax; print([name for name in {HEAVY} if name in sys.modules])")
    assert told == "['numpy']"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"^module 'consilium' has no attribute 'load_scenarios'$"):
        consilium.load_scenarios  # noqa: B018 # pyright: ignore[reportAttributeAccessIssue]


WRONG = "import consilium\n\nconsilium.load_scenarios('stroke')\nconsilium.load_model(3)\n"


def complaints(installed: Installed, file: Path) -> list[tuple[int, str]]:
    """Line (from 1) and rule of each of pyright's complaints."""
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", installed.program("python"), "--outputjson", str(file)],
        cwd=file.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == 1
    return [(each["range"]["start"]["line"] + 1, each.get("rule", "")) for each in found["generalDiagnostics"]]


@pytest.mark.proofs
@pytest.mark.slow
def test_a_script_of_the_public_names_passes_the_type_checker(installed: Installed, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) > 1
    (tmp_path / "script.py").write_text("\n".join(blocks))
    assert complaints(installed, tmp_path / "script.py") == []
    # the control: an unknown name and a wrong type
    (tmp_path / "wrong.py").write_text(WRONG)
    assert complaints(installed, tmp_path / "wrong.py") == [
        (3, "reportAttributeAccessIssue"),
        (4, "reportArgumentType"),
    ]
