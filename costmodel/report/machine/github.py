"""Workflow commands: lines that GitHub turns into annotations at a line of a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from costmodel.ground.errors import Fault
from costmodel.report.terminal.documents.faults import MOST_FAULTS
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
    for fault in found[:MOST_FAULTS]:
        place = (fault.place.file, fault.place.line, fault.place.column) if fault.place else ("", 0, 0)
        text = f"{fault.sentence}; {fault.hint}" if fault.hint else fault.sentence
        yield annotation(text, f"costmodel {fault.code}", *place)
    if len(found) > MOST_FAULTS:
        yield f"and {len(found) - MOST_FAULTS:,} more"


def _data(text: str) -> str:
    return visible(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
