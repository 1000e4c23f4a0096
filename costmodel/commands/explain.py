"""explain: how a figure was computed, or what a word or code means."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

import typer

from costmodel.commands import completion
from costmodel.commands.answer_options import PAGE, answering_in, optional, optional_argument
from costmodel.commands.by_workload import commands_of
from costmodel.commands.scenario_options import Question, question_command, with_plan
from costmodel.ground.errors import CostModelError, fail
from costmodel.report.terminal.layout import Reply

RanksOption = Annotated[
    int | None, optional("--ranks", min=2, max=64, help="Ranks of ring-all-reduce, shown step by step")
]
MessageOption = Annotated[
    str, typer.Option("--message", metavar="BYTES", help="Buffer of a rank of ring-all-reduce", show_default="1 GB")
]
BandwidthOption = Annotated[
    str, optional("--bandwidth", metavar="RATE", help="One-way link rate of a rank of ring-all-reduce")
]
LatencyOption = Annotated[
    str, typer.Option("--latency", metavar="TIME", help="Latency of each step of ring-all-reduce", show_default="0 s")
]
RunOption = Annotated[
    bool, typer.Option("--run", help="Also run ring-all-reduce between so many processes of this machine")
]
RING_WORDS = ("ring-all-reduce", "ring_time", "ring_chunk")
_WHAT = Annotated[
    str | None,
    optional_argument(
        help="A scenario, a word or a code; with a scenario in flags, a figure", autocompletion=completion.explained
    ),
]


@answering_in(*PAGE)
@functools.partial(question_command, argument=_WHAT)
def explain(
    question: Question,
    quantity: Annotated[
        str | None, optional_argument(help="A figure of the scenario's plan", autocompletion=completion.quantities)
    ] = None,
    more: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    depth: Annotated[
        int | None, optional("--depth", min=1, max=50, help="Depth of the tree; default: one level, 3 with -v")
    ] = None,
    ranks: RanksOption = None,
    message: MessageOption = "",
    bandwidth: BandwidthOption = "",
    latency: LatencyOption = "",
    run: RunOption = False,
    worth: Annotated[
        bool, typer.Option("--worth", help="What the terms of the figure are worth in published, measured steps")
    ] = False,
) -> Reply:
    """Show how a figure was computed: its equation, inputs, units and sources; or what a word or code means.

    Examples:
      costmodel explain llama-3-70b-512 dp_exposed
      costmodel explain step_time --model llama-3.1-8b --gpu h100 --gpus 64
      costmodel explain ring_time
      costmodel explain llama-3-70b-512 plan
      costmodel explain llama-3-70b-512 step_time --worth
      costmodel explain collective all-reduce 256MB --gpus 16
      costmodel explain ring-all-reduce --ranks 4 --run
      costmodel explain matrix multiply
      costmodel explain L002

    Without arguments it lists what it can explain. Exit code 1 when the plan is invalid.

    Next: --depth 6 goes further down
    """
    what = "-" if question.held is not None else question.scenario or ""
    if (
        what == "collective"
        and quantity is not None
        and (collective_reply := _collective_reply(question, quantity, more or [], depth))
    ):
        return collective_reply
    is_ring = bool(ranks is not None or message or bandwidth or latency or run)
    if worth and (is_ring or (not what and not question.is_flags)):
        raise _no_worth_fault(what or "words")
    if is_ring:
        return _ring_reply(question, ranks, message, bandwidth, latency, run)
    if question.is_flags and not _is_scenario(what):
        figure = " ".join(filter(None, (what, quantity, *(more or ())))) or "step_time"
        asked = replace(question, scenario=None)
        return (
            _plan_neighbours_reply(asked)
            if figure == "plan" and not worth
            else _figure_reply(asked, figure, depth, worth)
        )
    if not what:
        return _all_words_reply()
    named = " ".join(filter(None, (quantity, *(more or ()))))
    words = " ".join(filter(None, (what, named)))
    if more and _is_scenario(what):
        quantity, more = named, None
    if more or (quantity is not None and not _is_scenario(what) and (_have_page(words) or not _is_quantity(quantity))):
        what, quantity = words, None
    if quantity == "plan" and _is_scenario(what) and not worth:
        return _plan_neighbours_reply(question)
    if quantity is not None:
        return _figure_reply(question, quantity, depth, worth)
    if _is_scenario(what):
        raise _missing_figure_fault(question, what)
    if worth:
        raise _no_worth_fault(what)
    return _page_reply(what)


def _plan_neighbours_reply(question: Question) -> Reply:
    """The scenario's plan compared with plans that differ in one choice."""
    from costmodel.commands import replies
    from costmodel.explore.vary.neighbours import neighbours
    from costmodel.explore.workloads import workload_of
    from costmodel.report.answers import plan_neighbours as report

    case = with_plan(question.loaded())
    view = commands_of(case).view(case, "explain")
    if view.answer.refused:
        return replies.reply_with_reasons_only(view, rows="refused")
    nearby = neighbours(workload_of(case), view.answer)
    document = lambda: report.neighbours_document(view, nearby)  # noqa: E731
    return replies.document_reply(document, lambda: report.neighbours_json(view, nearby), "neighbours", found=nearby)


