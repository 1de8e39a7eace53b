"""The reference of the site: docstrings come out as they were meant, and a broken link ends the build."""

from __future__ import annotations

import importlib.util
from types import ModuleType, SimpleNamespace

import pytest
from mkdocs.exceptions import PluginError

import consilium
from tests.docs.pages import ROOT


def of_the_site(name: str) -> ModuleType:
    """A module of docs/_site, which is no package: mkdocs loads it by its path."""
    found = importlib.util.spec_from_file_location(f"site_{name}", ROOT / "docs/_site" / f"{name}.py")
    assert found and found.loader
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


hooks, docstrings = of_the_site("hooks"), of_the_site("docstrings")


def test_public_names_are_those_of_the_package() -> None:
    """They are read from the text; here from the package itself."""
    assert hooks.public_names() == [name for name in getattr(consilium, "__all__", []) if name != "__version__"]


@pytest.mark.parametrize(
    ("docstring", "markdown"),
    [
        ("x : a number.\ny, z : more,\n    and more.", "- `x`: a number.\n- `y`, `z`: more,\n  and more."),
        ("Raises\n------\nKeyError : none. OSError : gone.", "**Raises**\n\n- `KeyError`: none.\n- `OSError`: gone."),
        ("a.json   one\nb.json   two", "```text\na.json   one\nb.json   two\n```"),
        ("votes[i] < `votes[j]`", "votes\\[i] &lt; `votes[j]`"),
    ],
)
def test_docstrings_as_markdown(docstring: str, markdown: str) -> None:
    assert docstrings.as_markdown(docstring) == markdown


def test_a_link_to_a_record_becomes_its_path() -> None:
    """What the site has not, and what stands at the top of the repository; one that is nowhere ends the build."""
    page = SimpleNamespace(meta={}, file=SimpleNamespace(src_uri="notebooks/a.md"))
    text = "[a](../decisions/one-package.md#x), [b](../data.md#y), [c](../../CONTRIBUTING.md), [d](https://e.org)"
    shown = "a (`docs/decisions/one-package.md`), [b](../data.md#y), c (`CONTRIBUTING.md`), [d](https://e.org)"
    assert hooks.on_page_markdown(text, page=page) == shown
    with pytest.raises(PluginError, match="nowhere"):
        hooks.on_page_markdown("[a](../decisions/nowhere.md)", page=page)
