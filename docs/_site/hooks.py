"""What `mkdocs build` does beyond mkdocs.yml.

- The package is copied to a temporary folder, where the rooms lie inside it: the checkout has links there, and the
  collector of docstrings follows none.
- The first place on a page where it uses a word of the glossary leads there.
- Pages of the reference are made: of the public names, `consilium.__all__` (one that is not there ends the build), and
  of the commands, from the command line itself.
- A link to a file that is no page (decisions, changelog, CONTRIBUTING.md) becomes its text and the
  file's path in the repository; a link to a file that is not there is an error.
- Search works where pages are opened from a folder: what the theme's plugin `offline` would fetch for that is here.
- The finished site is looked through for anything that a browser would fetch from elsewhere.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
ROOMS = tuple(sorted(path.name for path in (ROOT / "consilium").iterdir() if path.is_symlink()))
RECORDS = ("docs/decisions/", "CHANGELOG.md", "CONTRIBUTING.md")
"""What the repository has and the site has not."""
BOOSTS = {"questions.md": 2.0, "proofs.md": 0.5, "reference/consilium.md": 0.5, "reference/commands.md": 0.5}
"""Of pages that a search finds before or after others."""
PUBLIC_NAMES = "reference/consilium.md"
COMMANDS = "reference/commands.md"
GLOSSARY = "glossary.md"
ROW = re.compile(r"<td>([^<]+)</td>(?=\n<td>.+</td>\n<td>)")
UNLINKED = "a|button|code|h[1-6]|pre|th"
"""Within these elements no word is made a link."""
LINK = re.compile(r"(?<!!)\[(?P<text>[^]]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
FETCHED = re.compile(
    rb"""<(?:script|img|iframe|link(?![^>]*rel="?canonical))[^>]*?(?:src|href)="?(?:https?:)?//[^"\s>]+"""
)

WORKER = "assets/javascripts/workers/search.*.js"
QUERY = "e=ce(e),!e)return{items:[]}"
WORDS = (
    'e=(w=>w.length?w.join(" "):e)(e.split(" ").filter(w=>lunr.stopWordFilter(w.replace(/[*+]/g,"").toLowerCase())))'
)
"""The theme looks for each word of a question as the beginning of a word, so that "do" finds every document."""
SHIM = "iframe-worker.js"
SHIM_ELSEWHERE = "https://unpkg.com/iframe-worker/shim"

_copy: tempfile.TemporaryDirectory[str] | None = None


def on_config(config: Any) -> Any:
    """Copy the package, and point the collector of docstrings and the navigation at it."""
    global _copy
    _copy = tempfile.TemporaryDirectory(prefix="consilium-docs-")
    package = Path(_copy.name) / "consilium"
    package.mkdir()
    for file in (ROOT / "consilium").glob("*.py"):
        shutil.copy(file, package)
    for room in ROOMS:
        shutil.copytree(ROOT / room, package / room, ignore=shutil.ignore_patterns("__pycache__"))
    config.plugins["mkdocstrings"].config.handlers["python"]["paths"] = [_copy.name]
    return config


def on_post_build(config: Any) -> None:
    """Remove the copy, and refuse a site that is not whole without a network."""
    if _copy is not None:
        _copy.cleanup()
    site = Path(config.site_dir)
    (worker,) = site.glob(WORKER)
    script = worker.read_text(encoding="utf-8")
    if QUERY not in script:
        raise PluginError(f"{worker.name} of the theme is another one: see how it treats stop words")
    worker.write_text(script.replace(QUERY, QUERY.replace(",!e)", f",{WORDS},!e)")), encoding="utf-8")
    shutil.copy(Path(__file__).with_name(SHIM), site / SHIM)
    for page in sorted(site.rglob("*.html")):
        text, depth = page.read_text(encoding="utf-8"), len(page.relative_to(site).parts) - 1
        page.write_text(text.replace(SHIM_ELSEWHERE, "../" * depth + SHIM), encoding="utf-8")
        found = FETCHED.search(page.read_bytes())
        if found:
            raise PluginError(f"{page.relative_to(config.site_dir)} loads {found[0].decode()} from elsewhere")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that no file in docs/ holds."""
    files.append(File.generated(config, PUBLIC_NAMES, content=_public_names()))
    files.append(File.generated(config, COMMANDS, content=_commands()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Send links that lead out of the site to the page or the path of the file, and weigh the page for the search."""
    page.meta["search"] = {"boost": BOOSTS.get(page.file.src_uri, 1.0)}
    folder = (ROOT / "docs" / page.file.src_uri).parent

    def moved(found: re.Match[str]) -> str:
        if "://" in found["target"]:
            return found[0]
        path = Path(os.path.relpath(folder / found["target"], ROOT)).as_posix()
        if not path.startswith(RECORDS):
            return found[0]
        if not (ROOT / path).exists():
            raise PluginError(f"{page.file.src_uri}: a link to {path}, which is not there")
        return f"{found['text']} (`{path}`)"

    return LINK.sub(moved, markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Let each word of the glossary lead there, once on a page; in the glossary, give the words their places."""
    if page.file.src_uri == GLOSSARY:
        return ROW.sub(lambda row: f'<td id="{_place(row[1])}">{row[1]}</td>', html)
    left = {} if page.file.src_uri.startswith("reference/") else _words()

    def linked(found: re.Match[str]) -> str:
        place = left.pop(found[1].lower(), None)
        return f'<a class="word" href="{place}">{found[0]}</a>' if place else found[0]

    word = re.compile(rf"\b({'|'.join(sorted(left, key=len, reverse=True))})s?\b", re.IGNORECASE)
    inside, parts = 0, re.split(r"(<[^>]+>)", html)
    for index, part in enumerate(parts):
        if tag := re.match(rf"<(/?)(?:{UNLINKED})\b", part):
            inside += -1 if tag[1] else 1
        elif left and not inside and not part.startswith("<"):
            parts[index] = word.sub(linked, part)
    return "".join(parts)


def _words() -> dict[str, str]:
    """The words of the glossary, in small letters, and where each stands."""
    rows = re.findall(r"^\| (\w[^|]*?) \|", (ROOT / "docs" / GLOSSARY).read_text(encoding="utf-8"), re.MULTILINE)
    places = {row: f"{GLOSSARY[:-3]}.html#{_place(row)}" for row in rows if row != "word"}
    return {word.lower(): place for row, place in places.items() for word in row.split(", ")}


def _place(row: str) -> str:
    return row.split(", ")[0].replace(" ", "-")


def public_names() -> list[str]:
    """`consilium.__all__` but for the version, read and not imported: the links of a checkout need not be followed."""
    tree = ast.parse((ROOT / "consilium/__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(to, ast.Name) and to.id == "_MODULES" for to in node.targets
        ):
            return sorted(name for names in ast.literal_eval(node.value).values() for name in names)
    return []


def _public_names() -> str:
    """The page of the public names."""
    told = ast.get_docstring(ast.parse((ROOT / "consilium/__init__.py").read_text(encoding="utf-8"))) or ""
    return "\n\n".join(["# consilium", told, *(f"::: consilium.{name}" for name in public_names())]) + "\n"


def _commands() -> str:
    """The page of the commands, with the words of `--help`."""
    import typer

    from consilium.cli import app

    def written(command: click.Command, name: str) -> Iterator[str]:
        if isinstance(command, click.Group):
            for word, inner in command.commands.items():
                yield from written(inner, f"{name} {word}")
            return
        yield f"## {name}\n\n{command.help or ''}\n"
        yield "\n| argument or option | default | meaning |\n|---|---|---|\n"
        for parameter in command.params:
            said = parameter.human_readable_name if isinstance(parameter, click.Argument) else " ".join(parameter.opts)
            default = "" if parameter.default in (None, False, ()) or callable(parameter.default) else parameter.default
            default = getattr(default, "value", default)
            help_ = " ".join((getattr(parameter, "help", None) or "").split()).replace("|", "\\|")
            yield f"| `{said}` | {f'`{default}`' if default != '' else ''} | {help_} |\n"
        yield "\n"

    return "# Commands\n\n" + "".join(written(typer.main.get_command(app), "consilium"))