def _collective_reply(question: Question, operation: str, more: Sequence[str], depth: int | None) -> Reply | None:
    """The equation tree of a collective's time; None if the word is no collective."""
    from costmodel.commands.replies import document_reply
    from costmodel.explore.collective import collective, collective_trees, is_operation
    from costmodel.explore.scenario_from_flags import ScenarioFlags
    from costmodel.report.answers import collective as report

    if not is_operation(operation):
        return None
    others = [f"--{name}" for name, value in question.flags.items() if value and name not in ("gpu", "node", "gpus")]
    if others or len(more) > 2:
        sentence = f"a collective does not depend on {' or '.join(others or more[2:])}"
        raise fail("C003", sentence, None, f"costmodel explain collective {operation} 1GB --gpus 64")
    size, algorithm = more[:1], (more[1] if len(more) > 1 else None)
    answered = collective(operation, size, ScenarioFlags(**question.flags), question.assignments, algorithm=algorithm)
    nodes = collective_trees(answered)
    return document_reply(
        lambda: report.collective_explanation(answered, nodes, depth),
        lambda: report.collective_explanation_json(answered, nodes),
        "figures",
        found=nodes,
    )


def _all_words_reply() -> Reply:
    """Everything that can be explained."""
    from costmodel.report.terminal import glossary_pages

    return Reply(glossary_pages.words_lines, glossary_pages.words_json)


def _page_reply(word: str) -> Reply:
    """The page that explains a word or code."""
    from costmodel.explore.explain.word_explanations import page_or_nearest
    from costmodel.report.terminal import glossary_pages

    about = page_or_nearest(word)
    return Reply(lambda: glossary_pages.word_page(about), lambda: glossary_pages.page_json(about))


def _ring_reply(question: Question, ranks: int | None, message: str, bandwidth: str, latency: str, run: bool) -> Reply:
    """A ring all-reduce over `ranks` ranks, step by step; `run` also runs it here and measures the links."""
    from costmodel.explore.collective import ring_all_reduce, ring_links
    from costmodel.explore.scenario_from_flags import ScenarioFlags
    from costmodel.ground.parsing import UnitError, parse
    from costmodel.report.answers import collective

    if ranks is None or question.scenario not in RING_WORDS:
        sentence = "--ranks, with --message, --bandwidth, --latency and --run beside it, is for ring-all-reduce"
        raise fail("C003", sentence, None, "costmodel explain ring-all-reduce --ranks 4")
    links = ring_links(ranks, ScenarioFlags(**question.flags))
    try:
        rate = parse(bandwidth, "B/s") if bandwidth else links.slowest
        sizes = parse(message or ("16 MB" if run else "1 GB"), "B"), rate, parse(latency or "0 s", "s")
    except UnitError as error:
        raise fail("C003", str(error), None, '--message "1 GB" --bandwidth "50 GB/s" --latency "5 us"') from None
    if not (0 < sizes[0] < 1e18 and 0 < sizes[1] < 1e18 and 0 <= sizes[2] < 1e6):
        raise fail("C003", "a ring has bytes, a rate, and no negative latency", None, '--message "1 GB"')
    ran = None
    if run:
        from costmodel.evidence.measure.ring import run_ring

        ran = run_ring(ranks, sizes[0])
        sizes = sizes[0], rate if bandwidth else ran.bandwidth, sizes[2] if latency else ran.latency
    known = not (bandwidth or ran)
    ring_answer = ring_all_reduce(ranks, *sizes, *((links.domain, links.inside) if known else ()))
    link = f"{links.names}; --bandwidth sets another" if known else "measured here" if ran and not bandwidth else ""
    return Reply(
        lambda: collective.ring_lines(ring_answer, link, ran), lambda: collective.ring_json(ring_answer, ran), "steps"
    )


