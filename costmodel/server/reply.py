"""What a request gets, and the jobs that make it: all that the process needs that listens."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

from costmodel.ground.errors import COMMAND_LINE, CostModelError
from costmodel.ground.record import record

MEDIA = {
    "application/json": "json",
    "text/csv": "csv",
    "text/markdown": "markdown",
    "text/plain": "table",
    "text/html": "html",
    "image/svg+xml": "svg",
    "application/yaml": "yaml",
}


@record
class Answered:
    """The reply to a request: HTTP status, media type, text, and whether the answer is yes."""

    status: int
    media: str
    body: bytes
    works: bool = True


@record
class Job:
    """A call that a process makes: the module, its function and the arguments."""

    module: str
    function: str
    arguments: tuple[Any, ...] = ()

    def done(self) -> Any:
        """Call the function and return its result.

        >>> Job("math", "hypot", (3, 4)).done()
        5.0
        """
        return getattr(import_module(self.module), self.function)(*self.arguments)


def refused(error: CostModelError, status: int = 400) -> Answered:
    """Faults as JSON: each with its code, its place, a sentence and the remedy."""
    faults = [
        {
            "code": fault.code,
            "place": None if fault.place is None else str(fault.place).replace(COMMAND_LINE, "request", 1),
            "message": fault.sentence,
            "remedy": fault.hint or None,
        }
        for fault in error.faults
    ]
    text = json.dumps({"schema": "costmodel/errors/v1", "errors": faults}, ensure_ascii=False, indent=1)
    return Answered(status, "application/json", f"{text}\n".encode("utf-8", "replace"), works=False)
