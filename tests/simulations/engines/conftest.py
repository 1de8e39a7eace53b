"""Parties that misbehave in the processes of an engine."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import consilium

ROOT = Path(consilium.__file__).parents[1]
SABOTAGE = """
import os, signal, time
import consilium.party.node
from consilium.party.node import PartyNode
modes = dict(part.split("=") for part in os.environ["SABOTAGE"].split())

def spoiled(name):
    real = getattr(PartyNode, name)
    def method(self, request):
        mode, flag = modes.get(f"{self.settings.name}.{name}"), os.environ["FLAG"]
        if mode == "die" or mode == "once" and not os.path.exists(flag):
            open(flag, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        if mode == "raise":
            raise RuntimeError("patient 4711")
        if mode == "hang":
            open(flag, "w").close()
            time.sleep(3600)
        return real(self, request)
    setattr(PartyNode, name, method)

spoiled("train"), spoiled("vote")
"""


@pytest.fixture
def sabotaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Workers in which parties misbehave; by party and method, how."""
    folder = tmp_path / "site"
    folder.mkdir()
    # python runs sitecustomize before anything else
    (folder / "sabotage.py").write_text(SABOTAGE)
    (folder / "sitecustomize.py").write_text("import os\nif os.environ.get('SABOTAGE'):\n    import sabotage\n")
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{ROOT}")
    monkeypatch.setenv("FLAG", str(tmp_path / "flag"))

    def set_modes(**modes: str) -> None:
        monkeypatch.setenv("SABOTAGE", " ".join(f"{name.replace('__', '.')}={mode}" for name, mode in modes.items()))

    return set_modes
