"""Same seeds, same votes, labels and epsilon: this checkout against a revision, figure by figure.

`python -m benchmarks.same [--against REVISION] [--only CASE ...] [--keep FOLDER]`. Each case, a run or a study made
small, is done by both with `python -m consilium`. Compared is everything that it writes but times, paths, versions and
pictures; of fractions eight digits, since sums in another order differ in the last ones, and so do published weights.
`--keep`: what the revision gave lies there, and is not made again. Exit code 1: something differs. `--list` names the
cases.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import tomli_w

from benchmarks.house import BEFORE, ROOT, unpack

DIGITS = 8
QUICK = ["federation.timeouts.enrol=600"]
RUNS = {
    "run": ("stroke", []),
    "run-distributed": ("stroke-distributed", ["data.owner=country", "federation.minimum_parties=10"]),
    "run-secure": ("stroke", ["federation.votes=secure", "data.owner=country", "federation.minimum_parties=10"]),
    "run-verified": ("stroke", ["federation.votes=verified", "data.owner=country", "federation.minimum_parties=10"]),
    "run-weights": ("stroke", ["federation.most_weight=2", "data.owner=country", "federation.minimum_parties=10"]),
    "run-adult": ("adult-250", ["data.parties=8", "data.most_rows=100", "federation.teacher.trees=10",
        "federation.caps.queries=30", "federation.caps.answers=30", "federation.minimum_parties=5",
        "federation.mechanism.sigma=2"]),
}  # fmt: skip
PIXELS = {"representation": "none", "least_rows": 129}
# study -> what of each axis is kept, changes of its base
STUDIES: dict[str, tuple[dict[str, list[Any]], dict[str, Any]]] = {
    "heart": ({"promise": ["a hospital, epsilon 1", "a record, 10 teachers, epsilon 1"]}, {}),
    "hospitals": ({"division": ["country", "skewed"]}, {"federation": {"minimum_parties": 10}}),
    "naturals": ({"epsilon": [1.0], "division": ["schools, mathematics"]}, {}),
    "papers": ({"epsilon": [2.0], "parties": [100, 250]}, {}),
    "skew": ({"alpha": [0.2], "parties": [50]}, {"federation": {"caps": {"queries": 60, "answers": 60}}}),
    "writers": ({"division": ["natural", "iid"]}, {"data": PIXELS, "federation": {"teacher": {"alpha": 50},
        "caps": {"queries": 60, "answers": 60}, "minimum_parties": 5, "privacy": {"epsilon": 8.0}}}),
    "own": ({}, {}),
}  # fmt: skip
OWN: dict[str, Any] = {
    "study": {"title": "Planned", "seeds": [3, 5], "methods": ["local", "plurality", "pate", "noisy_average", "fedavg"],
        "measures": ["division", "teachers", "influence", "gain"], "hand_labels": "quick"},
    "base": {
        "data": {"set": "heart", "partition": "iid", "parties": 12, "least_rows": 5},
        "federation": {"name": "planned", "votes": "clear", "minimum_parties": 4, "mechanism": {"name": "auto"},
            "teacher": {"model": "ridge"}, "privacy": {"unit": "party", "epsilon": 4.0, "delta": 1e-3},
            "ballot": {"rule": "relative"}, "caps": {"queries": 20, "answers": 20}},
    },
    "axis": [{"key": "federation.privacy.epsilon", "values": [2.0, 6.0]}],
}  # fmt: skip
NEEDS_FOLDER = {"skew", "writers", "run-adult"}
PASSING = {"seconds", "out", "created", "versions", "command", "workers", "steps", "path", "took", "cache", "report",
    "results", "federation_digest_of_code"}  # fmt: skip


NAMES = {
    "votes": "collection", "ballot": "voting_rule", "caps": "query_budget", "pool": "public",
    "pool_least_distance": "public_least_distance", "promised": "guarantee", "epsilon_promised": "epsilon_guaranteed",
    "phases": "stages", "phase": "stage",
}  # fmt: skip
"""Keys of 0.9 and of today, wherever one stands; `TEXTS` the same within texts."""
TEXTS = {
    "federation.caps.": "federation.query_budget.", "federation.ballot.": "federation.voting_rule.",
    "federation.votes": "federation.collection", "the caps": "the query budget",
    "epsilon_promised": "epsilon_guaranteed",
}  # fmt: skip


def todays(value: Any) -> Any:
    """What a revision wrote, in today's words: both sides are compared so."""
    if isinstance(value, dict):
        return {NAMES.get(key, key): todays(item) for key, item in value.items()}
    if isinstance(value, list):
        return [todays(item) for item in value]
    if isinstance(value, str):
        for old, new in TEXTS.items():
            value = value.replace(old, new)
        return "plaintext" if value == "clear" else value
    return value