def _figure_reply(question: Question, label: str, depth: int | None, worth: bool) -> Reply:
    """The equation tree of a figure of the scenario's plan; a page if the label names no figure."""
    from costmodel.commands import replies
    from costmodel.explore.label_lookup import has_no_figure, meaning_in_answer, trees_of_figures
    from costmodel.explore.workloads import workload_of
    from costmodel.report.answers import explain as report

    case = question.of_one_plan()
    view, asked = commands_of(case).view(case, "explain"), workload_of(case)
    meant = meaning_in_answer(asked, view.answer, label)
    if meant.page is not None:
        from costmodel.report.terminal import glossary_pages

        about, values = meant.page, meant.values
        lines = lambda: glossary_pages.word_page(about, values)  # noqa: E731
        return Reply(lines, lambda: glossary_pages.page_json(about, values), found=about)
    if view.answer.refused:
        return replies.reply_with_reasons_only(view)
    if has_no_figure(asked, view.answer, meant.figures):
        return replies.reply_with_reasons_only(view, f"A plan that does not fit has no {label}.")
    if worth:
        return _worth_reply(view.answer.costs, label, meant.figures)
    nodes = trees_of_figures(asked, view.answer, meant.figures)
    return replies.document_reply(
        lambda: report.explanation_document(view, label, nodes, depth),
        lambda: report.explanation_json(view, label, nodes),
        "figures",
        found=nodes,
    )


def _worth_reply(costs: Mapping[str, float], label: str, figures: Sequence[str]) -> Reply:
    """How much each term of a step improves predictions of published steps, with its share in this plan."""
    from costmodel.commands.validate import StepTerm, worth_reply
    from costmodel.evidence.validate.validate import validated

    names = {term: term if term in costs else f"{term}_exposed" for term in (each.value for each in StepTerm)}
    named = [term for term, name in names.items() if name in figures] or ([*names] if "step_time" in figures else [])
    if not named or "step_time" not in costs:
        raise _no_worth_fault(label)
    here = {term: costs.get(names[term], 0.0) / costs["step_time"] for term in named}
    return worth_reply(validated(quantity="time"), named, "layer_kind" if len(named) == 1 else None, here)


def _no_worth_fault(label: str) -> CostModelError:
    sentence = f"--worth is about the time of a training step and its terms, not about {label}"
    return fail("C003", sentence, None, "costmodel explain SCENARIO step_time --worth")


def _is_quantity(word: str) -> bool:
    """Whether a word names a figure of plans; the word before it may then be a misspelt scenario."""
    from costmodel.explore.explain.equation_trees import quantities

    return word in quantities()


def _have_page(words: str) -> bool:
    """Whether words together have a page, although the second one is also a figure, as in "flash attention"."""
    from costmodel.explore.explain.word_explanations import page

    try:
        page(words)
    except CostModelError:
        return False
    return True


def _missing_figure_fault(question: Question, what: str) -> CostModelError:
    """The fault for a scenario without the name of a figure, with an example."""
    figure = "step_time"
    try:
        from costmodel.explore.workloads import workload_of

        figure = workload_of(question.loaded(planned=False)).usual_result
    except CostModelError:  # the fault about the scenario comes with its figure
        pass
    return fail("C003", f"'{what}' is a scenario; name a figure of it", None, f"costmodel explain {what} {figure}")


def _is_scenario(what: str) -> bool:
    """Whether a word is the name of a scenario, a document file, or '-' for standard input."""
    from costmodel.documents.reader.folders import SUFFIXES, names

    return what == "-" or what in names("scenario") or what.endswith(SUFFIXES)
