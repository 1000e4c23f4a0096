"""Prints an answer, or writes it to a file completely or not at all."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from rich.text import Text

from costmodel.commands.progress import is_quiet
from costmodel.ground.errors import Place, fail
from costmodel.report.terminal.layout import text_console

_PLAIN_TEXT = ("", ".txt", ".text", ".log", ".out")
_OTHER_FORMATS = {".parquet", ".html", ".svg", ".png", ".xlsx", ".pdf"}


def print_lines(answer: str | Iterable[Text], *, stderr: bool = False) -> None:
    """Prints to standard output or error. If the reader closes the pipe early, the exit code is unchanged."""
    if stderr and is_quiet():
        return
    stream = sys.stderr if stderr else sys.stdout
    try:
        if isinstance(answer, str):
            stream.write(answer)
        else:
            screen = text_console(stderr=stderr)
            for line in answer:
                screen.print(line)
        stream.flush()
    except (BrokenPipeError, SystemExit):  # Rich turns the one into the other
        discard(stream)
    except OSError as error:
        discard(stream)
        if not stderr:
            raise fail("C002", f"standard output cannot be written: {error.strerror}") from None


def discard(stream: TextIO) -> None:
    """Redirects a stream to the null device, so that Python does not fail to flush it at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def check_writable(path: Path, *, force: bool, forms: Sequence[str] = ()) -> None:
    """Raises a fault if a file must not be written to a path."""
    place = Place(str(path))
    if os.path.isdir(path):
        raise fail("C002", f"{path} is a folder", place, "name a file in it")
    if path.name.isdigit():
        hint = f"--answer {path.name} sets the tokens of an answer; a file needs a name such as {path}.txt"
        raise fail("C002", f"{path} is a number, not the name of a file", place, hint)
    suffix = path.suffix.lower()
    if suffix in _OTHER_FORMATS and suffix[1:] not in forms:
        hint = "take .json, .csv or .md, or .txt for plain text"
        raise fail("C002", f"{path.suffix} is not written yet", place, hint)
    if os.path.isfile(path) and not force:
        raise fail("C002", f"{path} exists", place, "take another name, or add --force")


def check_suffix(path: Path, suffixes: Sequence[str]) -> None:
    """Raises a fault for a suffix that selects no format and is not of plain text."""
    if path.suffix.lower() in (*suffixes, *_PLAIN_TEXT):
        return
    known = ", ".join((*suffixes, ".txt"))
    hint = f"take {known}, or add --format table for plain text"
    raise fail("C002", f"{path.suffix} selects no format", Place(str(path)), hint)


def write_file(path: Path, answer: str | bytes) -> None:
    """Writes a file through a temporary file in its folder."""
    write_all_or_none({path: answer})


@contextlib.contextmanager
def lock_for_update(path: Path) -> Iterator[None]:
    """Locks a file while it is read and rewritten; prints a line if another process holds it for long."""
    from costmodel.explore.search.file_lock import updating as locked
    from costmodel.report.terminal.layout import styled

    with locked(path, lambda words: print_lines([styled(words)], stderr=True)):
        yield


def write_all_or_none(answers: Mapping[Path, str | bytes], *, folder: bool = False) -> None:
    """Writes all files or none: replaces the first only when all temporary files are complete."""
    made: dict[Path, str] = {}
    path = Path()
    try:
        for path, answer in answers.items():
            data = answer.encode("utf-8", "replace") if isinstance(answer, str) else answer
            if path.exists() and not path.is_file():  # a pipe or a device is written to, never replaced
                path.write_bytes(data)
            else:
                behind = _resolved_path(path)
                if folder:
                    behind.parent.mkdir(parents=True, exist_ok=True)
                _write_temporary(behind, data, made)
        for path, temporary in made.items():
            os.replace(temporary, path)
    except OSError as error:
        hint = "" if path.parent.is_dir() else f"there is no folder {path.parent}"
        raise fail("C002", f"{path} cannot be written: {error.strerror}", Place(str(path)), hint) from None
    finally:
        for temporary in made.values():
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _resolved_path(path: Path) -> Path:
    """The path after following links; a system error if they form a loop."""
    with contextlib.suppress(FileNotFoundError):
        path.stat()
    return Path(os.path.realpath(path))


def _write_temporary(path: Path, data: bytes, made: dict[Path, str]) -> None:
    """Writes data to a temporary file in the folder of a path, with the mode of the final file."""
    mode = path.stat().st_mode if path.exists() else 0o666 & ~_umask()
    handle, made[path] = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.chmod(made[path], mode & 0o777)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
