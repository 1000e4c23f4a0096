"""Pages and figures of every command's answer; what draws them is imported only when needed."""

from __future__ import annotations

import functools
import math
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from costmodel.commands.progress import is_quiet
from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.report.page.forms import Form, page_forms
from costmodel.report.terminal.style.answer import Reply

if TYPE_CHECKING:
    from costmodel.documents.reader.serving_scenario import ServingCase
    from costmodel.estimate.evaluate.predict import Answer
    from costmodel.estimate.rl.predict_rl import RlAnswer
    from costmodel.estimate.serving.predict_serving import ServingAnswer
    from costmodel.evidence.validate.scores import Scoreboard
    from costmodel.explore.explain.explained_answer import ExplainedAnswer
    from costmodel.explore.explain.pipelines import Pipelines
    from costmodel.report.document import AnswerDocument, Draw
    from costmodel.report.page.content import HtmlPage
    from costmodel.report.terminal.style.layout import Line

_OUTPUT = ("-o", "--output", "--format")
Drawn = tuple[Callable[[], "HtmlPage"], Callable[[], "Draw | None"]]


def command_line() -> list[str]:
    """The command that was typed, without where its answer goes."""
    if is_quiet():
        return []
    words, kept = iter(sys.argv[1:]), list[str]()
    for word in words:
        if word in _OUTPUT:
            next(words, None)
        elif word not in ("--force", "--watch") and not word.startswith(("--output=", "--format=")):
            kept.append(word)
    return [shlex.join(["costmodel", *kept])]


def drawn(
    make: Callable[[], AnswerDocument],
    result: Callable[[], dict[str, Any]],
    rows: str,
    *,
    yes: bool = True,
    stopped: bool = False,
    others: Mapping[str, Form] | None = None,
    found: object = None,
) -> Reply:
    """A document as a reply: lines, plain values, and a page with its figure; other forms go ahead of these."""
    document = functools.cache(make)

    def lines() -> list[Line]:
        from costmodel.report.terminal.style.document_lines import document_lines

        return document_lines(document())

    def faces() -> Drawn:
        from costmodel.report.page.document_page import document_figure, document_page

        return lambda: document_page(document(), command_line()), lambda: document_figure(document())

    forms = {**_late_forms(faces), **(others or {})}
    return Reply(lines, result, rows, yes=yes, stopped=stopped, others=forms, found=found)


def no_figure(words: str, name: str, known: Sequence[str]) -> CostModelError:
    """A fault for a figure that a plan of a workload does not have."""
    hint = " or ".join(f"--figure {each}" for each in known)
    return fail("C044", f"{words} has no figure {name}", Place("command line"), hint)


def figure_alone(forms: Mapping[str, Form], *, yes: bool = True) -> Reply:
    """One figure alone; it has no table."""

    def nothing() -> Any:
        raise fail("C044", "--figure goes with --format svg or png", Place("command line"), "add -o figure.svg")

    return Reply(nothing, nothing, others={**forms, "html": nothing}, yes=yes)


def _late_forms(drawn: Callable[[], Drawn]) -> dict[str, Form]:
    """Forms of a page and its figure, of which nothing is imported before one of them is asked for."""
    return page_forms(lambda: drawn()[0](), lambda: drawn()[1]())


def of_plan(asked: Answer, figure: str = "time") -> dict[str, Form]:
    """The page of a training plan, and its figure of time, memory or network."""
    return page_forms(lambda: _plan_page(asked), lambda: _plan_figure(asked, figure))


def _plan_page(asked: Answer) -> HtmlPage:
    from costmodel.explore.page.plan_facts import PlanFacts
    from costmodel.report.page.plan_page import plan_page

    return plan_page(PlanFacts(asked), command_line())


def _plan_figure(asked: Answer, name: str) -> Draw | None:
    from costmodel.explore.page.plan_facts import PlanFacts
    from costmodel.report.page.plan_page import plan_figure

    return plan_figure(PlanFacts(asked), name)


def of_pipeline(found: Pipelines) -> dict[str, Form]:
    """The page of a plan, its timeline, and a trace for Perfetto."""
    from costmodel.report.chrome_trace import trace_text

    return {**of_plan(found.own, "pipeline"), "trace": lambda: trace_text(found)}


def of_run(asked: ExplainedAnswer) -> dict[str, Form]:
    """The page of a run."""

    def page() -> HtmlPage:
        from costmodel.explore.page.plan_facts import PlanFacts
        from costmodel.report.page.run_page import run_page

        return run_page(PlanFacts(asked), asked.outlook, command_line())

    def figure() -> Draw | None:
        from costmodel.explore.page.plan_facts import PlanFacts
        from costmodel.report.page.run_page import run_figure

        return None if asked.refused or math.isnan(asked.costs["goodput"]) else run_figure(PlanFacts(asked))

    return page_forms(page, figure)


def of_validation(found: Scoreboard) -> dict[str, Form]:
    """The page of measured and predicted figures."""

    def page() -> HtmlPage:
        from costmodel.report.page.evidence_part import validation_page

        return validation_page(found, command_line())

    def figure() -> Draw | None:
        from costmodel.report.page.evidence_part import measured_figure

        return measured_figure(found.figures)

    return page_forms(page, figure)


# ── serving ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def of_serving_plan(case: ServingCase, asked: ServingAnswer, figure: str = "time") -> dict[str, Form]:
    """The page of a serving plan, and its figure: where a token's time goes, or the memory."""

    def page() -> HtmlPage:
        from costmodel.explore.page.serving_facts import ServingFacts
        from costmodel.report.page.serving_page import serving_page

        return serving_page(ServingFacts(case, asked), command_line())

    def draw() -> Draw | None:
        from costmodel.explore.page.serving_facts import ServingFacts
        from costmodel.report.page.serving_page import memory_figure, token_figure

        if figure == "memory":
            return None if asked.refused else memory_figure(asked)
        return token_figure(asked) if ServingFacts(case, asked).settled else None

    return page_forms(page, draw)


# ── reinforcement learning ───────────────────────────────────────────────────────────────────────────────────────────


def of_rl_plan(asked: RlAnswer, figure: str = "time") -> dict[str, Form]:
    """The page of a plan of reinforcement learning, and its figure of time or memory."""
    return page_forms(lambda: _rl_page(asked), lambda: _rl_figure(asked, figure))


def _rl_page(asked: RlAnswer) -> HtmlPage:
    from costmodel.explore.page.rl_facts import RlFacts
    from costmodel.report.page.rl_page import rl_page

    return rl_page(RlFacts(asked), command_line())


def _rl_figure(asked: RlAnswer, name: str) -> Draw | None:
    from costmodel.report.page import rl_parts

    if asked.refused:
        return None
    return rl_parts.memory_figure(asked) if name == "memory" else rl_parts.phases_figure(asked)
