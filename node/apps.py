"""Flower's `flower-superexec` as nodes run it: a warm process that answers with installed code, never a bundle's.

SuperNode and SuperLink start a program of this name, which asks them for tasks. Flower's own starts a Python for every
task, a message at a node, unpacks the bundle that came with it and imports that: whoever submits a run runs code at
every node. This one has imported the app of its own kind of node and Flower's code for it once; for a task it forks,
and the child runs Flower's process of that kind with this app. Nothing of a bundle is unpacked, imported or read, no
other kind of task is taken, and a task's token stands in no list of processes. All that rests on names inside Flower,
which `check_flower` asserts before anything starts.

`python -P -m consilium.node.apps MODULE ...` is `flower-superexec ...` with the `app` of that installed module.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import stat
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from queue import Queue
from typing import Any

from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from consilium.node.flower import python_module, require_flower, unknown_flower
from consilium.protocol.errors import EngineError
from consilium.protocol.files import private_folder, replace_text

PROGRAM = "flower-superexec"
LOOP, EXECUTOR = "flwr.supercore.superexec.run_superexec", "flwr.supercore.superexec.executor.types"
STARTED_BY = {
    "flwr.supernode.start_client_internal": "start_client_internal",
    "flwr.superlink.cli.flower_superlink": "_get_superexec_command",
}
"""What names PROGRAM for `subprocess`, so that PATH decides which it is."""


@dataclass(frozen=True)
class Runtime:
    """How Flower runs one kind of app: by `function` of `module`, for tasks of type `task`. replaced: what it does with
    a bundle, by its names in that module, each with what takes its place for an app. more: arguments, made anew."""

    task: str
    module: str
    function: str
    replaced: Mapping[str, Callable[[Any], Callable[..., Any]]]
    more: Mapping[str, Callable[[], Any]] = field(default_factory=dict)


def _gives(value: Any) -> Callable[[Any], Callable[..., Any]]:
    return lambda _app: lambda *_, **__: value


def _serves(app: ServerApp) -> Callable[..., Any]:
    def run(grid: Any, context: Any, **_: Any) -> Any:
        app(grid=grid, context=context)
        return context

    return run


_UNPACKS = {
    "install_from_fab": _gives(None),
    "get_project_dir": _gives(Path()),
    "install_app_dependencies": _gives(None),
}
CLIENT = Runtime(
    "CLIENT_APP",
    "flwr.supernode.runtime.run_clientapp",
    "run_clientapp",
    {**_UNPACKS, "get_load_client_app_fn": lambda app: lambda *_, **__: lambda *_: app},
)
SERVER = Runtime(
    "SERVER_APP",
    "flwr.superlink.runtime.run_serverapp",
    "run_serverapp",
    {
        **_UNPACKS,
        "get_fab_metadata": _gives(("", "")),
        "get_project_config": _gives({"tool": {"flwr": {"app": {"components": {"serverapp": ""}}}}}),
        "get_fused_config_from_dir": lambda _app: lambda _folder, run_config: run_config,
        "run_": _serves,
    },
    {"log_queue": Queue},  # it stays empty: what a ServerApp prints is for its own operator alone
)
RUNTIMES = (CLIENT, SERVER)
NAMES = {
    LOOP: ("run_superexec", "get_executor"),
    EXECUTOR: ("LaunchResult.accepted", "LaunchResult.failed"),
    "flwr.supercore.constant": ("TASK_TYPE_TO_COMMAND", "TaskType"),
    **{runtime.module: (runtime.function, *runtime.replaced) for runtime in RUNTIMES},
    **{module: ("subprocess", function) for module, function in STARTED_BY.items()},
}
"""Names that are not Flower's public API, and that `check_flower` asserts."""


def write_programs(folder: Path, module: str) -> Path:
    """Small programs with the names that Flower looks up in PATH; the folder is to come first there.

    module: its `app` is that of this kind of node. All other programs that Flower could start for a task refuse.
    """
    private_folder(folder)
    others = import_module("flwr.supercore.constant").TASK_TYPE_TO_COMMAND.values()
    refuse = 'echo "refused: a node runs its own code only" >&2\nexit 1\n'
    own = " ".join(f'"{part}"' for part in python_module("consilium.node.apps", module))
    for name, line in {**dict.fromkeys(others, refuse), PROGRAM: f'exec {own} "$@"\n'}.items():
        replace_text(folder / name, f"#!/bin/sh\n{line}")
        (folder / name).chmod(stat.S_IRWXU)
    return folder


