"""The group of all commands: what Typer says of a command line holds nothing that moves the cursor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typer.core import TyperGroup

from costmodel.report.theme import visible


class Commands(TyperGroup):
    """The commands, with the words of whoever called them made harmless in errors."""

    def make_context(self, *given: Any, **named: Any) -> Any:
        """Reads the options before the command."""
        with _visible():
            return super().make_context(*given, **named)

    def invoke(self, ctx: Any) -> Any:
        """Reads the options of the command, and runs it."""
        with _visible():
            return super().invoke(ctx)


@contextmanager
def _visible() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message") and isinstance(getattr(error, "message", None), str):
            error.message = visible(error.message)  # type: ignore[attr-defined]
        raise
