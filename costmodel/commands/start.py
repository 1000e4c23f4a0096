"""Entry point of `costmodel`, `python -m costmodel` and `python cli.py`."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
from types import ModuleType
from typing import NoReturn

from costmodel.commands.environment_errors import check_memory, open_streams, surroundings, without_leftovers
from costmodel.ground.errors import CostModelError


def main() -> NoReturn:
    """The installed command; if it cannot start, it reports why without any library."""
    gc.set_threshold(200_000)  # imports and documents make 130,000 objects that stay: do not look through them
    atexit.register(gc.freeze)  # nor at the end, which would take a quarter of an estimate
    if os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__") == "__all__":
        _load_no_plugins()
    open_streams()
    without_leftovers()
    try:
        check_memory()
        from costmodel.commands.app import main as run
    except Exception as error:
        _end(error)
    run()


def _load_no_plugins() -> None:
    """Stand in for what pydantic looks for plugins with: it imports `importlib.metadata`, and `email` with that, before
    it knows that they are disabled, which takes a tenth of the time to read documents.
    """
    loader = ModuleType("pydantic.plugin._loader")
    vars(loader)["get_plugins"] = tuple
    sys.modules.setdefault(loader.__name__, loader)


def _end(error: Exception) -> NoReturn:
    """Exit 2 for a fault of the surroundings, 3 for one of the program, with a line for standard error."""
    found = error if isinstance(error, CostModelError) else surroundings(error)
    if found is None:
        lines, code = [f"error[bug]: {type(error).__name__}: {error}"], 3
    else:
        fault = found.faults[0]
        lines, code = [f"error[{fault.code}]: {fault.sentence}", f"help: {fault.hint}"], 2
    with contextlib.suppress(OSError):
        os.write(2, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
    os._exit(code)
