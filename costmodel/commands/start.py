"""Entry point of `costmodel`, `python -m costmodel` and `python cli.py`."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import sys
import threading
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from types import GenericAlias, ModuleType
from typing import Any, NoReturn

from costmodel.commands.environment_errors import (
    check_memory,
    environment_fault,
    open_streams,
    remove_leftover_variables,
)
from costmodel.ground.errors import CostModelError


def program() -> NoReturn:
    """The installed command; it ends without freeing what it loaded, which saves time."""
    try:
        main()
    except SystemExit as left:
        code = 0 if left.code is None else left.code
        with contextlib.suppress(OSError, ValueError):
            if isinstance(code, int) and threading.active_count() == 1:  # else Python prints a text, or waits
                atexit._run_exitfuncs()
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        raise


def main() -> NoReturn:
    """Runs the command in this process; if it cannot start, reports why without any library."""
    gc.set_threshold(200_000)  # imports and documents make 130,000 objects that stay: do not look through them
    atexit.register(gc.freeze)  # nor at the end, which would take a quarter of an estimate
    if os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__") != "__all__":
        _UNREAD.pop("pydantic.plugin._loader", None)
    if _STAND_INS not in sys.meta_path:
        sys.meta_path.insert(0, _STAND_INS)
    open_streams()
    remove_leftover_variables()
    try:
        check_memory()
        from costmodel.commands.app import main as run
    except Exception as error:
        _exit_with(error)
    run()


class _ArrayStandIn:
    """Stands in for the type of arrays."""

    __class_getitem__: Any = classmethod(GenericAlias)


# Modules that pydantic and NumPy import and no answer reads, with what they must hold: pydantic looks for plugins, by
# importing `importlib.metadata` and `email`, before it knows that they are disabled; NumPy writes the docstrings of its
# own functions, and describes its types. They are a twelfth of the time of an estimate.
_UNREAD: dict[str, dict[str, Any]] = {
    "pydantic.plugin._loader": {"get_plugins": tuple},
    "numpy._core._add_newdocs": {},
    "numpy._core._add_newdocs_scalars": {},
    "numpy._typing": {"NDArray": _ArrayStandIn},
    "numpy.typing": {"NDArray": _ArrayStandIn},
}


class _StandInFinder:
    """Import hook that replaces slow modules by stand-ins; using another attribute loads the real module."""

    def find_spec(self, name: str, path: Any = None, _target: Any = None) -> ModuleSpec | None:
        """The spec of a module that has a stand-in, with this loader."""
        found = PathFinder.find_spec(name, path) if name in _UNREAD else None
        if found is not None:
            found.loader = self  # type: ignore[assignment]
        return found

    def create_module(self, _spec: ModuleSpec) -> None:
        """None, so that Python makes a usual module."""

    def exec_module(self, module: ModuleType) -> None:
        """Fills the module with the attributes of its stand-in."""
        vars(module).update(_UNREAD[module.__name__], __getattr__=partial(_attribute_of_real_module, module))


_STAND_INS = _StandInFinder()


def _attribute_of_real_module(module: ModuleType, attribute: str) -> Any:
    """Loads the real module of a stand-in and returns its attribute."""
    if attribute.startswith("__"):  # of which imports ask
        raise AttributeError(attribute)
    name = module.__name__
    if _UNREAD.pop(name, None) is not None:
        del sys.modules[name]
    return getattr(importlib.import_module(name), attribute)


def _exit_with(error: Exception) -> NoReturn:
    """Prints an error and exits: with 2 for a fault of the environment, with 3 for one of the program."""
    found = error if isinstance(error, CostModelError) else environment_fault(error)
    if found is None:
        lines, code = [f"error[bug]: {type(error).__name__}: {error}"], 3
    else:
        fault = found.faults[0]
        lines, code = [f"error[{fault.code}]: {fault.sentence}", f"help: {fault.hint}"], 2
    with contextlib.suppress(OSError):
        os.write(2, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
    os._exit(code)
