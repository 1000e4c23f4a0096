"""The files that an answer can be written to: an HTML page, and its figure as SVG or PNG."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from costmodel.ground.errors import fail

if TYPE_CHECKING:
    from costmodel.report.page.document_page import HtmlPage
    from costmodel.report.page.plots import SvgFigure

Form = Callable[[], str | bytes]
SLIDE = 720.0  # width of a figure that is a file of its own


def page_forms(
    page: Callable[[], HtmlPage], figure: Callable[[], Callable[[float], SvgFigure] | None]
) -> dict[str, Form]:
    """The HTML of a page, and the SVG and PNG of a figure."""
    return {"html": html_form(page), **figure_forms(figure)}


def html_form(page: Callable[[], HtmlPage]) -> Form:
    """The form of an answer as an HTML page."""
    return lambda: _html_form(page())


def figure_forms(figure: Callable[[], Callable[[float], SvgFigure] | None]) -> dict[str, Form]:
    """SVG and PNG of a figure."""
    return {"svg": lambda: _svg_form(_drawn_figure(figure())), "png": lambda: _png_form(_drawn_figure(figure()))}


class PageText(str):
    """The HTML of a page, with its conclusion in words."""

    conclusion: str


def _html_form(page: HtmlPage) -> str:
    """The page as HTML that knows its conclusion."""
    from costmodel.report.document import plain
    from costmodel.report.page.document_page import page_html

    text = PageText(page_html(page))
    text.conclusion = plain(page.conclusion)
    return text


def _svg_form(figure: SvgFigure) -> str:
    from costmodel.report.page.document_page import figure_svg

    return figure_svg(figure)


def _png_form(figure: SvgFigure) -> bytes:
    from costmodel.report.page.document_page import figure_png

    return figure_png(figure)


def _drawn_figure(draw: Callable[[float], SvgFigure] | None) -> SvgFigure:
    if draw is None:
        hint = "take --format table or html, which give the reason"
        raise fail("C007", "there is nothing to draw of this answer", None, hint)
    return draw(SLIDE)
