"""What check found: lines for people, annotations for GitHub, JUnit for other runners, a comment for a pull request."""

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
from costmodel.explore.compare.compare import MovedFigure, plan_in_words
from costmodel.ground.counts import number_of
from costmodel.ground.equation import EQUATIONS
from costmodel.ground.units import chance_words, gib, percent
from costmodel.report.answers.compare import figures_json, inputs, inputs_json, moved
from costmodel.report.data_formats.answer_fields import flags_json, known
from costmodel.report.data_formats.ci_formats import RunnerCase, RunnerSuite
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
    explained,
)
from costmodel.report.terminal.document_lines import section_lines
from costmodel.report.terminal.formatting import signed
from costmodel.report.terminal.head import command, job_lines
from costmodel.report.terminal.layout import BAD, DIM, GOOD, HEAD, WARN, CellTable, Line, chance_style, head, styled
from costmodel.report.workload_words import subject_fields, varied_head, words_of

_BOUNDS = {"at_most": "≤", "at_least": "≥", "target": "≈"}
_MOVED_SHOWN = 20
_TOLD = ("mfu", *BAND_ENDS)
_MOVED = 0.0005  # share below which a change is none
_DIGITS, _SURE = 3, 0.9995  # a chance from which nothing is stated
_STATES = {"valid": "invalid", "load": "not answered"}


def check(found: Sequence[CheckedScenario], *, wrote: str = "") -> AnswerDocument:
    """The checks of all scenarios: one line if all checks pass, else each check and the figures that moved."""
    kept, total = sum(checked.kept for checked in found), summary(found)
    sections = [Section("kept", "Checks passed", figures=[partial(_check_drawing, found)], face="page")]
    for place, checked in enumerate(found):
        sections += _scenario(checked, f"s{place}")
    last: list[Line] = []
    if not wrote or any(checked.findings for checked in found):
        last.append(styled(total, "" if kept == len(found) else BAD))
    for checked in found:
        worse = (f"  ▲ worse than before: {checked.name} {sentence(checked, each)}" for each in checked.worse)
        last += [styled(words, WARN) for words in worse]
    last += [styled(f"{wrote} holds today's figures of {number_of(len(found), 'scenario')}.")] if wrote else []
    one = "The scenario meets" if kept else "The scenario does not meet"
    some = f"{kept} of {len(found)} scenarios meet" if len(found) > 1 else one
    words = f"{some} everything that is checked: {total}".rstrip(".")
    words = words if any(checked.findings for checked in found) else total
    chances = [chance for chance in map(_chance_of, found) if not math.isnan(chance)]
    verdict: Verdict = "bad" if kept < len(found) else chance_verdict(min(chances, default=1.0))
    return AnswerDocument(None, "Limits", [], f"{words}.", verdict, sections, closing=last)


def _check_drawing(found: Sequence[CheckedScenario]) -> Draw:
    from costmodel.report.page.question_figures import check_figure

    return check_figure(found)


def _head(checked: CheckedScenario) -> list[Text]:
    """The head of a check: model, machine and software, with the price if a cost is checked."""
    head = varied_head(checked.asked, (), priced=any(is_money(finding.name) for finding in checked.findings))
    job = {line.plain for line in job_lines(checked.asked.case.asked.assumed)}
    return [line for line in head if isinstance(line, Text) and line.plain not in job]


def _scenario(checked: CheckedScenario, key: str) -> list[Section]:
    """The checks of a scenario; in a terminal, one line for all that pass."""
    named = styled(checked.name, HEAD)
    ahead: list[Line] = [*job_lines(checked.asked.case.asked.assumed), named]
    ahead += [styled(f"  {line.plain}", DIM) for line in _head(checked)]
    beneath = list[Line]()
    if checked.kept:
        beneath.append(Text.assemble(styled(f"  ✓ {_short_verdict(checked)}", GOOD), _chance(checked)))
        if any(finding.kind == "known" for finding in checked.findings):
            beneath.append(styled("  ▲ not in the baseline; --update adds it", WARN))
    columns = [
        Column("", "l"),
        Column("name", "l"),
        Column("is", "l"),
        Column("held to", "l"),
        Column("", "l"),
    ]
    rows = [_finding_row(checked, finding) for finding in checked.findings]
    rest = "limit" if any(finding.kind == "limit" for finding in checked.findings) else "figure"
    table = Table(columns, rows, headed=False, gap=" ", brief=0 if checked.kept else None, rest=rest) if rows else None
    title = f"{'✓' if checked.kept else '✗'} {checked.name}"
    words = partial(words_of(checked.asked.case.kind).conclusion, checked.answer)
    return [Section(key, title, words, (), ahead, table, beneath, apart=False), *why(checked, key)]


def _chance(checked: CheckedScenario) -> Text:
    """The chance that a plan works, if it is not almost certain; amber below the chance that searches prefer."""
    chance = _chance_of(checked)
    if not chance < _SURE:
        return styled("")
    words = f" · {chance_words(chance, 1)} chance {checked.asked.aim}"
    return styled(words, chance_style(chance))


