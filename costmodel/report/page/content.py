"""What stands on a page, before it is drawn: numbers, tables, parts and the page itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.default_values import Assumption
from costmodel.estimate.evaluate.answer_facts import subject_of
from costmodel.estimate.shared.reasons import REMARKS
from costmodel.exchange.writing import scenario_text
from costmodel.ground.record import record
from costmodel.report.document import Cell, Headline, Verdict
from costmodel.report.page.plots import SvgFigure
from costmodel.report.terminal.style.head import price_lines, title


@record
class PageTable:
    """A table of a page; r in `align` aligns right. A table of plans can be sorted and filtered."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    align: str
    caption: str = ""
    sortable: bool = False
    rows_data: str = ""  # the part of a page's data that is about the rows
    figures: Sequence[str] = ()  # by head: the result that each row has there, which opens its trace
    whole: bool = False  # whether the first cell of a row opens all of it


@record
class Part:
    """A section: what it shows in a sentence, its figures, and tables."""

    key: str
    title: str
    lead: str = ""
    figures: Sequence[Callable[[float], SvgFigure]] = ()
    tables: Sequence[PageTable] = ()
    figures_as_table: PageTable | None = None
    zoom: bool = False
    note: str = ""
    notes: Sequence[str] = ()
    sliders: bool = False
    screen_only: bool = False
    plain: str = ""  # text as it is written, such as a document


@record
class HtmlPage:
    """A page: its conclusion first."""

    title: str
    subtitle: Sequence[str]
    conclusion: str
    verdict: Verdict
    headlines: Sequence[Headline]
    parts: Sequence[Part]
    findings: Sequence[tuple[Verdict, str]] = ()
    commands: Sequence[str] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


# Parts of a page that every workload has: what was assumed, the scenario as a file, limits that are kept, remarks.

SIGNS = {"at_most": "≤", "at_least": "≥", "target": "≈"}
_ONE_PLAN: Mapping[str, str] = {}


def inputs_part(case: LoadedScenario, assumed: Sequence[Assumption]) -> Part:
    """A page's section on assumptions, documents and the price."""
    stated = [(item.path, item.value, item.origin) for item in assumed]
    own, digests = case.own_names, case.named_digests
    documents = [(name, digest, "your own" if name in own else "shipped") for name, digest in digests.items()]
    tables = [PageTable(("path", "value", "from"), stated, "lll", "Assumed: not stated")] if stated else []
    tables.append(PageTable(("document", "digest", ""), documents, "lll", "Documents"))
    price = "; ".join(line.plain for line in price_lines(subject_of(case).price))
    return Part("inputs", "Assumed, and sources", f"Price: {price}.", tables=tables)


def scenario_part(case: LoadedScenario) -> Part:
    """The scenario as a file."""
    text = scenario_text(case, Path("scenario.yaml"), title(case))
    return Part("scenario", "The scenario", plain=text, screen_only=True)


def remark_findings(codes: Iterable[str], counted: Mapping[str, str] = _ONE_PLAN) -> Iterator[tuple[Verdict, str]]:
    """Remarks, each once; counted: on how many of several plans."""
    for code in dict.fromkeys(codes):
        yield "warn", f"{code} {REMARKS[code].title}{counted.get(code, '')}: {REMARKS[code].meaning}"