def check_flower() -> None:
    """Check that this Flower can be made to ignore bundles, before a node is reachable.

    A name that is set where Flower no longer looks would protect nothing and raise nothing. So: every name is there, it
    is what Flower's processes call, and they are started by a program that PATH decides on.

    Raises
    ------
    EngineError : one of them is not so, or this is another version of Flower.
    """
    require_flower(NAMES)
    for module, function, called in [
        (LOOP, "run_superexec", {"get_executor"}),
        *((runtime.module, runtime.function, {*runtime.replaced}) for runtime in RUNTIMES),
    ]:
        found = import_module(module)
        code = getattr(found, function)
        if code.__globals__ is not vars(found):
            raise unknown_flower(f"{module}.{function} is from elsewhere")
        if unused := called - {*code.__code__.co_names}:
            raise unknown_flower(f"{module}.{function} does not call {', '.join(sorted(unused))}")
    for module, function in STARTED_BY.items():
        found = import_module(module)
        if PROGRAM not in getattr(found, function).__code__.co_consts or found.subprocess is not subprocess:
            raise unknown_flower(f"{module} starts another program than {PROGRAM}, or in another way")


class Forks:
    """An executor of Flower's: a task is a child of this process, which runs the app of one kind of node."""

    def __init__(self, app: ClientApp | ServerApp) -> None:
        self._runtime = runtime = SERVER if isinstance(app, ServerApp) else CLIENT
        module = import_module(runtime.module)
        for name, made in runtime.replaced.items():
            setattr(module, name, made(app))
        self._run = getattr(module, runtime.function)
        self._task = import_module("flwr.supercore.constant").TaskType[runtime.task]
        self._result: Any = import_module(EXECUTOR).LaunchResult

    def get_eligible_capacity(self, supported: set[Any], **_: Any) -> tuple[set[Any], set[str]]:
        """Only tasks of the own kind are asked for."""
        return supported & {self._task}, set()

    def launch(self, spec: Any) -> Any:
        """Fork for a task of the own kind, and refuse any other."""
        if spec.task_type != self._task:
            return self._result.failed("a node runs its own code only")
        if os.fork() == 0:
            self._serve(spec)
        return self._result.accepted()

    def reconcile(self) -> None:
        """Let children go that have ended; called with every look for a task."""
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass

    def close(self) -> None:
        """Children end by themselves once this process is gone."""

    def _serve(self, spec: Any) -> None:
        """In the child, which ends here, whatever happens: nothing of the parent's loop is ever run twice."""
        code: Any = 1
        try:
            certificates = spec.root_certificates_path and Path(spec.root_certificates_path).read_bytes()
            self._run(
                runtime_api_address=spec.runtime_api_address,
                token=spec.token,
                insecure=spec.insecure,
                certificates=certificates,
                parent_pid=spec.parent_pid,
                **{name: make() for name, make in self._runtime.more.items()},
            )
        except SystemExit as end:  # how Flower's process ends
            code = end.code
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code if isinstance(code, int) else 0)


def main() -> None:
    """Entry point: sys.argv[1] is the module, the rest what SuperNode or SuperLink tell `flower-superexec`."""
    parser = argparse.ArgumentParser(PROGRAM)
    parser.add_argument("module")
    parser.add_argument("--runtime-api-address", required=True)
    parser.add_argument("--insecure", action="store_true")
    parser.add_argument("--root-certificates")
    parser.add_argument("--parent-pid", type=int, required=True)
    told = parser.parse_args()
    try:
        check_flower()
    except EngineError as error:
        sys.exit(f"refused: {error}")
    loop, executor = import_module(LOOP), Forks(import_module(told.module).app)
    loop.get_executor = lambda *_, **__: executor
    gc.freeze()  # what is there by now stays shared with the children
    loop.run_superexec(
        runtime_api_address=told.runtime_api_address,
        insecure=told.insecure,
        root_certificates_path=told.root_certificates,
        parent_pid=told.parent_pid,
    )


if __name__ == "__main__":
    main()