def merged(table: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    for key, value in changes.items():
        table[key] = merged(dict(table.get(key, {})), value) if isinstance(value, dict) else value
    return table


def small_study(root: Path, name: str, data: Path | None, folder: Path) -> Path:
    """The shipped study with one seed and a few points of each axis, as a file."""
    if name == "own":
        table = json.loads(json.dumps(OWN))
    else:
        shipped = next(root.glob(f"simulations/**/shipped/{name}.toml"), None) or next(
            root.glob(f"simulations/**/{name}.toml")
        )
        table = tomllib.loads(shipped.read_text(encoding="utf-8"))
        table["study"]["seeds"] = [1]
        wanted_points, changes = STUDIES[name]
        for axis in table["axis"]:
            wanted = wanted_points.get(axis.get("name", axis.get("key")))
            if wanted is not None and "points" in axis:
                axis["points"] = {label: axis["points"][label] for label in wanted}
            elif wanted is not None:
                axis["values"] = wanted
        table["base"] = merged(table.get("base", {}), changes)
        labels = {axis.get("name", axis.get("key")): axis for axis in table["axis"]}
        left = []
        for excepted in table.pop("except", []):
            thinner = {}
            for axis, labelled in excepted.items():
                there = labels[axis]
                known = [*there["points"]] if "points" in there else [str(value) for value in there["values"]]
                thinner[axis] = [label for label in ([labelled] if isinstance(labelled, str) else labelled)
                    if label in known]  # fmt: skip
            if all(thinner.values()):
                left.append(thinner)
        if left:
            table["except"] = left
    if name in NEEDS_FOLDER:
        table["base"].setdefault("data", {})["path"] = str(data)
    path = folder / f"{name}.toml"
    path.write_text(tomli_w.dumps(table), encoding="utf-8")
    return path


def run_case(root: Path, name: str, data: Path | None, folder: Path) -> Path:
    """Run a case in the checkout; the folder that it wrote."""
    out = folder / "out"
    if name in RUNS:
        scenario, overrides = RUNS[name]
        where = [f"data.path={data}"] if name in NEEDS_FOLDER else []
        words = ["run", scenario, "--seed", "1", "--out", str(out), "--quiet"]
        words += [word for setting in (*QUICK, *overrides, *where) for word in ("--set", setting)]
    else:
        path = small_study(root, name, data, folder)
        words = ["study", "run", str(path), "--out", str(out), "--cache", str(folder / "cache"), "--quiet"]
        words += ["--workers", os.environ.get("SAME_WORKERS", "1")]
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = {**os.environ, "PYTHONPATH": str(root), **one}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "consilium", *words], cwd=root, env=environment, capture_output=True
    )
    if done.returncode:
        raise SystemExit(f"{root} {name}: exit {done.returncode}\n{done.stderr.decode()[-3000:]}")
    return out


def results(folder: Path) -> dict[str, Any]:
    """All that is compared of a folder, as plain values by name of the file."""
    compared: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".json" and path.name not in ("failure.json",):
            compared[name] = plain(json.loads(path.read_text(encoding="utf-8")), folder)
        elif path.suffix == ".parquet":
            frame = pl.read_parquet(path)
            if path.name == "metrics.parquet":
                frame = frame.filter(pl.col("name") != "seconds")
            if inexact := [name for name, kind in frame.schema.items() if kind.is_float()]:
                frame = frame.with_columns(pl.col(inexact).round_sig_figs(DIGITS))
            if "cell" in frame.columns:  # an address, of keys among others; rows stand in the order of their addresses
                frame = frame.drop("cell")
                frame = frame[np.argsort([digest(todays(list(row))) for row in frame.rows()])]
            compared[name] = {column: digest(todays(frame[column].to_list())) for column in frame.columns} | {
                "rows": frame.height, "first": plain(frame.head(5).to_dicts(), folder)}  # fmt: skip
        elif path.suffix in (".npz",):
            with np.load(path, allow_pickle=False) as file:
                arrays = {key: file[key] for key in file}
                if path.name.startswith("votes-"):
                    arrays = {"query_ids": arrays["query_ids"], "choices": choices_by_name(arrays)}
                held = {key: digest([str(of.dtype), of.shape, of.tobytes()]) for key, of in arrays.items()}
            if path.parent.name == "matrices":  # named by addresses
                compared["matrices"] = sorted([*compared.get("matrices", []), digest(sorted(held.items()))])
            else:
                compared[name] = held
        elif path.name == "ledger.db":
            compared[name] = ledger(path)
        elif path.name == "events.jsonl":
            compared[name] = events(path)
        elif path.suffix in (".safetensors", ".md"):
            compared[name] = digest(path.read_bytes()) if path.suffix != ".md" else len(path.read_text().splitlines())
    return compared


