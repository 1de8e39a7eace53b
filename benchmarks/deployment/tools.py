"""What promtool and systemd-analyze say of alarms and of units in kits: `python -m benchmarks.deployment.tools`.

The tests of `make test` hold both, where the programs are; here their own words are recorded.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from docs.figures import figure
from tests.deploy import netns
from tests.deploy.kits import SECOND, make_kits

ALARMS = netns.ROOT / "docs" / "alarms.yml"


def said(*command: str) -> tuple[str, int]:
    """Both streams on one line, and the exit status."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return " ".join(done.stdout.split()), done.returncode


def looked() -> Iterator[tuple[str, str, str, int]]:
    """Program, what it looked at, what it said, exit status."""
    if shutil.which("promtool"):
        version = said("promtool", "--version")[0].split(",")[1].split("(")[0].strip().removeprefix("version ")
        words, code = said("promtool", "check", "rules", str(ALARMS))
        yield f"promtool {version}", "`check rules docs/alarms.yml`", words.replace(str(ALARMS), ALARMS.name), code
    if shutil.which("systemd-analyze"):
        version = said("systemd-analyze", "--version")[0].split("(")[0].strip()
        with tempfile.TemporaryDirectory() as folder:
            out = make_kits(Path(folder), collection="verified", minimum_parties=3)
            for kit in ("coordinator", "party-ward-a", f"aggregator-{SECOND}"):
                (unit,) = (out / kit).glob("*.service")
                text = unit.read_text(encoding="utf-8").replace("/opt/consilium/bin/consilium", "/bin/true")
                there = Path(folder) / unit.name
                there.write_text(text.replace("User=consilium", "User=root"), encoding="utf-8")
                words, code = said("systemd-analyze", "verify", str(there))
                yield version, f"`verify {unit.name}`", words if unit.name in words else "nothing", code
                words, code = said("systemd-analyze", "security", "--offline=true", "--no-pager", str(there))
                yield (
                    version,
                    f"`security {unit.name}`",
                    words[words.rfind("Overall") :].split(":", 1)[-1].strip(),
                    code,
                )


def main() -> None:
    """Entry point."""
    rows = list(looked())
    with figure(
        "deployment-results/tools", "python -m benchmarks.deployment.tools", ["program", "looked at", "said", "exit"],
        split="no data: alarms of the pages, units of kits of three parties and a second aggregator", quick=False,
    ) as table:  # fmt: skip
        for row in rows:
            table.add(*row)
    sys.exit(int(any(code for *_, code in rows) or not rows))


if __name__ == "__main__":
    main()
