"""Figures of a plan for notebooks, which draw what has `_repr_svg_`."""

from __future__ import annotations

from dataclasses import field

from costmodel.explore.page.plan_facts import PlanFacts
from costmodel.ground.errors import fail
from costmodel.ground.record import record
from costmodel.report.page.forms import SLIDE
from costmodel.report.page.plan_page import FIGURES, plan_figure


@record
class Drawn:
    """A figure as the text of an SVG."""

    svg: str = field(repr=False)

    def _repr_svg_(self) -> str:
        return self.svg


def drawn_figure(plan: PlanFacts, name: str) -> Drawn:
    """A figure of a plan: time, memory, network, roofline or pipeline.

    Raises:
        CostModelError: there is no such figure, or nothing to draw
    """
    from costmodel.report.page.render import figure_svg

    if name not in FIGURES:
        raise fail("C044", f"there is no figure '{name}'", None, f"one of {', '.join(FIGURES)}")
    draw = plan_figure(plan, name)
    if draw is None:
        raise fail("C007", f"there is nothing to draw of {name}", None, "costmodel estimate gives the reason")
    return Drawn(figure_svg(draw(SLIDE)))
