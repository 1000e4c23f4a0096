"""Workflow commands: lines that GitHub turns into annotations at a line of a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from costmodel.ground.errors import Fault
from costmodel.report.terminal.documents.faults import MOST_FAULTS, gathered_faults, more_places
from costmodel.report.terminal.style.theme import visible

_NO_FILES = ("command line", "<stdin>")


def annotation(text: str, title: str, file: str = "", line: int = 0, column: int = 0) -> str:
    """An error, at its place where it has one.

    >>> annotation("50 % is\\ntoo much", "check", "a,b.yaml", 3)
    '::error file=a%2Cb.yaml,line=3,title=check::50 %25 is too much'
    """
    where = {"file": file, "line": line or None, "col": column or None} if file and file not in _NO_FILES else {}
    known = {name: value for name, value in {**where, "title": title}.items() if value is not None}
    properties = ",".join(f"{name}={_property(str(value))}" for name, value in known.items())
    return f"::error {properties}::{_data(text)}"


def of_faults(found: Sequence[Fault]) -> str:
    """Faults of the input, the first of many."""
    return "".join(f"{line}\n" for line in _lines(found))


def _lines(found: Sequence[Fault]) -> Iterator[str]:
    gathered = gathered_faults(found)
    for alike in gathered[:MOST_FAULTS]:
        fault = alike[0]
        place = (fault.place.file, fault.place.line, fault.place.column) if fault.place else ("", 0, 0)
        parts = (fault.sentence, fault.hint, more_places(alike) if len(alike) > 1 else "")
        yield annotation("; ".join(filter(None, parts)), f"costmodel {fault.code}", *place)
    if left := sum(map(len, gathered[MOST_FAULTS:])):
        yield f"and {left:,} more"


def _data(text: str) -> str:
    return visible(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