def _chance_of(checked: CheckedScenario) -> float:
    return math.nan if checked.answer.refused else float(checked.answer.costs.get(checked.asked.chance, math.nan))


def why(checked: CheckedScenario, key: str) -> list[Section]:
    """Explanation of a failure against a baseline: changed inputs, moved terms, and changed equations."""
    if not checked.moved or checked.kept:
        return []
    rooms = {name: EQUATIONS[name].room.replace(".", "/") if name in EQUATIONS else "" for name in checked.equations}
    lines = [
        styled(f"  equation {name} changed on the same inputs  (costmodel/{room}.py)", WARN)
        for name, room in rooms.items()
    ]
    made = [inputs(checked.inputs)] if checked.inputs else []
    kind = checked.asked.case.kind
    made += moved(kind, checked.moved, [*_others(kind, checked.moved), *lines], apart=False)
    return [replace(each, key=f"{key}-{each.key}", title=f"{checked.name}: {each.title.lower()}") for each in made]


def _others(kind: str, moves: Sequence[MovedFigure]) -> Iterator[Line]:
    """Lines for changed figures that the sections of `diff` do not show."""
    shown = {plan_in_words(move.name) for move in moves}
    columns = COLUMNS[kind] if words_of(kind).adds_up else {}
    others = sorted(name for name in shown & set(columns) if columns[name].unit == "1" and name not in _TOLD)
    fresh = sorted(plan_in_words(move.name) for move in moves if move.before is None or move.after is None)
    if fresh:
        yield styled(f"  on one side only: {', '.join(fresh[:_MOVED_SHOWN])}", DIM)
    if others:
        yield styled(f"  moved too: {', '.join(others[:_MOVED_SHOWN])}", DIM)


def _short_verdict(checked: CheckedScenario) -> str:
    """What passed, in a few words: the limits, and the comparison with the baseline."""
    limits = sum(finding.kind == "limit" for finding in checked.findings)
    held = sum(finding.kind in ("regression", "exact") for finding in checked.findings)
    words = [f"{limits} limit{'s' if limits != 1 else ''}"] if limits else []
    if held:
        exact = any(finding.kind == "exact" for finding in checked.findings)
        words.append("all figures unchanged" if exact else f"no regression{_gain(checked)}")
    return ", ".join(words) or "fits; no limits"


def _gain(checked: CheckedScenario) -> str:
    """The largest change against the baseline, if it would not round to nothing."""
    held = [finding for finding in checked.findings if finding.kind == "regression" and finding.bound]
    changes = {finding.name: (finding.value or math.nan) / (finding.bound or math.nan) - 1 for finding in held}
    name = max(changes, key=lambda each: abs(changes[each]), default="")
    return f": {name} {signed(changes[name])}" if name and abs(changes[name]) >= _MOVED else ""


def _finding_row(checked: CheckedScenario, finding: CheckResult) -> tuple[Cell, ...]:
    """The table row of one check: mark, name, value, bound, remark."""
    mark = "✗" if not finding.kept else "▲" if finding.kind == "known" else "✓"
    text, bound = sides(checked, finding)
    value: Cell = text
    if finding.kind in ("limit", "regression", "fits") and finding.name in checked.asked.columns:
        planned = checked.asked.case.scenario.plan is not None
        plan = {} if planned else checked.asked.kept(checked.answer).settings
        line = command(checked.asked.case, "explain", finding.name, settings=plan)
        value = explained(text, finding.value, finding.name, line)
    return mark, _finding_name(finding), value, bound, _aside(checked, finding)


def _finding_name(finding: CheckResult) -> str:
    if finding.kind == "known":
        return "baseline"
    return "memory" if finding.name == "memory_share" else finding.name


def sides(checked: CheckedScenario, finding: CheckResult) -> tuple[str, str]:
    """The current value of a checked figure, and the bound that it must keep, as text."""
    words = words_of(checked.asked.case.kind)
    if finding.kind == "known":
        return "does not contain it:", "--update adds it"
    if finding.kind in _STATES:
        return _STATES[finding.kind], words.reason(checked.answer, finding.name)
    if finding.kind == "exact":
        return f"{finding.value or 0:.0f} of {finding.bound or 0:.0f} figures moved", "none may"
    if finding.limit is None:
        now, bound = (_figure_text(checked, finding, value) for value in (finding.value, finding.bound))
        return now, f"{'≤' if finding.kind == 'fits' else 'was'} {bound}"
    limit, unknown = finding.limit, finding.value is None or math.isnan(finding.value)
    digits = _DIGITS if unknown or finding.kept else _digits_apart(checked, finding)
    value, bound = (_figure_text(checked, finding, number, digits) for number in (finding.value, finding.bound))
    around = f" ± {percent(limit.within, 2)}" if limit.kind == "target" else ""
    wanted = checked.asked.missing(finding.name) if unknown else ""
    band = words.band(checked.answer.costs, finding.name)
    value = f"{value} ({band})" if band else value
    more = words.beside_limit(checked.answer, limit)
    return value, f"{_BOUNDS[limit.kind]} {bound}{around}{f'; {wanted}' if wanted else ''}{more}"


