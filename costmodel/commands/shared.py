"""Options used more than once, exit codes, the printer of faults, the writer of answers."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from enum import IntEnum, StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from rich.cells import cell_len
from rich.text import Text

from costmodel.errors import CostModelError, Fault, Place, fail
from costmodel.report.theme import BAD, DIM, console

ISSUES = "https://github.com/costmodel/costmodel/issues"
_OTHER_FORMATS = {".csv", ".md", ".parquet", ".html", ".xlsx", ".pdf"}
_MOST_FAULTS = 20
_WINDOW = 100


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
    from costmodel.report import machine

    if output is not None:
        _allowed(output, force=force)
    as_json = as_json or (output is not None and output.suffix == ".json")
    if output is not None:
        text = machine.text(result()) if as_json else "\n".join(line.plain for line in lines()) + "\n"
        _write(output, text)
    else:
        _print(machine.text(result()) if as_json else lines())


def _print(answer: str | Sequence[Text]) -> None:
    """To standard output; whoever closed it early has seen enough."""
    try:
        if isinstance(answer, str):
            sys.stdout.write(answer)
        else:
            screen = console()
            for line in answer:
                screen.print(line)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # Rich turns the one into the other
        _discard()
        raise typer.Exit(Exit.YES) from None
    except OSError as error:
        _discard()
        raise fail("C002", f"standard output cannot be written: {error.strerror}") from None


def _discard() -> None:
    """What is still waiting for standard output goes nowhere, so that Python does not try it again at the end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _allowed(path: Path, *, force: bool) -> None:
    place = Place(str(path))
    if os.path.isdir(path):
        raise fail("C002", f"{path} is a folder", place, "name a file in it")
    if path.suffix in _OTHER_FORMATS:
        raise fail("C002", f"{path.suffix} is not written yet", place, "take .json, or another suffix for plain text")
    if os.path.isfile(path) and not force:
        raise fail("C002", f"{path} exists", place, "take another name, or add --force")


def _write(path: Path, text: str) -> None:
    data = text.encode("utf-8", "replace")
    temporary = ""
    try:
        if path.exists() and not path.is_file():  # a pipe or a device is written to, never replaced
            path.write_bytes(data)
            return
        path = path.resolve()
        mode = path.stat().st_mode if path.exists() else 0o666 & ~_umask()
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, mode & 0o777)
        os.replace(temporary, path)
    except OSError as error:
        raise fail("C002", f"{path} cannot be written: {error.strerror}", Place(str(path))) from None
    finally:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def print_faults(error: CostModelError) -> None:
    """Every fault with its place, the line with a caret, and the remedy."""
    screen = console(stderr=True)
    for fault in error.faults[:_MOST_FAULTS]:
        for line in fault_lines(fault):
            screen.print(line)
    count = len(error.faults)
    if count > _MOST_FAULTS:
        screen.print(Text(f"and {count - _MOST_FAULTS:,} more", style=DIM))
    known = error.faults[0].code if error.faults else "D002"
    screen.print(Text(f"{count:,} fault{'s' if count > 1 else ''}. costmodel explain {known} says more.", style=DIM))


def fault_lines(fault: Fault) -> list[Text]:
    """One fault as cargo would print it."""
    lines = [Text.assemble((f"error[{fault.code}]", BAD), f": {_visible(fault.sentence)}")]
    place = fault.place
    if place is not None:
        lines.append(Text(f"  --> {_visible(str(place))}", style=DIM))
        if place.text:
            number = str(place.line or "")
            margin = " " * len(number)
            before, marked, after = _window(place)
            lines.append(Text(f" {margin} |"))
            lines.append(Text(f" {number} | {before}{marked}{after}"))
            lines.append(Text.assemble(f" {margin} | {' ' * cell_len(before)}", ("^" * (cell_len(marked) or 1), BAD)))
    if fault.hint:
        lines.append(Text(f"help: {_visible(fault.hint)}"))
    return lines


def _visible(text: str) -> str:
    """Text without anything that moves the cursor or hides."""
    return "".join(letter if letter.isprintable() else " " if letter in "\t\n\r\xa0\u3000" else "�" for letter in text)


def _window(place: Place) -> tuple[str, str, str]:
    """The line before, under and after the caret, cut where it is long."""
    start, end = place.column - 1, place.column - 1 + place.width
    before, marked, after = (
        _visible(part.replace("\t", "    ")) for part in (place.text[:start], place.text[start:end], place.text[end:])
    )
    if len(before) > _WINDOW:
        before = "…" + before[-_WINDOW // 2 :]
    if len(marked) > _WINDOW:
        marked, after = marked[:_WINDOW] + "…", ""
    if len(after) > _WINDOW:
        after = after[:_WINDOW] + "…"
    return before, marked, after


def interrupt(own: int, _signal: int, _frame: FrameType | None) -> NoReturn:
    """Ctrl-C ends with 130, without a traceback and without waiting for workers that may never answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.getpid() != own:  # a worker, which inherited this
        os._exit(Exit.INTERRUPTED)
    workers = _workers(own)
    for worker in workers:
        with contextlib.suppress(OSError):
            os.kill(worker, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
    if workers:
        os._exit(Exit.INTERRUPTED)
    raise SystemExit(Exit.INTERRUPTED)


def _workers(own: int) -> set[int]:
    """Processes this one started: as the system knows them where it tells, and as the pool does."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        found.update(map(int, Path(f"/proc/{own}/task/{own}/children").read_text().split()))
    pool = sys.modules.get("multiprocessing")
    return found.union(child.pid for child in pool.active_children() if child.pid) if pool else found


def _streams() -> None:
    """A closed stream swallows what is written to it; a narrow encoding replaces what it cannot write."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def guarded(run: Callable[[], None]) -> NoReturn:
    """Run the program; input that cannot be used exits 2, a crash of ours 3, a closed pipe quietly."""
    signal.signal(signal.SIGINT, functools.partial(interrupt, os.getpid()))
    _streams()
    try:
        run()
    except CostModelError as error:
        print_faults(error)
        raise SystemExit(Exit.CANNOT) from None
    except BrokenPipeError:
        _discard()
        raise SystemExit(Exit.YES) from None
    except Exception as error:
        screen = console(stderr=True)
        if os.environ.get("COSTMODEL_DEBUG") == "1":
            traceback.print_exc()
        screen.print(Text(f"error[bug]: {type(error).__name__}: {_visible(str(error))}", style=BAD))
        screen.print(Text(f"This is our fault, not yours. COSTMODEL_DEBUG=1 shows where; please report it: {ISSUES}"))
        raise SystemExit(Exit.BUG) from None
    raise SystemExit(Exit.YES)
