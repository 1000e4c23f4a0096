"""Options used more than once, exit codes, the printer of faults, the writer of answers."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from enum import IntEnum, StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from rich.text import Text

from costmodel.errors import CostModelError, Fault, Place, fail
from costmodel.report import machine
from costmodel.report.theme import BAD, DIM, console

ISSUES = "https://github.com/costmodel/costmodel/issues"


class Exit(IntEnum):
    """What the exit code says."""

    YES = 0
    NO = 1
    CANNOT = 2
    BUG = 3
    INTERRUPTED = 130


class Format(StrEnum):
    """Forms an answer can take."""

    TABLE = "table"
    JSON = "json"


ScenarioArgument = Annotated[
    str,
    typer.Argument(
        help="A scenario: a shipped name, a path, '-' for stdin, or a result written with --json", show_default=False
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Override any leaf, e.g. --set plan.tp=4; may be repeated",
        show_default=False,
    ),
]
FormatOption = Annotated[Format, typer.Option("--format", help="How to write the answer")]
JsonOption = Annotated[bool, typer.Option("--json", help="Short for --format json")]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to a file; .json gives JSON", show_default=False),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Let -o overwrite")]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Show everything assumed")]


def deliver(
    lines: Callable[[], Sequence[Text]],
    result: Callable[[], dict[str, Any]],
    *,
    as_json: bool,
    output: Path | None = None,
    force: bool = False,
) -> None:
    """Print the answer, or write it whole or not at all."""
    as_json = as_json or (output is not None and output.suffix == ".json")
    text = machine.text(result()) if as_json else None
    if output is not None:
        _write(output, text if text is not None else "\n".join(line.plain for line in lines()) + "\n", force=force)
    elif text is not None:
        sys.stdout.write(text)
    else:
        screen = console()
        for line in lines():
            screen.print(line)


def _write(path: Path, text: str, *, force: bool) -> None:
    if path.exists() and not force:
        raise fail("C002", f"{path} exists", Place(str(path)), "take another name, or add --force")
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent or Path(), prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        raise fail("C002", f"{path} cannot be written: {error.strerror}", Place(str(path))) from None


def print_faults(error: CostModelError) -> None:
    """Every fault with its place, the line with a caret, and the remedy."""
    screen = console(stderr=True)
    for fault in error.faults:
        for line in fault_lines(fault):
            screen.print(line)
    known = error.faults[0].code if error.faults else "D002"
    count = len(error.faults)
    screen.print(Text(f"{count} fault{'s' if count > 1 else ''}. costmodel explain {known} says more.", style=DIM))


def fault_lines(fault: Fault) -> list[Text]:
    """One fault as cargo would print it."""
    lines = [Text.assemble((f"error[{fault.code}]", BAD), f": {fault.sentence}")]
    place = fault.place
    if place is not None:
        lines.append(Text(f"  --> {place}", style=DIM))
        if place.line and place.text:
            number = str(place.line)
            margin = " " * len(number)
            lines.append(Text(f" {margin} |"))
            lines.append(Text(f" {number} | {place.text}"))
            lines.append(Text.assemble(f" {margin} | {' ' * (place.column - 1)}", ("^" * place.width, BAD)))
    if fault.hint:
        lines.append(Text(f"help: {fault.hint}"))
    return lines


def interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    """Ctrl-C ends with 130 and no traceback."""
    raise SystemExit(Exit.INTERRUPTED)


def guarded(run: Callable[[], None]) -> NoReturn:
    """Run the program; input that cannot be used exits 2, a crash of ours 3, a closed pipe quietly."""
    signal.signal(signal.SIGINT, interrupt)
    try:
        run()
    except CostModelError as error:
        print_faults(error)
        raise SystemExit(Exit.CANNOT) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(Exit.YES) from None
    except Exception as error:
        if os.environ.get("COSTMODEL_DEBUG") == "1":
            raise
        screen = console(stderr=True)
        screen.print(Text(f"error[bug]: {type(error).__name__}: {error}", style=BAD))
        screen.print(Text(f"This is our fault, not yours. COSTMODEL_DEBUG=1 shows where; please report it: {ISSUES}"))
        raise SystemExit(Exit.BUG) from None
    raise SystemExit(Exit.YES)
