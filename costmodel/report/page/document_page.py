"""The HTML page of an answer: its conclusion, sections, tables and figures."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import date
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from rich.text import Text

import costmodel
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.default_values import Assumption
from costmodel.estimate.answer_facts import subject_of
from costmodel.estimate.shared.reasons import REMARKS
from costmodel.exchange.write_yaml import scenario_text
from costmodel.ground.errors import fail, install_command
from costmodel.ground.record import record
from costmodel.report.document import (
    AnswerDocument,
    Cell,
    Draw,
    Headline,
    Point,
    Section,
    Sentence,
    Table,
    Verdict,
    plain,
    table_of,
)
from costmodel.report.page.plots import SvgFigure
from costmodel.report.page.trace import Traces, traced_roots, with_trace
from costmodel.report.terminal.head import case_title, price_lines, scenario_arguments
from costmodel.report.terminal.layout import Line, lines_of_length, visible_text


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
    legends: Sequence[str] = ()  # by head: what it means, shown where a pointer rests on it


@record
class PagePart:
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
    points: Sequence[Point] = ()


@record
class HtmlPage:
    """A page that begins with its conclusion."""

    title: str
    subtitle: Sequence[str]
    conclusion: Sentence
    verdict: Verdict
    headlines: Sequence[Headline]
    parts: Sequence[PagePart]
    findings: Sequence[tuple[Verdict, str]] = ()
    commands: Sequence[str] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


# Parts of a page that every workload has: what was assumed, the scenario as a file, limits that are kept, remarks.

SIGNS = {"at_most": "≤", "at_least": "≥", "target": "≈"}
_ONE_PLAN: Mapping[str, str] = {}


def inputs_part(case: LoadedScenario, assumed: Sequence[Assumption]) -> PagePart:
    """The part of a page with assumptions, documents and the price."""
    stated = [(item.path, item.value, item.origin) for item in assumed]
    own, digests = case.own_names, case.named_digests
    documents = [(name, digest, "your own" if name in own else "shipped") for name, digest in digests.items()]
    tables = [PageTable(("path", "value", "from"), stated, "lll", "Assumed: not stated")] if stated else []
    tables.append(PageTable(("document", "digest", ""), documents, "lll", "Documents"))
    price = "; ".join(line.plain for line in price_lines(subject_of(case).price))
    return PagePart("inputs", "Assumed, and sources", f"Price: {price}.", tables=tables)


def scenario_part(case: LoadedScenario) -> PagePart:
    """The scenario as a file."""
    text = scenario_text(case, Path("scenario.yaml"), case_title(case))
    return PagePart("scenario", "The scenario", plain=text, screen_only=True)


def remark_sentences(codes: Iterable[str], counted: Mapping[str, str] = _ONE_PLAN) -> Iterator[tuple[Verdict, str]]:
    """Remarks, each once; counted: on how many of several plans."""
    for code in dict.fromkeys(codes):
        yield "warn", f"{code} {REMARKS[code].title}{counted.get(code, '')}: {REMARKS[code].meaning}"


# Rows of a table that are other plans than the page's own: the commands that print how their figures were made.


def row_commands(case: LoadedScenario, settings: Iterable[Mapping[str, str]]) -> dict[str, Any]:
    """Parts of the commands that a page's script writes: the scenario, and the settings of each row."""
    commands = [scenario_arguments(case, "explain", setting) for setting in settings]
    named = commands[0][0] if commands else []
    return {"scenario": shlex.join(named), "settings": [shlex.join(options) for _, options in commands]}


def settings_of(stated: Iterable[str]) -> dict[str, str]:
    """The value of each setting `path=value`, by its path."""
    return {path: value for path, _, value in (setting.partition("=") for setting in stated)}


def document_page(document: AnswerDocument, commands: Sequence[str]) -> HtmlPage:
    """A document as a page: the conclusion first, then the sections."""
    traces, shown = (
        Traces(traced_roots(document.nodes)),
        [section for section in document.sections if section.face != "terminal"],
    )
    parts = [section_part(section, traces) for section in shown]
    data = {key: value for section in shown for key, value in section_data(section, document.case, traces).items()}
    headlines = [replace(each, value=with_trace(each.value, traces)) for each in document.headlines]
    stated: Sentence = [document.conclusion] if isinstance(document.conclusion, str) else document.conclusion
    conclusion = [with_trace(cell, traces) for cell in stated]
    data |= {"trace": made} if (made := traces.data())["nodes"] else {}
    about = [words for words in plain_lines(document.head) if words not in (document.title, plain(stated))]
    findings = list(remark_sentences(document.remarked, document.counted))
    return HtmlPage(document.title, about, conclusion, document.verdict, headlines, parts, findings, commands, data)


