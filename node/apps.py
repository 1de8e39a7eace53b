"""Flower's `flower-superexec` as nodes run it: a warm process that answers with installed code, never a bundle's.

A SuperNode starts a program of this name, which asks it for tasks. Flower's own starts a Python for every message,
unpacks the bundle that came from the coordinator and imports that: whoever submits a run runs code at every node. This
one has imported the app of its own kind of node, and Flower's code for it, once; for a message it forks, and the child
runs Flower's client process with this app. Nothing of a bundle is unpacked, imported or read, no other kind of task is
taken, and a task's token stands in no list of processes. All that rests on names inside Flower, which `check_flower`
asserts before anything starts.

`python -P -m consilium.node.apps MODULE ...` is `flower-superexec ...` with the `app` of that installed module."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import stat
import subprocess
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from flwr.clientapp import ClientApp

from consilium.node.flower import python_module, require_flower, unknown_flower
from consilium.protocol.errors import EngineError
from consilium.protocol.files import private_folder, replace_text

PROGRAM, STARTER = "flower-superexec", "flwr.supernode.start_client_internal"
LOOP, EXECUTOR = "flwr.supercore.superexec.run_superexec", "flwr.supercore.superexec.executor.types"
RUNTIME, CONSTANTS = "flwr.supernode.runtime.run_clientapp", "flwr.supercore.constant"
LOADS = "get_load_client_app_fn"


def _gives(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


REPLACED = {
    **dict.fromkeys(("install_from_fab", "install_app_dependencies", LOADS), _gives(None)),
    "get_project_dir": _gives(Path()),
}
"""In RUNTIME, by name: all that it does with a bundle. What imports an app is replaced by what gives the own one."""
NAMES = {
    STARTER: ("subprocess", "start_client_internal"),
    LOOP: ("run_superexec", "get_executor"),
    RUNTIME: ("run_clientapp", *REPLACED),
    EXECUTOR: ("LaunchResult.accepted", "LaunchResult.failed"),
    CONSTANTS: ("TASK_TYPE_TO_COMMAND", "TaskType"),
}
"""Names that are not Flower's public API, and that `check_flower` asserts."""


def write_programs(folder: Path, module: str) -> Path:
    """Small programs with the names that Flower looks up in PATH; the folder is to come first there.

    module: its `app` is that of this kind of node. All other programs that Flower could start for a task refuse."""
    private_folder(folder)
    refuse = 'echo "refused: a node runs its own code only" >&2\nexit 1\n'
    own = " ".join(f'"{part}"' for part in python_module("consilium.node.apps", module))
    programs = dict.fromkeys(import_module(CONSTANTS).TASK_TYPE_TO_COMMAND.values(), refuse)
    for name, line in {**programs, PROGRAM: f'exec {own} "$@"\n'}.items():
        replace_text(folder / name, f"#!/bin/sh\n{line}")
        (folder / name).chmod(stat.S_IRWXU)
    return folder


def check_flower() -> None:
    """Check that this Flower can be made to ignore bundles, before a node is reachable.

    A name that is set where Flower no longer looks would protect nothing and raise nothing. So: every name is there, it
    is what Flower's processes call, and they are started by a program that PATH decides on. Raises EngineError: one of
    them is not so, or this is another version of Flower."""
    require_flower(NAMES)
    for module, function, called in (
        (LOOP, "run_superexec", {"get_executor"}),
        (RUNTIME, "run_clientapp", {*REPLACED}),
    ):
        found = import_module(module)
        code = getattr(found, function)
        if code.__globals__ is not vars(found):
            raise unknown_flower(f"{module}.{function} is from elsewhere")
        if unused := called - {*code.__code__.co_names}:
            raise unknown_flower(f"{module}.{function} does not call {', '.join(sorted(unused))}")
    starter = import_module(STARTER)
    if PROGRAM not in starter.start_client_internal.__code__.co_consts or starter.subprocess is not subprocess:
        raise unknown_flower(f"{STARTER} starts another program than {PROGRAM}, or in another way")


class Forks:
    """An executor of Flower's: a message is answered by a child of this process, which runs `app`."""

    def __init__(self, app: ClientApp) -> None:
        runtime = import_module(RUNTIME)
        for name, replacement in {**REPLACED, LOADS: _gives(_gives(app))}.items():
            setattr(runtime, name, replacement)
        self._run = runtime.run_clientapp
        self._task = import_module(CONSTANTS).TaskType.CLIENT_APP
        self._result: Any = import_module(EXECUTOR).LaunchResult

    def get_eligible_capacity(self, supported: set[Any], **_: Any) -> tuple[set[Any], set[str]]:
        return supported & {self._task}, set()

    def launch(self, spec: Any) -> Any:
        if spec.task_type != self._task:
            return self._result.failed("a node runs its own code only")
        if os.fork() == 0:
            self._answer(spec)
        return self._result.accepted()

    def reconcile(self) -> None:
        """Let children go that have ended; called with every look for a task."""
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass

    def close(self) -> None:
        """Children end by themselves once this process is gone."""

    def _answer(self, spec: Any) -> NoReturn:
        """In the child, which ends here, whatever happens: nothing of the parent's loop is ever run twice."""
        code: Any = 1
        try:
            names = ("runtime_api_address", "token", "insecure", "parent_pid")
            self._run(**{name: getattr(spec, name) for name in names})
        except SystemExit as end:  # how Flower's process ends
            code = end.code
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code if isinstance(code, int) else 0)


def main() -> None:
    """Entry point: sys.argv[1] is the module, the rest what a SuperNode tells `flower-superexec`."""
    parser = argparse.ArgumentParser(PROGRAM)
    parser.add_argument("module")
    parser.add_argument("--runtime-api-address", required=True)
    parser.add_argument("--insecure", action="store_true", required=True)  # on loopback, for this user alone
    parser.add_argument("--parent-pid", type=int, required=True)
    told = parser.parse_args()
    try:
        check_flower()
    except EngineError as error:
        sys.exit(f"refused: {error}")
    loop: Any = import_module(LOOP)
    executor = Forks(import_module(told.module).app)
    loop.get_executor = _gives(executor)
    gc.freeze()  # what is there by now stays shared with the children
    loop.run_superexec(told.runtime_api_address, told.insecure, parent_pid=told.parent_pid)


if __name__ == "__main__":
    main()
