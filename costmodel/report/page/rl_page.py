"""Pages about reinforcement learning: one plan, a whole report, a search, a sweep, sizes, limits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

from costmodel.documents.reader.rl_scenario import RlCase
from costmodel.documents.schemas.results import RL_COLUMNS, machine_name
from costmodel.estimate.evaluate.answer_facts import subject_of
from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.estimate.rl.rl_reason_codes import REFUSALS
from costmodel.explore.kept_answers import both_words
from costmodel.explore.page.rl_facts import RlFacts
from costmodel.ground.units import gib, percent
from costmodel.report.answers.search import plans_section, why_section
from costmodel.report.answers.search_rl import RlWords
from costmodel.report.answers.sensitivity import tornado
from costmodel.report.document import Headline, Value, Verdict, chance_verdict
from costmodel.report.machine import rl_json
from costmodel.report.page.content import CellOf, HtmlPage, PageTable, Part
from costmodel.report.page.document_page import section_data, section_part
from costmodel.report.page.rl_parts import (
    memory_part,
    network_part,
    phases_part,
)
from costmodel.report.page.run_page import wall_part
from costmodel.report.page.scenarios_page import ScenarioEntry, ScenarioKind
from costmodel.report.page.shared_parts import bands_part, inputs_part, kept_limits, remark_findings, scenario_part
from costmodel.report.page.trace import Traces
from costmodel.report.terminal.rl.rl_estimate import conclusion
from costmodel.report.terminal.rl.rl_formatting import iteration_words, reason, result
from costmodel.report.terminal.rl.rl_run import run_shares
from costmodel.report.terminal.rl.rl_tree import RlDrawing
from costmodel.report.terminal.style.formatting import BAND, ENDS, between
from costmodel.report.terminal.style.head import subject_words, title

COMPARED_BY = ScenarioKind(
    "rl",
    (("iteration", "iteration_time"), ("answers", "answers_per_s"), ("tok/s/GPU", "tokens_per_s_per_gpu"),
     ("memory", "memory_peak"), ("cost of an iteration", "iteration_cost")),
    "tokens_per_s_per_gpu", "handles most tokens for each accelerator", "for each accelerator", result,
)  # fmt: skip


def rl_page(facts: RlFacts, commands: Sequence[str], known: Traces | None = None) -> HtmlPage:
    """One plan: its conclusion, where time and memory go, and how every figure was made."""
    answer, case = facts.answer, facts.case
    about = [subject_words(subject_of(case)), iteration_words(case), both_words(answer)]
    held = inputs_part(case, answer.assumed)
    if answer.refused:
        return HtmlPage(title(case), about, conclusion(answer), "bad", [], [held], list(findings(answer)), commands)
    traces = known or traces_of(facts)
    cell_of = partial(value_of, answer.costs, traces)
    run = run_shares(answer)
    parts = [wall_part(run, answer.costs["run_time"], traces, "iterations")] if run else []
    parts += [
        phases_part(answer, cell_of, traces),
        memory_part(answer, cell_of, traces),
        network_part(answer, traces),
        _results(answer, cell_of),
    ]
    parts.append(held)
    fits: Verdict = chance_verdict(answer.costs["fit_chance"])
    verdict: Verdict = "bad" if answer.broken else "warn" if answer.remarked else fits
    return HtmlPage(title(case), about, conclusion(answer), verdict, _headlines(answer, cell_of), parts,
                    list(findings(answer)), commands, {"trace": traces.data()})  # fmt: skip


def traces_of(facts: RlFacts) -> Traces:
    """The traces of a valid plan."""
    return Traces(facts.nodes, RlDrawing)


def rl_report(facts: RlFacts, commands: Sequence[str]) -> HtmlPage:
    """One plan, the splits around it, what moves it, and the scenario."""
    if facts.answer.refused:
        return rl_page(facts, commands)
    traces = traces_of(facts)
    page, found = rl_page(facts, commands, traces), facts.found
    *ahead, results, held = page.parts
    made = [*ahead]
    if found is not None:
        words = RlWords(found)
        shown = [plans_section(words), *([why_section(words)] if any(found.tally.refused.values()) else [])]
        made += [section_part(each, traces) for each in shown]
    if facts.sensitive is not None and facts.sensitive.knobs:
        made.append(section_part(tornado(facts.sensitive), traces))
    spread = facts.case.stack.spread
    generation, update = percent(float(spread.generation)), percent(float(spread.update))
    lead = f"Errors of published iterations: {generation} of the generation, {update} of the update, as standard "
    lead += "deviations. The lengths of answers decide: state those of your own log."
    made.append(bands_part(lead, facts.answer.costs, partial(value_of, facts.answer.costs, traces)))
    made += [results, held, scenario_part(facts.case)]
    rows = {} if found is None else section_data(plans_section(RlWords(found)), facts.case, traces)
    data = {"trace": traces.data()} | rows
    conclusion = f"{page.conclusion}{_best_words(facts)}"
    return HtmlPage(page.title, page.subtitle, conclusion, page.verdict, page.headlines, made, page.findings, commands,
                    data)  # fmt: skip


def _best_words(facts: RlFacts) -> str:
    """What another split would gain."""
    found = facts.found
    if found is None or not found.works:
        return ""
    best = found.best[0]
    ratio = facts.answer.costs["iteration_time"] / best.costs["iteration_time"]
    if ratio <= 1.0005:
        return " No split of the accelerators that was tried is faster."
    return f" The best plan that was tried is {ratio:.2f} × as fast ({both_words(found.answer_of(best))})."


def value_of(costs: dict[str, float], traces: Traces, name: str) -> Value:
    """A result as people read it, with its trace."""
    value = costs[name]
    known = value if math.isfinite(value) else None
    return Value(result(name, value), known, machine_name(name), traces.of(name) if known is not None else None)


def findings(answer: RlAnswer) -> Iterator[tuple[Verdict, str]]:
    """What speaks against a plan, the limits that it keeps, and what there is to remark."""
    for code in answer.refused or answer.broken:
        yield "bad", f"{code} {REFUSALS[code].title}: {reason(answer, code)}"
    if not answer.refused:
        yield from kept_limits(answer.inputs.case, answer.costs, result)
        yield from remark_findings(answer.remarked)


def _headlines(answer: RlAnswer, cell_of: CellOf) -> list[Headline]:
    costs = answer.costs
    band = between(*(result("iteration_time", costs[f"iteration_time_{end}"]) for end in ENDS))
    whole = costs["run_time"]
    share = result("generation_share", costs["generation_share"])
    run = f"{result('run_time', whole)} for all iterations" if math.isfinite(whole) else "of one iteration"
    return [
        Headline("Iteration", cell_of("iteration_time"), f"{BAND}: {band}"),
        Headline("Answers", cell_of("answers_per_s"), f"{share} generating"),
        Headline("Memory", cell_of("memory_peak"), f"of {gib(answer.memory.usable)} GiB",
                 "bad" if "M001" in answer.broken else chance_verdict(answer.costs["fit_chance"])),
        Headline("Cost of an iteration", cell_of("iteration_cost"), run),
    ]  # fmt: skip


def _results(answer: RlAnswer, cell_of: CellOf) -> Part:
    rows = [
        (name, cell_of(name), RL_COLUMNS[name].meaning) for name in answer.costs if math.isfinite(answer.costs[name])
    ]
    return Part("results", "Every figure", "Each figure opens its equation, its inputs and their sources.",
                tables=[PageTable(("result", "value", "meaning"), rows, "lrl")], screen_only=True)  # fmt: skip


# ── several plans ────────────────────────────────────────────────────────────────────────────────────────────────────


def _about(case: RlCase, varied: Sequence[str] = ()) -> list[str]:
    own = [] if any(path.startswith(("workload", "stack")) for path in varied) else [iteration_words(case)]
    return [words for words in (subject_words(subject_of(case), varied), *own) if words]


def scenario_entry(facts: RlFacts) -> ScenarioEntry:
    """A plan among several scenarios."""
    answer = facts.answer

    def sections(traces: Traces) -> list[Part]:
        cell_of = partial(value_of, answer.costs, traces)
        return [phases_part(answer, cell_of, traces), memory_part(answer, cell_of, traces)]

    return ScenarioEntry(
        COMPARED_BY, title(facts.case), both_words(answer), conclusion(answer), not answer.refused,
        answer.works, {} if answer.refused else answer.costs, lambda: facts.nodes, RlDrawing,
        lambda traces: partial(value_of, answer.costs, traces), sections,
        lambda: findings(answer), lambda: rl_json.estimate(answer)["plans"],
    )  # fmt: skip
