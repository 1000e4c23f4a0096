"""The page about checks: every scenario with what it is held to."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from costmodel.explore.compare.check import CheckedScenario
from costmodel.ground.units import percent
from costmodel.report.page.content import HtmlPage, PageTable, Part, Value
from costmodel.report.page.figures import BarRow, Bars, Piece
from costmodel.report.terminal.compare.check import sentence, summary
from costmodel.report.terminal.style.head import title
from costmodel.report.workload_words import varied_head, words_of


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
        mark, case = "✓" if checked.kept else "✗", checked.asked.case
        head = (line.plain for line in varied_head(checked.asked, ()) if isinstance(line, Text))
        stated, words = " · ".join((title(case), *head)), words_of(case.kind).conclusion(checked.answer)
        parts.append(Part(f"s{place}", f"{mark} {checked.name}", words, tables=tables, note=stated))
    kept = sum(checked.kept for checked in found)
    figure = _kept_figure([(checked.name, [finding.kept for finding in checked.findings]) for checked in found])
    words = f"{kept} of {len(found)} scenarios keep all that they are held to: {summary(found)}"
    return _page(words, kept == len(found), figure, parts, commands)


def check_figure(found: Sequence[CheckedScenario]) -> Bars:
    """How much of what each scenario is held to is kept."""
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
