"""The page about checks: every scenario with what it is held to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from costmodel.explore.compare.check import CheckedScenario
from costmodel.explore.compare.limit_findings import CheckedAnswer
from costmodel.ground.units import percent
from costmodel.report.page.content import HtmlPage, PageTable, Part, Value
from costmodel.report.page.figures import BarRow, Bars, Piece
from costmodel.report.page.plan_page import conclusion
from costmodel.report.terminal.compare.check import sentence, summary
from costmodel.report.terminal.compare.limit_lines import Words
from costmodel.report.terminal.style.head import head_of, title
from costmodel.report.terminal.style.theme import styled


def check_page(found: Sequence[CheckedScenario], commands: Sequence[str]) -> HtmlPage:
    """Scenarios held to their limits and to a baseline."""
    parts = []
    for place, checked in enumerate(found):
        rows = [
            ("✓" if finding.kept else "✗", finding.kind, sentence(checked, finding)) for finding in checked.findings
        ]
        moved = (
            [(move.name, _shown_value(move.before), _shown_value(move.after)) for move in checked.moved]
            if not checked.kept
            else []
        )
        tables = [PageTable(("", "held to", "what"), rows, "lll")] if rows else []
        tables += [PageTable(("figure", "was", "is"), moved, "lrr", "What moved")] if moved else []
        mark, head = "✓" if checked.kept else "✗", head_of(checked.answer.inputs.case)
        stated = " · ".join(line.plain for line in (styled(title(checked.answer.inputs.case)), *head))
        words = conclusion(checked.answer)
        parts.append(Part(f"s{place}", f"{mark} {checked.name}", words, tables=tables, note=stated))
    kept = sum(checked.kept for checked in found)
    figure = _kept_figure([(checked.name, [finding.kept for finding in checked.findings]) for checked in found])
    words = f"{kept} of {len(found)} scenarios keep all that they are held to: {summary(found)}"
    return _page(words, kept == len(found), figure, parts, commands)


def check_figure(found: Sequence[CheckedScenario]) -> Bars:
    """How much of what each scenario is held to is kept."""
    return _kept_figure([(checked.name, [finding.kept for finding in checked.findings]) for checked in found])


def check_answers_page(
    found: Sequence[CheckedAnswer[Any]], conclude: Callable[[Any], str], words: Words, commands: Sequence[str]
) -> HtmlPage:
    """Scenarios of serving or reinforcement learning held to their limits."""
    parts = []
    for place, checked in enumerate(found):
        rows = [("✓" if finding.kept else "✗", words(checked, finding)) for finding in checked.findings]
        tables = [PageTable(("", "what"), rows, "ll")] if rows else []
        mark = "✓" if checked.kept else "✗"
        parts.append(Part(f"s{place}", f"{mark} {checked.name}", conclude(checked.answer), tables=tables))
    kept = sum(checked.kept for checked in found)
    stated = f"{kept} of {len(found)} scenarios keep all that they are held to."
    return _page(stated, kept == len(found), check_answers_figure(found), parts, commands)


def check_answers_figure(found: Sequence[CheckedAnswer[Any]]) -> Bars:
    """How many limits of each scenario are kept."""
    return _kept_figure([(checked.name, [finding.kept for finding in checked.findings]) for checked in found])


def _page(words: str, kept: bool, figure: Bars, parts: Sequence[Part], commands: Sequence[str]) -> HtmlPage:
    first = Part("kept", "What is kept", figures=[figure])
    return HtmlPage(
        "Limits", [], f"{words.rstrip('.')}.", "good" if kept else "bad", [], [first, *parts], commands=commands
    )


def _kept_figure(found: Sequence[tuple[str, Sequence[bool]]]) -> Bars:
    """What is kept and what is not, by scenario."""
    rows = []
    for name, held in found:
        kept, every = float(sum(held)), float(len(held))
        pieces = [
            Piece(0.0, kept, "good", f"{name}: {kept:.0f} kept", f"{name}.kept", kept),
            Piece(kept, every, "bad", f"{name}: {every - kept:.0f} not kept", f"{name}.failed", every - kept),
        ]
        share = percent(kept / every) if every else "held to nothing"
        rows.append(BarRow(name, pieces, f"{kept:.0f} of {every:.0f}, {share}" if every else share))
    legend = (("good", "kept"), ("bad", "not kept"))
    words = f"{sum(all(held) for _, held in found)} of {len(found)} scenarios keep everything."
    return Bars(
        "kept",
        "What is kept, by scenario",
        words,
        rows,
        "what is held to: number",
        lambda value: f"{value:g}",
        legend=legend,
    )


def _shown_value(value: float | None) -> Value:
    return Value("" if value is None else f"{value:.6g}", value)