def document_figure(document: AnswerDocument) -> Draw | None:
    """The first figure of a document."""
    return next((make() for section in document.sections for make in section.figures), None)


def section_part(section: Section, traces: Traces) -> PagePart:
    """A section as a part of a page, with the traces of its cells."""
    held = table_of(section)
    table = None if held is None else _page_table(held, traces, section.key)
    return PagePart(
        section.key,
        section.title,
        section.lead if isinstance(section.lead, str) else section.lead(),
        [make() for make in section.figures],
        tables=[table] if table is not None and not section.folded else [],
        figures_as_table=table if section.folded else None,
        zoom=section.zoom,
        notes=[*_legends(held), *plain_lines(section.beneath)],
        points=[replace(each, words=[with_trace(cell, traces) for cell in each.words]) for each in section.points],
    )


def section_data(section: Section, case: LoadedScenario | None, traces: Traces) -> dict[str, Any]:
    """Data of a section's table for the script of a page: all of its rows, or the commands that explain them."""
    table = table_of(section)
    if table is not None and table.data is not None:
        return {_row_count(section.key): table.data(traces)}
    if table is None or not table.settings or case is None:
        return {}
    return {_row_count(section.key): row_commands(case, table.settings)}


def _has_data(table: Table) -> bool:
    return bool(table.settings) or table.data is not None


def _page_table(table: Table, traces: Traces, key: str) -> PageTable:
    """A table of an answer as a table of a page."""
    shown = [place for place, column in enumerate(table.columns) if column.face != "terminal"]
    columns = [table.columns[place] for place in shown]
    rows = [[with_trace(row[place], traces) for place in shown] for row in table.rows]
    return PageTable(
        [column.head for column in columns],
        rows,
        "".join("r" if column.align == "r" else "l" for column in columns),
        table.caption,
        sortable=table.sortable,
        rows_data=_row_count(key) if _has_data(table) else "",
        figures=[column.result for column in columns] if _has_data(table) else (),
        whole=table.whole,
        legends=[column.legend for column in columns],
    )


def _legends(table: Table | None) -> Iterator[str]:
    """The legends of a table's columns."""
    for column in () if table is None else table.columns:
        if column.legend:
            yield f"{column.head}: {column.legend}"


def _row_count(key: str) -> str:
    return f"{key}-rows"


def plain_lines(lines: Iterable[Line]) -> Iterator[str]:
    """The lines as plain text."""
    return (line.plain.strip() for line in lines_of_length(lines) if isinstance(line, Text) and line.plain.strip())


WIDE, NARROW = 720.0, 320.0
_COLUMNS = 30  # of a table that can stand right
_TEMPLATES = "costmodel.report.page"
_COMMENTS = re.compile(r"/\*.*?\*/", re.DOTALL)
_INDENTS = re.compile(r"\n\s+")


def page_html(page: HtmlPage) -> str:
    """A page as one HTML file without external parts."""
    script = _template_text("page.js")
    seal = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        _template_environment()
        .get_template("page.html.j2")
        .render(
            page=page,
            version=costmodel.__version__,
            today=f"{date.today():%Y-%m-%d}",
            style=Markup(_style_sheet()),
            script=Markup(script),
            seal=seal,
            packed=_packed_data(page.data) if page.data else "",
            drawn=_drawn_figures,
        )
    )


def figure_svg(figure: SvgFigure) -> str:
    """A figure as an SVG file on a white background."""
    template = _template_environment().get_template("figure.svg.j2")
    style = Markup(figure_css(0))
    return template.render(f=figure, uid=f"fig-{figure.key}", alone=True, slim=False, style=style).strip() + "\n"


def figure_png(figure: SvgFigure) -> bytes:
    """A figure as a PNG image, at twice the size of its SVG."""
    try:
        import resvg_py
    except ImportError:
        hint = f"{install_command('resvg-py>=0.2')}, or take --format svg"
        raise fail("C007", "PNG needs resvg-py, which is not installed", None, hint) from None
    return bytes(resvg_py.svg_to_bytes(svg_string=figure_svg(figure), zoom=2))


def _drawn_figures(part: PagePart) -> list[Markup]:
    """The figures of a part, each once for wide and once for narrow windows."""
    template = _template_environment().get_template("figure.svg.j2")
    return [
        Markup(
            template.render(f=figure, uid=f"{part.key}-{place}-{size}", size=size, alone=False, slim=size == "narrow")
        )
        for place, draw in enumerate(part.figures)
        for size, figure in (("wide", draw(WIDE)), ("narrow", draw(NARROW)))
    ]


def _packed_data(data: Any) -> str:
    """Data for the script of a page, compressed."""
    written = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return base64.b64encode(gzip.compress(written.encode(), 9, mtime=0)).decode()


