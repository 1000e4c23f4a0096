"""Pages and figures as text: HTML in one file, SVG, and PNG where something can draw it."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import costmodel
from costmodel.ground.errors import fail, install_command
from costmodel.report.page.content import HtmlPage, Part
from costmodel.report.page.plots import SvgFigure
from costmodel.report.terminal.style.theme import visible

WIDE, NARROW = 720.0, 320.0
_COLUMNS = 30  # of a table that can stand right
_TEMPLATES = "costmodel.report.page"
_COMMENTS = re.compile(r"/\*.*?\*/", re.DOTALL)
_INDENTS = re.compile(r"\n\s+")


def page_html(page: HtmlPage) -> str:
    """A page as one HTML file without external parts."""
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
    """A figure as an SVG file on a white background."""
    template = _environment().get_template("figure.svg.j2")
    style = Markup(figure_rules(0))
    return template.render(f=figure, uid=f"fig-{figure.key}", alone=True, slim=False, style=style).strip() + "\n"


def figure_png(figure: SvgFigure) -> bytes:
    """A figure as a PNG image, at twice the size of its SVG."""
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
    """Text without characters that hide or reverse it; the markup of templates is unchanged."""
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


def figure_rules(side: int, scope: str = "") -> str:
    """Rules of style for figures, for the light side or the dark one."""
    return "".join(f"{scope}{rule}\n" for rule in _rules(side))


def _rules(side: int) -> Iterator[str]:
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


def page_colours(side: int) -> str:
    """Variables of style of the page."""
    named = {name: pair[side] for name, pair in (*INK.items(), *COLOURS.items())} | {"paper": _PAPER[side]}
    return "".join(f"--{name}:{colour};" for name, colour in named.items())
