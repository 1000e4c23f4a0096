"""What a check found, as runners of CI read it: annotations of GitHub, and JUnit's XML."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from costmodel.ground.errors import Place
from costmodel.ground.record import record
from costmodel.report.machine.github import annotation


@record
class RunnerCase:
    """One thing that was checked, with its sentence and the line that asks for it."""

    name: str
    sentence: str
    kept: bool
    place: Place | None = None


@record
class RunnerSuite:
    """One scenario, its file, and all of its checks."""

    name: str
    file: str
    cases: tuple[RunnerCase, ...]


def github(found: Sequence[RunnerSuite], summary: str) -> str:
    """Workflow commands that GitHub turns into annotations at the line of a limit."""
    lines = []
    for suite in found:
        for case in (case for case in suite.cases if not case.kept):
            place = case.place if case.place is not None and case.place.line else None
            where = (place.file, place.line) if place else (suite.file, 1)
            lines.append(annotation(f"{suite.name}: {case.sentence}", "costmodel check", *where))
    return "".join(f"{line}\n" for line in [*lines, summary])


def junit(found: Sequence[RunnerSuite]) -> str:
    """A JUnit report: a test suite for each scenario, a test case for each check."""
    root = ElementTree.Element("testsuites", name="costmodel check")
    for suite in found:
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
