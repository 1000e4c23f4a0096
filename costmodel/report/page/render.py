"""Pages and figures as text: HTML in one file, SVG, and PNG where something can draw it."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import json
import re
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import costmodel
from costmodel.ground.errors import fail, install_command
from costmodel.report.page.content import HtmlPage, Part
from costmodel.report.page.marks import SvgFigure
from costmodel.report.page.palette import figure_rules, page_colours
from costmodel.report.terminal.style.theme import visible

WIDE, NARROW = 720.0, 320.0
_COLUMNS = 30  # of a table that can stand right
_TEMPLATES = "costmodel.report.page"
_COMMENTS = re.compile(r"/\*.*?\*/", re.DOTALL)
_INDENTS = re.compile(r"\n\s+")


def page_html(page: HtmlPage) -> str:
    """A page as one file that needs nothing else."""
    script = _text("page.js")
    seal = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            page=page,
            version=costmodel.__version__,
            style=Markup(_style()),
            script=Markup(script),
            seal=seal,
            packed=_packed(page.data) if page.data else "",
            drawn=_drawn,
        )
    )


def figure_svg(figure: SvgFigure) -> str:
    """A figure as a file of its own, on white."""
    template = _environment().get_template("figure.svg.j2")
    style = Markup(figure_rules(0))
    return template.render(f=figure, uid=f"fig-{figure.key}", alone=True, slim=False, style=style).strip() + "\n"


def figure_png(figure: SvgFigure) -> bytes:
    """A figure as an image, twice as large as its SVG."""
    try:
        import resvg_py
    except ImportError:
        hint = f"{install_command('resvg-py>=0.2')}, or take --format svg"
        raise fail("C007", "PNG needs resvg-py, which is not installed", None, hint) from None
    return bytes(resvg_py.svg_to_bytes(svg_string=figure_svg(figure), zoom=2))


def _drawn(part: Part) -> list[Markup]:
    """The figures of a part, each once for wide and once for narrow windows."""
    template = _environment().get_template("figure.svg.j2")
    return [
        Markup(
            template.render(f=figure, uid=f"{part.key}-{place}-{size}", size=size, alone=False, slim=size == "narrow")
        )
        for place, draw in enumerate(part.figures)
        for size, figure in (("wide", draw(WIDE)), ("narrow", draw(NARROW)))
    ]


def _packed(data: Any) -> str:
    """Data for the script of a page, compressed."""
    written = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return base64.b64encode(gzip.compress(written.encode(), 9, mtime=0)).decode()


def _style() -> str:
    right = ",".join(f".r{place} td:nth-child({place})" for place in range(1, _COLUMNS + 1))
    dark = f"@media screen and (prefers-color-scheme: dark){{:root{{{page_colours(1)}}}{figure_rules(1)}}}"
    right = f"{right}{{text-align:right;white-space:nowrap}}"
    written = f":root{{{page_colours(0)}}}{figure_rules(0)}{_COMMENTS.sub('', _text('page.css'))}{right}{dark}"
    return _INDENTS.sub("\n", written)


def _text(name: str) -> str:
    return (resources.files(_TEMPLATES) / "templates" / name).read_text("utf-8")


@functools.cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.filters["n"] = _short
    made.filters["exact"] = repr_of
    return made


def _shown(value: Any) -> Any:
    """Text without anything that hides or turns round what is written; what templates made stays."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else _lines(value)


def _lines(text: str) -> str:
    return "\n".join(map(visible, text.split("\n")))


def _short(value: float) -> str:
    """A coordinate to a tenth."""
    text = f"{value:.1f}"
    return text.removesuffix(".0")


def repr_of(value: float) -> str:
    """A number to its last digit; whole ones without a point, as the answers for programs have them."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(float(value))
