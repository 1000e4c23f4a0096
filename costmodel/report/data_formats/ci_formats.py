"""Results of `check` for CI: annotations of GitHub, and JUnit XML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

from costmodel.ground.errors import Fault, Place
from costmodel.ground.record import record
from costmodel.report.terminal.faults import MOST_FAULTS, grouped_faults, more_places
from costmodel.report.terminal.layout import visible_text

# Workflow commands: lines that GitHub turns into annotations at a line of a file.

_NO_FILES = ("command line", "<stdin>")


def annotation(text: str, title: str, file: str = "", line: int = 0, column: int = 0) -> str:
    """A GitHub workflow command that shows an error at its place in a file.

    >>> annotation("50 % is\\ntoo much", "check", "a,b.yaml", 3)
    '::error file=a%2Cb.yaml,line=3,title=check::50 %25 is too much'
    """
    where = {"file": file, "line": line or None, "col": column or None} if file and file not in _NO_FILES else {}
    known = {name: value for name, value in {**where, "title": title}.items() if value is not None}
    properties = ",".join(f"{name}={_escape_property(str(value))}" for name, value in known.items())
    return f"::error {properties}::{_escape_data(text)}"


def fault_annotations(faults: Sequence[Fault]) -> str:
    """The faults of the input as GitHub annotations, the first of many."""
    return "".join(f"{line}\n" for line in _fault_commands(faults))


def _fault_commands(faults: Sequence[Fault]) -> Iterator[str]:
    """One GitHub annotation for each of the first faults."""
    gathered = grouped_faults(faults)
    for alike in gathered[:MOST_FAULTS]:
        fault = alike[0]
        place = (fault.place.file, fault.place.line, fault.place.column) if fault.place else ("", 0, 0)
        parts = (fault.sentence, fault.hint, more_places(alike) if len(alike) > 1 else "")
        yield annotation("; ".join(filter(None, parts)), f"costmodel {fault.code}", *place)
    if left := sum(map(len, gathered[MOST_FAULTS:])):
        yield f"and {left:,} more"


def _escape_data(text: str) -> str:
    """The text of an annotation with %, carriage returns and line feeds escaped for GitHub."""
    return visible_text(text).replace("%", "%25")


def _escape_property(text: str) -> str:
    """A property of an annotation with its separators escaped for GitHub."""
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")


@record
class TestCase:
    """One thing that was checked, with its sentence and the line that asks for it."""

    name: str
    sentence: str
    kept: bool
    place: Place | None = None


@record
class TestSuite:
    """One scenario, its file, and all of its checks."""

    name: str
    file: str
    cases: tuple[TestCase, ...]


def github_annotations(runner_suites: Sequence[TestSuite], summary: str) -> str:
    """Workflow commands that GitHub turns into annotations at the line of a limit."""
    lines = []
    for suite in runner_suites:
        for case in (case for case in suite.cases if not case.kept):
            place = case.place if case.place is not None and case.place.line else None
            where = (place.file, place.line) if place else (suite.file, 1)
            lines.append(annotation(f"{suite.name}: {case.sentence}", "costmodel check", *where))
    return "".join(f"{line}\n" for line in [*lines, summary])


def junit_xml(runner_suites: Sequence[TestSuite]) -> str:
    """A JUnit report: a test suite for each scenario, a test case for each check."""
    root = ElementTree.Element("testsuites", name="costmodel check")
    for suite in runner_suites:
        failed = sum(not case.kept for case in suite.cases)
        counts = {"name": suite.name, "tests": str(len(suite.cases)), "failures": str(failed)}
        element = ElementTree.SubElement(root, "testsuite", counts)
        for case in suite.cases:
            test = ElementTree.SubElement(element, "testcase", classname=suite.name, name=case.name)
            if not case.kept:
                place = f"{case.place}\n" if case.place else ""
                ElementTree.SubElement(test, "failure", message=case.sentence).text = place + case.sentence
    ElementTree.indent(root, " ")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'