def choices_by_name(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Of all parties by name: of 0.9, which has an array for each, or of many in one, in the order of their answers."""
    own = sorted(key for key in arrays if key.startswith("choices-"))
    if own:
        return np.stack([arrays[key] for key in own])
    parts = [arrays[key] for key in sorted(arrays) if key.startswith("choices/")]
    return np.concatenate(parts)[np.argsort(arrays["parties"])]


def events(path: Path) -> dict[str, int]:
    """How often each kind of event happened; their order and times are the machine's."""
    count: dict[str, int] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        kind = json.loads(line).get("event", "?")
        if kind not in ("progress", "student-saved"):
            count[kind] = count.get(kind, 0) + 1
    return count


def ledger(path: Path) -> dict[str, Any]:
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as base:
        tables = [row[0] for row in base.execute("select name from sqlite_master where type = 'table' order by 1")]
        compared: dict[str, Any] = {name: digest(list(rows(base, name))) for name in tables if name != "meta"}
        meta = dict(base.execute("select key, value from meta where key not in ('id', 'salt')"))
        return compared | {"meta": {key: meta_value(text) for key, text in meta.items()}}


def meta_value(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


def rows(base: sqlite3.Connection, table: str) -> Iterator[Any]:
    columns = [row[1] for row in base.execute(f'pragma table_info("{table}")')]
    names = [name for name in columns if name not in ("at", "previous", "hash")]  # hashes are of times and salts too
    yield names
    selected = base.execute(f"""select {", ".join(f'"{name}"' for name in names)} from "{table}" """)
    yield from selected


def plain(value: Any, folder: Path) -> Any:
    if isinstance(value, dict):
        return {key: plain(item, folder) for key, item in value.items() if key not in PASSING}
    if isinstance(value, list):
        return [plain(item, folder) for item in value]
    if isinstance(value, str):
        return value.replace(str(folder.parent), "FOLDER")
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def digest(value: Any) -> str:
    content = value if isinstance(value, bytes) else repr(value).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def differences(old: Any, new: Any, where: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            if key not in new or key not in old:
                yield f"{where}/{key}: only in {'OLD' if key in old else 'NEW'}"
            else:
                yield from differences(old[key], new[key], f"{where}/{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, pair in enumerate(zip(old, new, strict=True)):
            yield from differences(*pair, f"{where}[{index}]")
    elif old != new and not (old != old and new != new):
        yield f"{where}: {str(old)[:120]} -> {str(new)[:120]}"


def measured(root: Path, name: str, data: Path | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="same-") as folder:
        out = run_case(root, name, data, Path(folder))
        return json.loads(json.dumps(results(out), default=str))


def main(arguments: Sequence[str] = ()) -> int:
    """Compare; how many cases differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same", description="Same seeds, same results.")
    parser.add_argument("--against", default=BEFORE, metavar="REVISION")
    parser.add_argument("--only", nargs="*", default=[], choices=[*RUNS, *STUDIES], metavar="CASE")
    parser.add_argument("--data", type=Path, default=os.environ.get("CONSILIUM_DATA"))
    parser.add_argument("--keep", type=Path, default=None, metavar="FOLDER")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args(arguments)
    names = options.only or [name for name in (*RUNS, *STUDIES) if options.data or name not in NEEDS_FOLDER]
    if options.list:
        print("\n".join((*RUNS, *STUDIES)))
        return 0
    with tempfile.TemporaryDirectory(prefix="same-") as folder:
        before, kept = Path(folder) / "before", options.keep or Path(folder) / "kept"
        kept.mkdir(parents=True, exist_ok=True)
        unpack(options.against, before)
        return sum(differs(name, before, kept / f"{name}.json", options.data) for name in names)


def differs(name: str, before: Path, kept: Path, data: Path | None) -> bool:
    """Print what of a case differs."""
    if not kept.exists():
        kept.write_text(json.dumps(measured(before, name, data)))
    before_it, now = todays(json.loads(kept.read_text())), todays(measured(ROOT, name, data))
    lines = list(differences(before_it, now))
    print(f"{name}: {f'{len(lines)} differences' if lines else 'the same'}", flush=True)
    for line in lines[:40]:
        print(f"  {line}")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
