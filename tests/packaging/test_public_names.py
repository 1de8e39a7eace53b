"""`import consilium`: the public names, where they are documented, and what an import brings with it."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module

import pytest

import consilium
from tests.rooms import ROOT

HEAVY = ("torch", "flwr", "sklearn", "polars", "matplotlib", "numpy", "pydantic", "typer")


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_public_name_is_there_and_documented() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name in consilium.__all__:
        value = getattr(consilium, name)
        assert name in dir(consilium)
        assert value if name == "__version__" else value.__doc__, name
        assert f"`{name}" in page, name


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
