"""Answers of sweep, scale and solve about serving."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.text import Text

from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.results import is_money, machine_name
from costmodel.estimate.evaluate.answer_facts import subject_of
from costmodel.estimate.machine.price import price_of
from costmodel.estimate.serving.deployment_rent import fleet_of
from costmodel.estimate.serving.limits_chance import OWN
from costmodel.estimate.serving.plan_columns import sizes_of
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.estimate.serving.service_limits import service_limits
from costmodel.estimate.shared.limits import stated_limits
from costmodel.explore.safety import preferred_chance, stated_chance
from costmodel.explore.search.ranges import Axis
from costmodel.explore.serving.fewer_gpus import FewerGpus
from costmodel.explore.serving.fleets import counts_of
from costmodel.explore.serving.vary_serving import ServingTrial, SweptServing, remarks_of
from costmodel.ground.counts import number_of
from costmodel.ground.units import counted, percent, rounded_dollars, significant
from costmodel.report.machine.answer_fields import notes
from costmodel.report.machine.serving_json import number, plan
from costmodel.report.terminal.serving.fleet_words import unpaid_words
from costmodel.report.terminal.serving.overload_words import at_most, brief
from costmodel.report.terminal.serving.serving_chart import chart as drawn_chart
from costmodel.report.terminal.serving.serving_formatting import (
    counted_for,
    has_limits,
    layout_words,
    rate_words,
    share_words,
    unlimited,
)
from costmodel.report.terminal.serving.serving_reasons import reason
from costmodel.report.terminal.serving.serving_variants import replica_words
from costmodel.report.terminal.serving.vary_columns import HEADS, NARROW, SCALE, WORSE
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.head import (
    origin_lines,
    price_fields,
    price_lines,
    price_varies,
    prices,
    subject_fields,
    subject_words,
    title,
)
from costmodel.report.terminal.style.layout import CellTable, Line, typed
from costmodel.report.terminal.style.next_command import command
from costmodel.report.terminal.style.remark_lines import assumed_of_all, remarks
from costmodel.report.terminal.style.theme import BAD, DIM, HEAD, WARN, styled

_SURE, _TOSS = 0.9, 0.05  # the chance that --safe 90% asks for; one so near to a half is called a coin toss
_MOST_FAULTS = 5


def subject(case: ServingCase, varied: Sequence[str] = (), *, price: bool = False) -> list[Line]:
    """What is asked about, without what varies."""
    facts = subject_of(case)
    lines: list[Line] = [styled(subject_words(facts, varied), HEAD)] if subject_words(facts, varied) else []
    return [*lines, *(price_lines(facts.price) if price else []), *origin_lines(case)]


def sweep(found: SweptServing, *, chart: bool = False) -> list[Line]:
    """One row per combination, with the limit that is broken or the fault; and a chart of the first result."""
    paths = [axis.path for axis in found.axes]
    shown = list(dict.fromkeys(each for name in found.shown for each in (name, *WORSE.get(name, ()))))
    names = (*(_short(path) for path in paths), *(HEADS.get(name, name) for name in shown), "")
    rows = [(*_values(found.axes, trial), *_results(shown, trial), _against(trial)) for trial in found.trials]
    align = "r" * (len(names) - 1) + "l"
    if found.best:
        names, align = (*names[:-1], "best plan", ""), align + "l"
        rows = [(*row[:-1], _layout(trial), row[-1]) for row, trial in zip(rows, found.trials, strict=True)]
    priced, own = any(map(is_money, found.shown)), price_varies(paths)
    head = subject(found.case, paths, price=priced and not own)
    narrow = [name for name in NARROW if name in names]
    table = [CellTable(names, rows, align, drop=narrow), *_overloaded(found.trials), *_unread(found.trials)]
    drawing: list[Line] = [Text(), drawn_chart(found)] if chart else []
    table += _partly_paid(found.trials) if "rent_per_month" in found.shown else []
    return [*head, *table, *(_prices(found) if priced and own else []), *_remarked(found.trials), *drawing]


def _unread(trials: Sequence[ServingTrial]) -> list[Line]:
    """What is wrong with trials that cannot be evaluated, each once."""
    found = dict.fromkeys(f"{trial.fault.code} {trial.fault.sentence}" for trial in trials if trial.fault is not None)
    left = len(found) - _MOST_FAULTS
    more = [styled(f"  and {left} more, in the answer of --json")] if left > 0 else []
    return [*(styled(f"  {words}", BAD) for words in [*found][:_MOST_FAULTS]), *more]


def _partly_paid(trials: Sequence[ServingTrial]) -> list[Line]:
    """What rents count, where some are of whole nodes that are not all in use."""
    answers = [trial.answer for trial in trials if trial.answer is not None and trial.works]
    fleets = [fleet_of(answer.inputs, answer.costs["gpus"]) for answer in answers]
    if all(fleet.paid == fleet.gpus for fleet in fleets):
        return []
    return [styled("  a month: rent of all replicas' GPUs; of a node with a price of its own, of all its GPUs", DIM)]


def _prices(found: SweptServing) -> list[Text]:
    """The prices of trials that have their own, each once; nodes without one."""
    return prices(price_of(trial.answer.inputs.case) for trial in found.trials if trial.answer is not None)


def _remarked(trials: Sequence[ServingTrial]) -> list[Line]:
    """Remarks on trials that have an answer, with how many each is about."""
    shown = [trial.answer for trial in trials if trial.answer is not None and not trial.answer.refused]
    idle = all("N051" in answer.remarked for answer in shown)  # else a key has its effect at other values
    codes = [[code for code in answer.remarked if code != "N051" or idle] for answer in shown]
    return remarks(codes, nodes=[answer.inputs.case.node.name for answer in shown])


def _short(path: str) -> str:
    return path.rpartition(".")[2]


def _values(axes: Sequence[Axis], trial: ServingTrial) -> list[str]:
    return [setting.partition("=")[2] for setting in trial.settings[: len(axes)]]


def _results(shown: Sequence[str], trial: ServingTrial) -> list[str]:
    """Results of one trial; none where its plan is not valid or does not fit."""
    if trial.answer is None or trial.answer.refused or trial.alone is not None or "M001" in trial.codes:
        return ["—"] * len(shown)
    apart = trial.answer.plan.prefill is not None
    return [_fleet(trial.answer) if apart and name == "replicas" else _brief(name, trial.costs[name]) for name in shown]


def _brief(name: str, value: float) -> str:
    return "—" if is_money(name) and math.isnan(value) else brief(name, value)


def _fleet(answer: ServingAnswer) -> str:
    """Prefill and decode instances of a plan."""
    return " → ".join(counted(count) for count in counts_of(answer.plan, answer.costs).values())


def _layout(trial: ServingTrial) -> str:
    """Its plan, where one fits."""
    answer = trial.answer
    return "" if answer is None or answer.refused else layout_words(answer)


def _against(trial: ServingTrial) -> str:
    """What speaks against it, and what rate its figures are of where more arrives."""
    return f"✗ {' '.join(trial.codes)}{at_most(trial.answer)}" if trial.codes else ""


def _overloaded(trials: Sequence[ServingTrial]) -> list[Line]:
    """What rows are of on which more arrives than is answered."""
    if not any(trial.answer is not None and trial.answer.overload for trial in trials):
        return []
    return [styled("  ✗ … at: the highest rate that it can serve; more arrives, so the queue grows without bound", DIM)]


def sweep_rows(found: SweptServing) -> list[dict[str, Any]]:
    """Each combination as plain values."""
    return [row(trial, {axis.path: value for axis, value in zip(found.axes, _values(found.axes, trial), strict=True)})
            for trial in found.trials]  # fmt: skip


def row(trial: ServingTrial, values: dict[str, str]) -> dict[str, Any]:
    """One trial as plain values; null where there is no answer."""
    answer = trial.answer
    known: dict[str, Any] = {}
    if answer is not None and not answer.refused:
        layout = answer.evaluation.layout
        known = plan(sizes_of(layout), trial.costs)
    fault = None if trial.fault is None else trial.fault.sentence
    return {**values, **known, "works": trial.works, "codes": list(trial.codes), "notes": remarks_of([trial]),
            "fault": fault, **({} if answer is None else price_fields(price_of(answer.inputs.case)))}  # fmt: skip


def sweep_json(found: SweptServing) -> dict[str, Any]:
    """The sweep as plain values."""
    shown = [machine_name(name) for name in found.shown]
    facts = {"workload": "serving", "facts": subject_fields(subject_of(found.case)), "title": title(found.case)}
    return {
        **head("costmodel/sweep/v1"),
        **facts,
        "shown": shown,
        "points": sweep_rows(found),
        "notes": notes([remarks_of(found.trials)]),
    }


def scale(
    case: ServingCase,
    trials: Sequence[ServingTrial],
    fewer: FewerGpus | None = None,
    *,
    best: bool = False,
    assumed: bool = False,
    verbose: bool = False,
) -> list[Line]:
    """A row for each rate, with as many replicas as keep every limit; verbose, all assumptions too.

    fewer: another plan that takes fewer accelerators
    best: whether the best layout at each rate was asked for, which is shown
    """
    plans = ("plan",) if best else ()
    names = (*(HEADS.get(name, name) for name in SCALE), *plans, "")
    rows = [
        (_rate(trial), *_results(SCALE[1:], trial), *(_layout(trial) for _ in plans), _against(trial))
        for trial in trials
    ]
    kept = [trial for trial in trials if trial.works]
    lines = [
        *subject(case, ["cluster.nodes"], price=True),
        CellTable(names, rows, "r" * len(SCALE) + "l" * (1 + best), drop=NARROW),
    ]
    lines[-1:-1] = [styled("rates around workload.rate; --rate '2..16 /s' sets others")] if assumed else []
    lines += [*_overloaded(trials), *_unread(trials), *_never_kept(case, trials)]
    if kept and kept[0].answer is not None:
        lines += [*_stated(kept), *_with_fewer(case, fewer), *_on_whole_nodes(kept), *counted_for(case)]
        lines += [*unlimited(kept[0].answer.inputs), *_without_safety(kept), *_at_risk(case, kept)]
    answers = [trial.answer.assumed for trial in trials if trial.answer is not None]
    return [*lines, *_remarked(trials), *([Text(), *assumed_of_all(answers)] if verbose else [])]


def _stated(kept: Sequence[ServingTrial]) -> list[Line]:
    """Up to where one replica keeps the limits, if all have one layout; of instances apart, what their numbers mean."""
    answers = [trial.answer for trial in kept if trial.answer is not None]
    if answers[0].plan.prefill is not None:
        verb = "meet the limits" if service_limits(answers[0].inputs) else "answer the load"
        return [styled(f"repl: prefill → decode instances, the fewest GPUs of both that {verb}")]
    if len({replica_words(sizes_of(answer.evaluation.layout)) for answer in answers}) > 1:
        return []
    each = answers[0].costs
    sized = each if kept[0].one is None else kept[0].one.costs
    one, gpus = sized["rate_within_slo_per_s"] / sized["replicas"], each["gpus"] / each["replicas"]
    up_to = rate_words(one, significant(one))
    limited, case = service_limits(answers[0].inputs), answers[0].inputs.case
    verb = "is expected to meet the limits up to" if limited else "answers at most"
    safe = stated_chance(case) if kept[0].one is None else preferred_chance(case)
    if safe is not None:
        met = "meets the limits" if limited else "answers"
        up_to = f"{up_to} with a chance of {percent(safe, 2)}"
        verb = f"{met} up to"
    layout = answers[0].evaluation.layout
    plan = f"{replica_words(sizes_of(layout))} · budget {float(layout.budget[0]):,.0f}"
    return [styled(f"Each replica, {number_of(gpus, 'GPU')} ({plan}), {verb} {up_to}.")]


def _with_fewer(case: ServingCase, fewer: FewerGpus | None) -> list[Line]:
    """How to scale a plan that takes fewer accelerators, as a search finds it."""
    if fewer is None or fewer.trial.answer is None:
        return []
    taken = number_of(fewer.trial.answer.costs["gpus"], "GPU")
    words, rate = f"Another plan takes {taken} at {_rate(fewer.trial)}:", _rate(fewer.trial)
    if "--rate" in case.asked.words:
        return [typed(words, command(case, "scale", settings={**fewer.settings, "workload.rate": rate}))]
    return [typed(words, command(case, "scale", "--rate", rate, settings=fewer.settings))]


def _on_whole_nodes(kept: Sequence[ServingTrial]) -> list[Line]:
    """What rents count where the GPUs of a rate do not fill their nodes."""
    answers = [(trial, trial.answer) for trial in kept if trial.answer is not None]
    fleets = [(_rate(trial), fleet_of(answer.inputs, answer.costs["gpus"])) for trial, answer in answers]
    if any(each.by_node and each.gpus < each.whole for _, each in fleets):
        return [styled("  a month: rent of whole nodes; rent/M out: of the GPUs in use")]
    open_ = [(rate, each) for rate, each in fleets if unpaid_words(each)]
    if not open_:
        return []
    months = ", ".join(f"{rounded_dollars(each.month_whole)} at {rate}" for rate, each in open_)
    first = open_[0][1]
    more = unpaid_words(first) if first.each < first.built else f"; of whole nodes {months}"
    return [styled(f"  a month: rent of the GPUs in use{more}")]


def _never_kept(case: ServingCase, trials: Sequence[ServingTrial]) -> list[Line]:
    """The limits that no number of replicas keeps, since requests one at a time break them."""
    alone = next((trial.alone for trial in trials if trial.alone is not None), None)
    if alone is None:
        return []
    missed = ", ".join(reason(alone, code) for code in alone.broken)
    words = f"No number of replicas keeps the limits; of a request alone {missed}."
    return [styled(f"  {words}", BAD), typed("  other plans:", command(case, "search"))]


def _at_risk(case: ServingCase, kept: Sequence[ServingTrial]) -> list[Line]:
    """What the limits are kept with, where that is hardly sure and no least chance is asked for."""
    if not has_limits(case) or any(limit.column == OWN for limit in stated_limits(case.scenario.limits)):
        return []
    chances = [trial.answer.costs.get(OWN, math.nan) for trial in kept if trial.answer is not None]
    lowest = min((chance for chance in chances if not math.isnan(chance)), default=1.0)
    if lowest >= _SURE:
        return []
    toss = ", a coin toss" if abs(lowest - 0.5) < _TOSS else ""
    safe = preferred_chance(case)
    apart = kept[0].answer is not None and kept[0].answer.plan.prefill is not None
    more = "--safe 90% asks for more" if safe is None or apart else f"no number of replicas has {percent(safe, 2)}"
    return [styled(f"  The limits are met with a chance of {share_words(lowest, 0)}{toss}; {more}", WARN)]


def _without_safety(kept: Sequence[ServingTrial]) -> list[Line]:
    """The accelerators that expected figures need, with their chance to keep the limits."""
    sizes = [(_rate(trial), trial.answer.costs, trial.expected.costs) for trial in kept
             if trial.answer is not None and trial.expected is not None]  # fmt: skip
    words = (
        f"{few['gpus']:,.0f} GPUs at {share_words(few[OWN], 0)}, {costs['gpus']:,.0f} at {share_words(costs[OWN], 0)}"
        f" ({rate})"
        for rate, costs, few in sizes
    )
    return [styled(f"  {'; '.join(words)}: --safe off takes the first", DIM)] if sizes else []


def _rate(trial: ServingTrial) -> str:
    return trial.settings[0].partition("=")[2]


def scale_json(case: ServingCase, trials: Sequence[ServingTrial]) -> dict[str, Any]:
    """The same as plain values."""
    facts = {"workload": "serving", "facts": subject_fields(subject_of(case)), "title": title(case)}
    alone = next((trial.alone for trial in trials if trial.alone is not None), None)
    sizes = [{**row(trial, {"workload.rate": _rate(trial)}), **_expected_values(trial)} for trial in trials]
    known = None if alone is None else {"codes": list(alone.broken), **_alone_values(alone)}
    return {**head("costmodel/scale/v1"), **facts, "sizes": sizes, "alone": known, "notes": notes([remarks_of(trials)])}


def _expected_values(trial: ServingTrial) -> dict[str, Any]:
    """What expected figures need, where the preferred chance needs more."""
    costs = None if trial.expected is None else trial.expected.costs
    return {"without_safe": None if costs is None else {name: number(costs[name]) for name in ("gpus", OWN)}}


def _alone_values(alone: ServingAnswer) -> dict[str, Any]:
    return {machine_name(name): number(alone.costs[name]) for name in ("ttft", "ttft_p99", "tpot", "latency")}
