"""Figures of a plan for notebooks, which draw what has `_repr_svg_`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from costmodel.explore.page.plan_facts import PlanFacts
from costmodel.explore.page.rl_facts import RlFacts
from costmodel.explore.page.serving_facts import ServingFacts
from costmodel.ground.errors import fail
from costmodel.ground.record import record
from costmodel.report.page import rl_parts, serving_page
from costmodel.report.page.forms import SLIDE
from costmodel.report.page.marks import SvgFigure
from costmodel.report.page.plan_page import FIGURES, plan_figure


@record
class Drawn:
    """A figure as the text of an SVG."""

    svg: str = field(repr=False)

    def _repr_svg_(self) -> str:
        return self.svg


def drawn_figure(plan: PlanFacts | ServingFacts | RlFacts, name: str) -> Drawn:
    """A figure of a plan: time, memory, network, roofline or pipeline; one that does not train has the first two.

    Raises:
        CostModelError: there is no such figure, or nothing to draw
    """
    from costmodel.report.page.render import figure_svg

    known = tuple(FIGURES) if isinstance(plan, PlanFacts) else ("time", "memory")
    if name not in known:
        raise fail("C044", f"there is no figure '{name}'", None, f"one of {', '.join(known)}")
    draw = _draw_of(plan, name)
    if draw is None:
        raise fail("C007", f"there is nothing to draw of {name}", None, "costmodel estimate gives the reason")
    return Drawn(figure_svg(draw(SLIDE)))


def _draw_of(plan: PlanFacts | ServingFacts | RlFacts, name: str) -> Callable[[float], SvgFigure] | None:
    if isinstance(plan, PlanFacts):
        return plan_figure(plan, name)
    if plan.answer.refused:
        return None
    if isinstance(plan, ServingFacts):
        held = serving_page.memory_figure(plan.answer)
        return held if name == "memory" else serving_page.token_figure(plan.answer) if plan.settled else None
    return rl_parts.memory_figure(plan.answer) if name == "memory" else rl_parts.phases_figure(plan.answer)
