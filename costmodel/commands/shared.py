"""Options used more than once, exit codes, the printer of faults, the writer of answers."""

from __future__ import annotations

import contextlib
import errno
import functools
import inspect
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from enum import IntEnum, StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn, get_args

import typer
from rich.cells import cell_len
from rich.text import Text

from costmodel.commands import completion
from costmodel.commands.output import allowed, discard, printed, written
from costmodel.errors import CostModelError, Fault, Place, fail
from costmodel.report.layout import laid
from costmodel.report.reply import Reply
from costmodel.report.theme import BAD, DIM, colour, console, terminal_width, visible

ISSUES = "https://github.com/costmodel/costmodel/issues"
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
    CSV = "csv"
    MARKDOWN = "markdown"


_SUFFIXES = {".json": "json", ".csv": "csv", ".md": "markdown", ".jsonl": "jsonl", ".parquet": "parquet"}


def _no_colour(asked: bool) -> bool:
    if asked:
        colour(on=False)
    return asked


STDOUT = Path("-")
ScenarioArgument = Annotated[
    str,
    typer.Argument(
        help="A scenario: a shipped name, a path, '-' for stdin, or a result written with --json",
        show_default=False,
        autocompletion=completion.scenarios,
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
FormatOption = Annotated[
    Format | None,
    typer.Option("--format", help="How to write the answer; else by the suffix of -o", show_default="table"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Short for --format json")]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write to a file, '-' for stdout; .json, .csv and .md say how",
        show_default=False,
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Let -o overwrite")]
NoColorOption = Annotated[
    bool, typer.Option("--no-color", is_eager=True, callback=_no_colour, help="Plain text, whatever the terminal")
]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Show everything assumed")]


def deliver(
    reply: Reply,
    form: FormatOption = None,
    as_json: JsonOption = False,
    output: OutputOption = None,
    force: ForceOption = False,
    no_color: NoColorOption = False,
) -> None:
    """Print a reply, or write it whole or not at all; leave with 1 when the answer is no."""
    wanted = "json" if as_json else form.value if form else _SUFFIXES.get(output.suffix if output else "", "table")
    answer = reply.others[wanted]() if wanted in reply.others else _text(reply, wanted)
    if output is not None:
        written(output, answer or "".join(f"{line.plain}\n" for line in laid(reply.lines(), None)))
    elif isinstance(answer, bytes):
        raise fail("C007", f"{wanted} is not for reading", None, f"name a file: -o answer.{wanted}")
    else:
        printed(answer or laid(reply.lines(), terminal_width()))
    if reply.stopped:
        raise typer.Exit(Exit.INTERRUPTED)
    if not reply.yes:
        raise typer.Exit(Exit.NO)


def _text(reply: Reply, form: str) -> str:
    """The reply in a form for programs; nothing where people read it."""
    from costmodel.report import formats

    if form == Format.JSON:
        return formats.json_text(reply.result())
    if form == Format.CSV:
        return formats.csv_text(reply)
    return formats.markdown_text(reply.lines()) if form == Format.MARKDOWN else ""


def answering(command: Callable[..., Reply]) -> Callable[..., None]:
    """A command that returns its reply: behind its own options stand those of `deliver`."""
    return answering_in()(command)


def answering_in(*forms: str) -> Callable[[Callable[..., Reply]], Callable[..., None]]:
    """The same for a command whose answer takes further forms."""
    return functools.partial(_answering, forms)


def _answering(forms: Sequence[str], command: Callable[..., Reply]) -> Callable[..., None]:
    own = inspect.signature(command, eval_str=True)
    common = list(inspect.signature(deliver, eval_str=True).parameters.values())[1:]
    if forms:
        common[0] = common[0].replace(annotation=_format_option(forms))

    @functools.wraps(command)
    def run(**given: Any) -> None:
        how = {option.name: given.pop(option.name) for option in common}
        if how["output"] == STDOUT:
            how["output"] = None
        if how["output"] is not None:
            allowed(how["output"], force=how["force"], forms=forms)
        deliver(command(**given), **how)

    run.__signature__ = own.replace(parameters=[*own.parameters.values(), *common])  # type: ignore[attr-defined]
    return run


def _format_option(forms: Sequence[str]) -> Any:
    """--format with the further forms among its choices."""
    named = [*Format, *forms]
    choices = StrEnum("Format", {str(name).upper(): str(name) for name in named})  # type: ignore[misc]
    return Annotated[choices | None, get_args(FormatOption)[1]]


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
    lines = [Text.assemble((f"error[{fault.code}]", BAD), f": {visible(fault.sentence)}")]
    place = fault.place
    if place is not None:
        lines.append(Text(f"  --> {visible(str(place))}", style=DIM))
        if place.text:
            number = str(place.line or "")
            margin = " " * len(number)
            before, marked, after = _window(place)
            lines.append(Text(f" {margin} |"))
            lines.append(Text(f" {number} | {before}{marked}{after}"))
            lines.append(Text.assemble(f" {margin} | {' ' * cell_len(before)}", ("^" * (cell_len(marked) or 1), BAD)))
    if fault.hint:
        lines.append(Text(f"help: {visible(fault.hint)}"))
    return lines


def _window(place: Place) -> tuple[str, str, str]:
    """The line before, under and after the caret, cut where it is long."""
    start, end = place.column - 1, place.column - 1 + place.width
    before, marked, after = (
        visible(part.replace("\t", "    ")) for part in (place.text[:start], place.text[start:end], place.text[end:])
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


def _unless_interrupted() -> None:
    """What an interrupt breaks on its way is no fault of anybody's."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
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
        _unless_interrupted()
        print_faults(error)
        raise SystemExit(Exit.CANNOT) from None
    except BrokenPipeError:
        discard()
        raise SystemExit(Exit.YES) from None
    except Exception as error:
        _unless_interrupted()
        if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
            discard()
            print_faults(fail("C002", f"standard output cannot be written: {error.strerror}"))
            raise SystemExit(Exit.CANNOT) from None
        screen = console(stderr=True)
        if os.environ.get("COSTMODEL_DEBUG") == "1":
            traceback.print_exc()
        screen.print(Text(f"error[bug]: {type(error).__name__}: {visible(str(error))}", style=BAD))
        screen.print(Text(f"This is our fault, not yours. COSTMODEL_DEBUG=1 shows where; please report it: {ISSUES}"))
        raise SystemExit(Exit.BUG) from None
    raise SystemExit(Exit.YES)
