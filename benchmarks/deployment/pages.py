"""Commands of the pages that a deployment follows, and which of them were run; how many lead to the first label.

Two commands are the same if they are of one sub-command, with the same kinds of files, and the one that was run has all
options of the one on the page: names, folders and what a script adds (`--wait`, `--password-file`) may differ.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from docs.figures import figure
from tests.docs.pages import ROOT, Command, commands

PAGES = ("deploy.md", "install.md", "for-it.md", "verified.md")
ELSEWHERE: Mapping[str, str] = {
    r"cd ": "a folder: each command runs in its node's kit",
    r"export PATH": "of the reader's shell",
    r"python3 -m venv|/opt/consilium/bin/(pip|consilium --version)": "benchmarks/deployment/services.py",
    r"make wheelhouse": "tests/packaging/test_wheelhouse.py",
    r"useradd|runuser|cp |systemctl|journalctl|systemd-run|mv ": "benchmarks/deployment/services.py",
    r"docker ": "not run: no image of a system is in reach; tests/coordinator/provision/test_service_files.py",
    r"curl |ssh ": "tests/node/test_monitor.py",
    r"consilium run stroke": "tests/docs/test_commands.py",
}
"""Beginning of a command -> what runs it where the drill does not."""
VALUED = ("--kind",)
"""Options whose value makes another command."""


@dataclass(frozen=True)
class Shape:
    """What a command is, whatever its names are."""

    words: tuple[str, ...]
    options: frozenset[str]
    files: tuple[str, ...]

    def covers(self, other: Shape) -> bool:
        """Whether running this one is running the other."""
        return self._kind() == other._kind() and self.options >= other.options

    def _kind(self) -> tuple[object, ...]:
        return self.words, self.files, {option for option in self.options if " " in option}


GROUPS = frozenset({"node", "party", "provision", "student"})
SWITCHES = frozenset({"--data-only", "--print", "--offline", "--new-patients", "--resume", "--go-on"})


def shape(text: str) -> Shape:
    """Of what stands after `consilium`.

    >>> sorted(shape("node keys --kind aggregator board --out keys").options)
    ['--kind aggregator', '--out']
    >>> shape("node join a.tar.gz.sealed --into /srv").files == shape("node join b.tar.gz.sealed --into .").files
    True
    """
    split = shlex.split(text)
    words, rest = [], split
    while rest and (not words or words[-1] in GROUPS) and re.fullmatch(r"[a-z][a-z-]*", rest[0]):
        words.append(rest[0])
        rest = rest[1:]
    options, files, at = set(), [], 0
    while at < len(rest):
        word = rest[at]
        if word.startswith("--"):
            value = "" if word in SWITCHES or at + 1 == len(rest) else rest[at + 1]
            options.add(f"{word} {value}" if word in VALUED else word)
            at += 1 if word in SWITCHES else 2
        else:
            files.append(_kind(word))
            at += 1
    return Shape(tuple(words), frozenset(options), tuple(files))


def _kind(word: str) -> str:
    if word == ".":
        return "."
    if word.endswith(".tar.gz.sealed"):
        return "a sealed kit"
    if word.endswith(".tar.gz"):
        return "an update"
    return word.rsplit(".", 1)[-1] if re.search(r"\.(toml|json|csv|npz)$", word) else "a name"


def page_commands() -> Iterator[tuple[str, Command]]:
    """Each command of the pages once a page, with the page's name, in order."""
    for page in PAGES:
        listed = [each for each in commands() if each.place.startswith(f"docs/{page}:")]
        yield from ((page, each) for each in {each.text: each for each in listed}.values())


def elsewhere(text: str) -> str:
    """What runs it where the drill does not; empty if nothing."""
    return next((where for pattern, where in ELSEWHERE.items() if re.match(pattern, text)), "")


def told(text: str) -> str:
    """A command without the name of its program, and without what is not run as a node's own user; empty for others."""
    found = re.match(r"(?:runuser -u consilium -- )?(?:/opt/consilium/bin/)?consilium (?!--version)(.+)", text)
    return re.sub(r" /srv/consilium/[a-z-]+$", " .", found[1]) if found else ""


def written(module: ModuleType) -> Iterator[str]:
    """What a module of the drill writes after `consilium`, with a name for whatever is filled in."""
    source = Path(module.__file__ or "").read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node] if isinstance(node, ast.Constant) else []
        texts = [str(part.value) if isinstance(part, ast.Constant) else _filled_in(part) for part in parts]
        if texts and re.match(
            rf"({'|'.join(sorted(GROUPS))}) [a-z.-]+ |(doctor|status|audit|report) \.", "".join(texts)
        ):
            yield "".join(texts)


def _filled_in(part: ast.expr) -> str:
    return "--asked 0" if isinstance(part, ast.FormattedValue) and ast.unparse(part.value) == "site.asked()" else "name"


def run_by(ran: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """By page and command: in which federations of the drill it was run, or what else runs it. ran: federations, and
    what stood after `consilium`."""
    shapes: dict[Shape, list[str]] = {}
    for federation, text in ran:
        names = shapes.setdefault(shape(text), [])
        names += [federation] * (federation not in names)
    rows: dict[tuple[str, str], str] = {}
    for page, command in page_commands():
        wanted = told(command.text)
        by = [name for done, names in shapes.items() if wanted and done.covers(shape(wanted)) for name in names]
        rows[page, command.text] = ", ".join(dict.fromkeys(by)) or elsewhere(command.text)
    return rows


HEADINGS = {"0": "everybody", "1": "operator", "2": "coordinator", "3": "each party", "4": "student"}
"""Of the steps of deploy.md, and who does them."""
HOSPITALS = 5


def to_the_first_label() -> dict[str, list[str]]:
    """What everybody types, and then each, by docs/deploy.md: all commands of its steps, but changes of folder."""
    text = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    lines = text.splitlines()
    typed: dict[str, list[str]] = {who: [] for who in HEADINGS.values()}
    for command in commands():
        page, _, line = command.place.rpartition(":")
        if page != "docs/deploy.md" or command.text.startswith(("cd ", "export ")):
            continue
        heading = next(text for text in reversed(lines[: int(line)]) if text.startswith("## "))
        if who := HEADINGS.get(heading[3:4]):
            typed[who].append(command.text)
    return typed


def counts() -> dict[str, int]:
    """Commands by who types them, those of the installation included."""
    typed = to_the_first_label()
    install = typed.pop("everybody")
    each = {who: len(install) + len(listed) for who, listed in typed.items()}
    different = {shape(told(text)) if told(text) else text for listed in [install, *typed.values()] for text in listed}
    together = sum(each.values()) + (HOSPITALS - 1) * each["each party"]
    return {**each, "different ones": len(different), f"typed at all machines, {HOSPITALS} parties": together}


def main() -> None:
    """Entry point of `python -m benchmarks.deployment.pages`: the table."""
    with figure(
        "deployment-results/first-label", "python -m benchmarks.deployment.pages", ["who", "commands"],
        split="no data: commands of docs/deploy.md, steps 0 to 4",
    ) as table:  # fmt: skip
        for who, count in counts().items():
            table.add(who, count)


if __name__ == "__main__":
    main()