def _digits_apart(checked: CheckedScenario, finding: CheckResult) -> int:
    """The fewest digits that show a difference between a result and its bound."""
    tried = range(_DIGITS, 2 * _DIGITS + 1)
    sides_of = ((digits, [_figure_text(checked, finding, each, digits) for each in (finding.value, finding.bound)])
                for digits in tried)  # fmt: skip
    return next((digits for digits, (one, other) in sides_of if one != other), _DIGITS)


def _figure_text(checked: CheckedScenario, finding: CheckResult, value: float | None, digits: int = _DIGITS) -> str:
    """A figure in words; shares of memory in GiB."""
    if value is None or math.isnan(value):
        return "unknown"
    costs = checked.answer.costs
    if finding.name == "memory_share":
        return f"{gib(value * costs['memory_peak'] / costs['memory_share'])} GiB"
    return words_of(checked.asked.case.kind).result_to(finding.name, value, digits)


def _aside(checked: CheckedScenario, finding: CheckResult) -> str:
    """The place of a limit; for a regression, the change of the figure and the allowed change."""
    if finding.kind == "regression" and finding.bound and finding.value is not None and not math.isnan(finding.value):
        change = finding.value / finding.bound - 1
        return _change_words(change, finding, checked.asked.columns[finding.name].better)
    place = finding.place
    return "" if place is None else f"{place.file}:{place.line}" if place.line else place.file


def _change_words(change: float, finding: CheckResult, better: str) -> str:
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
    return (f"{failed} of {len(findings)} failed" if failed else f"{len(findings)} kept, {scenarios}") + more


def sentence(checked: CheckedScenario, finding: CheckResult) -> str:
    """One check in a sentence."""
    value, bound = sides(checked, finding)
    aside = _aside(checked, finding) if finding.kind == "regression" else ""
    return f"{_finding_name(finding)} {value}, {bound}{f', {aside}' if aside else ''}"


def suites(found: Sequence[CheckedScenario]) -> list[RunnerSuite]:
    """All checks as test suites for CI, one per scenario."""
    return [RunnerSuite(one.name, one.asked.case.file, tuple(_runner_cases(one))) for one in found]


def _runner_cases(checked: CheckedScenario) -> Iterator[RunnerCase]:
    for finding in checked.findings:
        name = f"{finding.kind} {_finding_name(finding)}"
        yield RunnerCase(name, sentence(checked, finding), finding.kept, finding.place)


def markdown(found: Sequence[CheckedScenario]) -> str:
    """A comment for a pull request: a sentence, a table, and of each failing scenario its details folded away."""
    failing = [checked for checked in found if not checked.kept]
    rows = [
        (
            *_facts(checked),
            _finding_name(finding),
            *sides(checked, finding),
            _aside(checked, finding),
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
        moved = [line for section in why(checked, "") for line in section_lines(section)]
        details = markdown_text([*_head(checked), *moved]) if checked.moved else ""
        if details.strip():
            parts.append(
                f"<details><summary>{_escape_xml(checked.name)}: what moved</summary>\n\n{details}\n</details>\n"
            )
    return "\n".join(parts)


def _facts(checked: CheckedScenario) -> tuple[str, ...]:
    """The identifying columns of a row: scenario, model, cluster, and job."""
    facts = row_facts(checked.asked.facts)
    cluster = f"{facts['nodes']} × {facts['cluster']}"
    job = (str(facts.get(name, "")) for name in ("sequence", "global_batch"))
    return checked.name, str(facts["model"]), cluster, *job


def _escape_xml(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def check_json(found: Sequence[CheckedScenario]) -> dict[str, Any]:
    """Everything as plain values."""
    return {
        **head("costmodel/check/v2"),
        "kept": all(checked.kept for checked in found),
        "scenarios": [
            {
                **row_facts(checked.asked.facts),
                "name": checked.name,
                **subject_fields(checked.asked),
                "flags": flags_json(checked.asked.case.asked),
                "kept": checked.kept,
                "chance": known(_chance_of(checked)),
                "findings": [_finding_fields(checked, finding) for finding in checked.findings],
                "inputs": inputs_json(checked.inputs),
                "moved": figures_json(checked.moved),
                "equations": list(checked.equations),
            }
            for checked in found
        ],
    }


def _finding_fields(checked: CheckedScenario, finding: CheckResult) -> dict[str, Any]:
    """One check as plain values, with its place in the file."""
    column, place = checked.asked.columns.get(finding.name), finding.place
    return {
        "kind": finding.limit.kind if finding.limit else finding.kind,
        "name": finding.name,
        "kept": finding.kept,
        "unit": "1" if column is None else column.unit,
        "value": None if finding.value is None else known(finding.value),
        "bound": None if finding.bound is None else known(finding.bound),
        "allowed": float(finding.allowed),
        "file": place.file if place else None,
        "line": place.line or None if place else None,
        "text": sentence(checked, finding),
    }


def baseline_text(baseline: Baseline) -> str:
    """A baseline as JSON with one figure per line, so that changes are easy to review."""
    return json_text(baseline.model_dump(by_alias=True))