def _style_sheet() -> str:
    """The CSS of a page, for light and dark."""
    right = ",".join(f".r{place} td:nth-child({place})" for place in range(1, _COLUMNS + 1))
    dark = f"@media screen and (prefers-color-scheme: dark){{:root{{{colour_css(1)}}}{figure_css(1)}}}"
    right = f"{right}{{text-align:right;white-space:nowrap}}"
    written = f":root{{{colour_css(0)}}}{figure_css(0)}{_COMMENTS.sub('', _template_text('page.css'))}{right}{dark}"
    return _INDENTS.sub("\n", written)


def _template_text(name: str) -> str:
    return (resources.files(_TEMPLATES) / "templates" / name).read_text("utf-8")


@functools.cache
def _template_environment() -> Environment:
    """The Jinja environment of the page templates."""
    environment = Environment(
        loader=PackageLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible_text,
    )
    environment.filters["n"] = _short_number
    environment.filters["exact"] = number_text
    return environment


def _visible_text(value: Any) -> Any:
    """Text without characters that hide or reverse it; the markup of templates is unchanged."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else _visible_lines(value)


def _visible_lines(text: str) -> str:
    return "\n".join(map(visible_text, text.split("\n")))


def _short_number(value: float) -> str:
    """A coordinate to a tenth."""
    text = f"{value:.1f}"
    return text.removesuffix(".0")


def number_text(value: float) -> str:
    """A number to its last digit; whole ones without a point, as the answers for programs have them."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(float(value))


# name: on white, on black
COLOURS = {
    "blue": ("#0072b2", "#4aa8e0"),
    "sky": ("#56b4e9", "#8fd0f5"),
    "green": ("#009e73", "#35c49c"),
    "orange": ("#d98200", "#f0b24a"),
    "red": ("#d55e00", "#f5874f"),
    "pink": ("#b8578f", "#e29cc6"),
    "grey": ("#8b929b", "#7d848d"),
    "pale": ("#c9ced6", "#4a5058"),
    "sand": ("#a89000", "#e6d84a"),
    "rust": ("#b34e00", "#f5874f"),
    "moss": ("#00765a", "#35c49c"),
}
ROLES = {
    "ideal": "green",
    "total": "blue",
    "matmul": "blue",
    "attention": "sky",
    "kernels": "blue",
    "recomputed": "pink",
    "memory_bound": "orange",
    "launch": "sand",
    "network": "red",
    "raw": "pale",
    "bubble": "grey",
    "optimizer": "pink",
    "offload": "sand",
    "forward": "blue",
    "backward": "rust",
    "weight": "moss",
    "weights": "blue",
    "gradients": "sky",
    "activations": "orange",
    "buffers": "sand",
    "runtime": "grey",
    "other": "pink",
    "first": "blue",
    "second": "orange",
    "third": "green",
    "fourth": "pink",
    "quiet": "pale",
    "lower": "blue",
    "higher": "orange",
    "bad": "red",
    "good": "green",
}
INK = {"ink": ("#1b1f24", "#e8eaed"), "soft": ("#59616b", "#a3abb5"), "line": ("#d9dde2", "#3a4048")}
_PAPER = ("#ffffff", "#16191d")


def figure_css(side: int) -> str:
    """Rules of style for figures, for the light side or the dark one."""
    return "".join(f"{rule}\n" for rule in _label_css(side))


def _label_css(side: int) -> Iterator[str]:
    """CSS rules for the labels of figures, for light or dark."""
    ink, soft, line = (INK[name][side] for name in ("ink", "soft", "line"))
    yield f".label{{fill:{ink}}}"
    yield f".soft{{fill:{soft}}}"
    yield f".strong{{fill:{ink};font-weight:600}}"
    yield f".grid{{stroke:{line};stroke-width:1}}"
    yield f".axis{{stroke:{soft};stroke-width:1}}"
    yield f".in{{fill:{('#ffffff', '#111111')[side]}}}"
    yield f".limit{{stroke:{COLOURS['red'][side]};stroke-width:2;stroke-dasharray:5 3}}"
    for role, name in ROLES.items():
        colour = COLOURS[name][side]
        yield f".f-{role}{{fill:{colour}}}"
        yield f".s-{role}{{stroke:{colour};fill:none;stroke-width:2}}"
        yield f".a-{role}{{fill:{colour};fill-opacity:.22}}"


def colour_css(side: int) -> str:
    """Variables of style of the page."""
    named = {name: pair[side] for name, pair in (*INK.items(), *COLOURS.items())} | {"paper": _PAPER[side]}
    return "".join(f"--{name}:{colour};" for name, colour in named.items())
