"""The answer of `check`: lines for a terminal, annotations for GitHub, JUnit, and a comment for a pull request."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rich.text import Text

from costmodel.documents.schemas.baseline import Baseline
from costmodel.documents.schemas.results import BAND_ENDS, COLUMNS, is_money
from costmodel.estimate.answer_facts import row_facts
from costmodel.explore.compare.check import CheckedScenario, CheckResult
from costmodel.explore.compare.compare import MovedFigure, name_without_unit
from costmodel.ground.counts import number_of
from costmodel.ground.equation import EQUATIONS
from costmodel.ground.units import chance_words, gib, percent
from costmodel.report.answers.diff import change_sections, figures_json, inputs_json, inputs_section
from costmodel.report.data_formats.answer_fields import finite, flag_fields
from costmodel.report.data_formats.ci_formats import TestCase, TestSuite
from costmodel.report.data_formats.json_csv_markdown import json_text, markdown_text
from costmodel.report.document import (
    AnswerDocument,
    Cell,
    Column,
    Draw,
    Section,
    Table,
    Verdict,
    chance_verdict,
    with_explain_command,
)
from costmodel.report.terminal.document_lines import section_lines
from costmodel.report.terminal.formatting import signed_percent
from costmodel.report.terminal.head import command, job_lines
from costmodel.report.terminal.layout import (
    BAD,
    DIM,
    GOOD,
    HEAD,
    WARN,
    CellTable,
    Line,
    chance_style,
    schema_head,
    styled,
)
from costmodel.report.workload_words import subject_fields, varied_head, words_of

_BOUNDS = {"at_most": "≤", "at_least": "≥", "target": "≈"}
_MOVED_SHOWN = 20
_SHOWN_BY_DIFF = ("mfu", *BAND_ENDS)
_MOVED = 0.0005  # share below which a change is none
_DIGITS, _SURE = 3, 0.9995  # a chance from which nothing is stated
_STATES = {"valid": "invalid", "load": "not answered"}


def check_document(found: Sequence[CheckedScenario], *, wrote: str = "") -> AnswerDocument:
    """The checks of all scenarios: one line for each that passes, else each check and the figures that changed."""
    kept, total = sum(checked.kept for checked in found), summary(found)
    sections = [Section("kept", "Checks passed", figures=[partial(_draw_checks, found)], face="page")]
    for place, checked in enumerate(found):
        sections += _scenario_sections(checked, f"s{place}")
    last: list[Line] = []
    if not wrote or any(checked.findings for checked in found):
        last.append(styled(total, "" if kept == len(found) else BAD))
    for checked in found:
        worse = (f"  ▲ worse than before: {checked.name} {check_sentence(checked, each)}" for each in checked.worse)
        last += [styled(words, WARN) for words in worse]
    last += [styled(f"Wrote the results of {number_of(len(found), 'scenario')} to {wrote}.")] if wrote else []
    one = "The scenario meets" if kept else "The scenario does not meet"
    some = f"{kept} of {len(found)} scenarios meet" if len(found) > 1 else one
    words = f"{some} everything that is checked: {total}".rstrip(".")
    words = words if any(checked.findings for checked in found) else total
    chances = [chance for chance in map(_chance_to_work, found) if not math.isnan(chance)]
    verdict: Verdict = "bad" if kept < len(found) else chance_verdict(min(chances, default=1.0))
    return AnswerDocument(None, "Limits", [], f"{words}.", verdict, sections, closing=last)


def _draw_checks(found: Sequence[CheckedScenario]) -> Draw:
    """The bars of passed and failed checks on a page."""
    from costmodel.report.page.question_figures import check_figure

    return check_figure(found)


def _head_lines(checked: CheckedScenario) -> list[Text]:
    """The head of a scenario: model, machine and software, with the price if a cost is checked."""
    head = varied_head(checked.asked, (), priced=any(is_money(finding.name) for finding in checked.findings))
    job = {line.plain for line in job_lines(checked.asked.case.asked.assumed)}
    return [line for line in head if isinstance(line, Text) and line.plain not in job]


def _scenario_sections(checked: CheckedScenario, key: str) -> list[Section]:
    """The sections on one scenario: its checks and, where it fails against a baseline, what changed."""
    named = styled(checked.name, HEAD)
    ahead: list[Line] = [*job_lines(checked.asked.case.asked.assumed), named]
    ahead += [styled(f"  {line.plain}", DIM) for line in _head_lines(checked)]
    beneath = list[Line]()
    if checked.kept:
        beneath.append(Text.assemble(styled(f"  ✓ {_short_verdict(checked)}", GOOD), _chance_text(checked)))
        if any(finding.kind == "known" for finding in checked.findings):
            beneath.append(styled("  ▲ not in the baseline; --update adds it", WARN))
    columns = [
        Column("", "l"),
        Column("name", "l"),
        Column("is", "l"),
        Column("held to", "l"),
        Column("", "l"),
    ]
    rows = [_check_row(checked, finding) for finding in checked.findings]
    rest = "limit" if any(finding.kind == "limit" for finding in checked.findings) else "figure"
    table = Table(columns, rows, headed=False, gap=" ", brief=0 if checked.kept else None, rest=rest) if rows else None
    title = f"{'✓' if checked.kept else '✗'} {checked.name}"
    words = partial(words_of(checked.asked.case.kind).conclusion, checked.answer)
    return [Section(key, title, words, (), ahead, table, beneath, apart=False), *failure_sections(checked, key)]


def _chance_text(checked: CheckedScenario) -> Text:
    """The chance that a plan works as coloured text; empty if it is almost certain."""
    chance = _chance_to_work(checked)
    if not chance < _SURE:
        return styled("")
    words = f" · {chance_words(chance, 1)} chance {checked.asked.chance_event}"
    return styled(words, chance_style(chance))


def _chance_to_work(checked: CheckedScenario) -> float:
    """The chance that a plan works, from 0 to 1; NaN for an invalid plan."""
    return math.nan if checked.answer.refused else float(checked.answer.costs.get(checked.asked.chance, math.nan))


def failure_sections(checked: CheckedScenario, key: str) -> list[Section]:
    """Sections on a failure against a baseline: changed inputs, changed terms, and changed equations."""
    if not checked.moved or checked.kept:
        return []
    rooms = {name: EQUATIONS[name].room.replace(".", "/") if name in EQUATIONS else "" for name in checked.equations}
    lines = [
        styled(f"  equation {name} changed on the same inputs  (costmodel/{room}.py)", WARN)
        for name, room in rooms.items()
    ]
    made = [inputs_section(checked.inputs)] if checked.inputs else []
    kind = checked.asked.case.kind
    made += change_sections(kind, checked.moved, [*_other_changes(kind, checked.moved), *lines], apart=False)
    return [replace(each, key=f"{key}-{each.key}", title=f"{checked.name}: {each.title.lower()}") for each in made]


def _other_changes(kind: str, moves: Sequence[MovedFigure]) -> Iterator[Line]:
    """Lines with the names of changed figures that the sections of `diff` do not show."""
    shown = {name_without_unit(move.name) for move in moves}
    columns = COLUMNS[kind] if words_of(kind).adds_up else {}
    others = sorted(name for name in shown & set(columns) if columns[name].unit == "1" and name not in _SHOWN_BY_DIFF)
    fresh = sorted(name_without_unit(move.name) for move in moves if move.before is None or move.after is None)
    if fresh:
        yield styled(f"  only in one of baseline and today: {', '.join(fresh[:_MOVED_SHOWN])}", DIM)
    if others:
        yield styled(f"  shares that changed too: {', '.join(others[:_MOVED_SHOWN])}", DIM)


def _short_verdict(checked: CheckedScenario) -> str:
    """What passed, in a few words: the limits, and the comparison with the baseline."""
    limits = sum(finding.kind == "limit" for finding in checked.findings)
    held = sum(finding.kind in ("regression", "exact") for finding in checked.findings)
    words = [f"{limits} limit{'s' if limits != 1 else ''}"] if limits else []
    if held:
        exact = any(finding.kind == "exact" for finding in checked.findings)
        words.append("all figures unchanged" if exact else f"no regression{_largest_change_words(checked)}")
    return ", ".join(words) or "fits; no limits"


def _largest_change_words(checked: CheckedScenario) -> str:
    """The largest change against the baseline in words; empty if it rounds to zero."""
    held = [finding for finding in checked.findings if finding.kind == "regression" and finding.bound]
    changes = {finding.name: (finding.value or math.nan) / (finding.bound or math.nan) - 1 for finding in held}
    name = max(changes, key=lambda each: abs(changes[each]), default="")
    return f": {name} {signed_percent(changes[name])}" if name and abs(changes[name]) >= _MOVED else ""


def _check_row(checked: CheckedScenario, finding: CheckResult) -> tuple[Cell, ...]:
    """The table row of one check: mark, name, value, bound, remark."""
    mark = "✗" if not finding.kept else "▲" if finding.kind == "known" else "✓"
    text, bound = value_and_bound(checked, finding)
    value: Cell = text
    if finding.kind in ("limit", "regression", "fits") and finding.name in checked.asked.columns:
        planned = checked.asked.case.scenario.plan is not None
        plan = {} if planned else checked.asked.summary(checked.answer).settings
        line = command(checked.asked.case, "explain", finding.name, settings=plan)
        value = with_explain_command(text, finding.value, finding.name, line)
    return mark, _check_name(finding), value, bound, _check_remark(checked, finding)


def _check_name(finding: CheckResult) -> str:
    """The name of a check as tables show it."""
    if finding.kind == "known":
        return "baseline"
    return "memory" if finding.name == "memory_share" else finding.name


def value_and_bound(checked: CheckedScenario, finding: CheckResult) -> tuple[str, str]:
    """The current value of a checked figure and its bound, both as text with units."""
    words = words_of(checked.asked.case.kind)
    if finding.kind == "known":
        return "does not contain it:", "--update adds it"
    if finding.kind in _STATES:
        return _STATES[finding.kind], words.reason(checked.answer, finding.name)
    if finding.kind == "exact":
        return f"{finding.value or 0:.0f} of {finding.bound or 0:.0f} results changed", "none may"
    if finding.limit is None:
        now, bound = (_figure_text(checked, finding, value) for value in (finding.value, finding.bound))
        return now, f"{'≤' if finding.kind == 'fits' else 'was'} {bound}"
    limit, unknown = finding.limit, finding.value is None or math.isnan(finding.value)
    digits = _DIGITS if unknown or finding.kept else _digits_apart(checked, finding)
    value, bound = (_figure_text(checked, finding, number, digits) for number in (finding.value, finding.bound))
    around = f" ± {percent(limit.within, 2)}" if limit.kind == "target" else ""
    wanted = checked.asked.missing_input(finding.name) if unknown else ""
    band = words.band(checked.answer.costs, finding.name)
    value = f"{value} ({band})" if band else value
    more = words.beside_limit(checked.answer, limit)
    return value, f"limit {_BOUNDS[limit.kind]} {bound}{around}{f'; {wanted}' if wanted else ''}{more}"


def _digits_apart(checked: CheckedScenario, finding: CheckResult) -> int:
    """The fewest significant digits at which a value and its bound look different."""
    tried = range(_DIGITS, 2 * _DIGITS + 1)
    sides_of = ((digits, [_figure_text(checked, finding, each, digits) for each in (finding.value, finding.bound)])
                for digits in tried)  # fmt: skip
    return next((digits for digits, (one, other) in sides_of if one != other), _DIGITS)


def _figure_text(checked: CheckedScenario, finding: CheckResult, value: float | None, digits: int = _DIGITS) -> str:
    """A checked figure as text with its unit; a share of memory is shown in GiB."""
    if value is None or math.isnan(value):
        return "unknown"
    costs = checked.answer.costs
    if finding.name == "memory_share":
        return f"{gib(value * costs['memory_peak'] / costs['memory_share'])} GiB"
    return words_of(checked.asked.case.kind).result_to(finding.name, value, digits)


def _check_remark(checked: CheckedScenario, finding: CheckResult) -> str:
    """The file and line of a limit; for a comparison with a baseline, the change and the allowed change."""
    if finding.kind == "regression" and finding.bound and finding.value is not None and not math.isnan(finding.value):
        change = finding.value / finding.bound - 1
        return _change_words(change, finding, checked.asked.columns[finding.name].better)
    place = finding.place
    return "" if place is None else f"{place.file}:{place.line}" if place.line else place.file


def _change_words(change: float, finding: CheckResult, better: str) -> str:
    """A relative change as text in percent, with the change that is allowed."""
    sign = "−" if better == "higher" else "+"
    moved = f"{change * 100:+.1f} %".replace("-", "−")
    option = "" if finding.kept or finding.place is not None else " by --within"
    return f"{moved}, allowed {sign}{percent(finding.allowed, 2)}{option}"


def summary(found: Sequence[CheckedScenario]) -> str:
    """The conclusion in one sentence: how many scenarios pass, or which fail and why."""
    held = [finding for checked in found for finding in checked.findings]
    findings = [finding for finding in held if finding.kind != "known" or not finding.kept]
    failed = sum(not finding.kept for finding in findings)
    scenarios = f"{len(found)} scenario{'s' if len(found) != 1 else ''}"
    new = sum(finding.kind == "known" and finding.kept for finding in held)
    more = f", {new} not in the baseline" if new else ""
    if not findings:
        fits = "fits" if len(found) == 1 else "fit"
        return f"{scenarios} {fits}, nothing else to check: give limits, or name a baseline with --against"
    return (
        f"{failed} of {len(findings)} failed" if failed else f"{number_of(len(findings), 'check')} passed, {scenarios}"
    ) + more


def check_sentence(checked: CheckedScenario, finding: CheckResult) -> str:
    """One check in a sentence."""
    value, bound = value_and_bound(checked, finding)
    aside = _check_remark(checked, finding) if finding.kind == "regression" else ""
    return f"{_check_name(finding)} {value}, {bound}{f', {aside}' if aside else ''}"


def test_suites(found: Sequence[CheckedScenario]) -> list[TestSuite]:
    """All checks as test suites for CI, one per scenario."""
    return [TestSuite(one.name, one.asked.case.file, tuple(_test_cases(one))) for one in found]


def _test_cases(checked: CheckedScenario) -> Iterator[TestCase]:
    """The checks of one scenario as test cases for CI."""
    for finding in checked.findings:
        name = f"{finding.kind} {_check_name(finding)}"
        yield TestCase(name, check_sentence(checked, finding), finding.kept, finding.place)


def pull_request_comment(found: Sequence[CheckedScenario]) -> str:
    """A comment for a pull request: a summary, a table, and folded details of each failing scenario."""
    failing = [checked for checked in found if not checked.kept]
    rows = [
        (
            *_scenario_cells(checked),
            _check_name(finding),
            *value_and_bound(checked, finding),
            _check_remark(checked, finding),
            "✓" if finding.kept else "✗",
        )
        for checked in found
        for finding in checked.findings
        if finding.kind != "known" or not finding.kept
    ]
    names = ("scenario", "model", "cluster", "sequence", "global_batch", "result", "is", "held to", "", "")
    table = CellTable(names, rows, "l" * len(names))
    parts = [markdown_text([styled(f"costmodel: {summary(found)}.", HEAD), *([table] if rows else [])])]
    for checked in failing:
        moved = [line for section in failure_sections(checked, "") for line in section_lines(section)]
        details = markdown_text([*_head_lines(checked), *moved]) if checked.moved else ""
        if details.strip():
            parts.append(
                f"<details><summary>{_escape_xml(checked.name)}: what moved</summary>\n\n{details}\n</details>\n"
            )
    return "\n".join(parts)


def _scenario_cells(checked: CheckedScenario) -> tuple[str, ...]:
    """Table cells that identify a scenario: name, model, cluster, sequence and batch."""
    facts = row_facts(checked.asked.facts)
    cluster = f"{facts['nodes']} × {facts['cluster']}"
    job = (str(facts.get(name, "")) for name in ("sequence", "global_batch"))
    return checked.name, str(facts["model"]), cluster, *job


def _escape_xml(text: str) -> str:
    """The text with &, < and > escaped for XML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def check_json(found: Sequence[CheckedScenario]) -> dict[str, Any]:
    """The checks of all scenarios as plain values."""
    return {
        **schema_head("costmodel/check/v2"),
        "kept": all(checked.kept for checked in found),
        "scenarios": [
            {
                **row_facts(checked.asked.facts),
                "name": checked.name,
                **subject_fields(checked.asked),
                "flags": flag_fields(checked.asked.case.asked),
                "kept": checked.kept,
                "chance": finite(_chance_to_work(checked)),
                "findings": [_check_fields(checked, finding) for finding in checked.findings],
                "inputs": inputs_json(checked.inputs),
                "moved": figures_json(checked.moved),
                "equations": list(checked.equations),
            }
            for checked in found
        ],
    }


def _check_fields(checked: CheckedScenario, finding: CheckResult) -> dict[str, Any]:
    """One check as plain values, with its place in the file."""
    column, place = checked.asked.columns.get(finding.name), finding.place
    return {
        "kind": finding.limit.kind if finding.limit else finding.kind,
        "name": finding.name,
        "kept": finding.kept,
        "unit": "1" if column is None else column.unit,
        "value": None if finding.value is None else finite(finding.value),
        "bound": None if finding.bound is None else finite(finding.bound),
        "allowed": float(finding.allowed),
        "file": place.file if place else None,
        "line": place.line or None if place else None,
        "text": check_sentence(checked, finding),
    }


def baseline_text(baseline: Baseline) -> str:
    """A baseline as JSON with one figure per line, so that changes are easy to review."""
    return json_text(baseline.model_dump(by_alias=True))
