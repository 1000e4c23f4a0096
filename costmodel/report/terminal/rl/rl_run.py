"""The whole run of reinforcement learning: iterations, what interrupts them, what a checkpoint holds."""

from __future__ import annotations

import math
from typing import Any

from rich.text import Text

from costmodel.estimate.machine.clock_throttling import cap_over_rating
from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.estimate.run.whole_run import shares
from costmodel.estimate.shared.results import number
from costmodel.ground.units import counted, percent, show, show_time
from costmodel.report.machine import rl_json
from costmodel.report.machine.answer_fields import known
from costmodel.report.terminal.rl.rl_formatting import following, problems, result, titled
from costmodel.report.terminal.style.formatting import BAND, ENDS, between
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.remark_lines import assumed_lines
from costmodel.report.terminal.style.theme import HEAD, bar, styled


def run(answer: RlAnswer, *, verbose: bool = False) -> list[Line]:
    """The run, conclusion first."""
    case = answer.inputs.case
    if answer.refused:
        return [*titled(case, answer), *problems(answer)]
    figures = [_figure(answer, *each) for each in (("wall time", "run_time"), ("cost", "run_cost"))]
    share = answer.costs["goodput"]
    goodput = ("goodput", "—" if math.isnan(share) else percent(share, 3), "")
    assumed = sorted(answer.assumed, key=lambda item: not item.path.startswith("run."))
    return [
        *titled(case, answer, price=True),
        *problems(answer),
        Text(),
        CellTable(("", "", BAND), [*figures, goodput], "lll"),
        *([] if math.isnan(share) else [Text(), *_where_it_goes(answer)]),
        Text(),
        CellTable(("", ""), _facts(answer), "ll", headed=False),
        Text(),
        *assumed_lines(tuple(assumed), verbose=verbose),
        Text(),
        following(case, "estimate"),
    ]


def _figure(answer: RlAnswer, words: str, name: str) -> tuple[str, str, str]:
    if math.isnan(answer.costs["goodput"]):
        return words, "—", ""
    if math.isnan(answer.costs[name]):
        return words, "unknown", "set workload.iterations" + ("" if name == "run_time" else ", and assume.price")
    low, high = (result(name, answer.costs[f"{name}_{end}"]) for end in ENDS)
    return words, result(name, answer.costs[name]), between(low, high)


def _where_it_goes(answer: RlAnswer) -> list[Line]:
    """Parts of the wall time, longest first."""
    parts, wall = run_shares(answer), answer.costs["run_time"]
    most = max(parts.values())
    rows = [
        (name, "" if math.isnan(wall) else show_time(value * wall), bar(value / most, 30), percent(value, 3))
        for name, value in sorted(parts.items(), key=lambda item: -item[1])
        if value
    ]
    shown = CellTable(("part", "time", "", "of the run"), rows, "lrlr", headed=False, drop=("",), indent="    ")
    return [styled("  where the run goes", HEAD), shown]


def _facts(answer: RlAnswer) -> list[tuple[str, str]]:
    """Iterations, interruptions, checkpoints."""
    costs, found, workload = answer.costs, answer.run, answer.inputs.case.scenario.workload
    assert found is not None
    count = number(found.interruptions) if costs["goodput"] == costs["goodput"] else math.nan
    often = "" if math.isnan(count) else f", {counted(round(count))} in the run"
    steps = "unknown" if workload.iterations is None else counted(workload.iterations)
    models = "policy and critic" if answer.inputs.models["critic"] else "policy"
    rows = [
        (
            "iterations",
            f"{steps} of {show_time(costs['iteration_time'])}, as stated; no law gives how many a score takes",
        ),
        ("failures", f"one each {show_time(costs['mtbf'])}{often}"),
        ("checkpoint", f"{show(costs['checkpoint_size'], 'B')}: states of {models}"),
    ]
    if answer.iteration.sync is not None:
        held = show(float(answer.iteration.sync.experience), "B")
        rows.append(("", f"and up to {held} of answers with their version of the weights and place in it"))
    rows.append(("interval", f"{show_time(costs['checkpoint_interval'])}, in whole iterations"))
    rows.append(("restart", show_time(costs["restart_time"])))
    if answer.inputs.engines is not None and cap_over_rating(answer.inputs.trainer.inputs.case) < 1:
        rows.append(("power cap", "slows only training; rates of engines are without the cap"))
    return rows


def run_shares(answer: RlAnswer) -> dict[str, float]:
    """Shares of the wall time: iterations, and everything that is lost; nothing where failures are not asked about."""
    asked, found = answer.inputs.trainer.inputs.run, answer.run
    if asked is None or found is None:
        return {}
    lost = {name: number(value) for name, value in shares(asked, found).items()}
    return {"iterations": number(found.goodput), **lost}


def run_json(answer: RlAnswer) -> dict[str, Any]:
    """The answer of estimate with what makes up the run."""
    told = rl_json.estimate(answer)
    found = answer.run
    if answer.refused or found is None or math.isnan(answer.costs["goodput"]):
        return told | {"run": None}
    told["run"] = {
        "iterations": known(number(found.steps)),
        "shares": run_shares(answer),
        "interruptions": known(number(found.interruptions)),
        "experience_bytes": None if answer.iteration.sync is None else float(answer.iteration.sync.experience),
    }
    return told
