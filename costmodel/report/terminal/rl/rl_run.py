"""The whole run of reinforcement learning: iterations, what interrupts them, what a checkpoint holds."""

from __future__ import annotations

import math

from costmodel.estimate.evaluate.answer_facts import subject_of
from costmodel.estimate.machine.clock_throttling import cap_over_rating
from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.estimate.run.whole_run import shares
from costmodel.estimate.shared.results import number
from costmodel.ground.units import counted, percent, show, show_time
from costmodel.report.answers.plan_parts import PlanRun, RunFigure
from costmodel.report.machine.answer_fields import known
from costmodel.report.terminal.rl.rl_formatting import result
from costmodel.report.terminal.style.formatting import ENDS, between
from costmodel.report.terminal.style.head import price_lines
from costmodel.report.terminal.style.theme import styled


def rl_run(answer: RlAnswer) -> PlanRun:
    """The run of a plan."""
    found, share, sync = answer.run, answer.costs["goodput"], answer.iteration.sync
    assert found is not None
    figures = [_figure(answer, *each) for each in (("wall time", "run_time"), ("cost", "run_cost"))]
    figures.append(RunFigure("goodput", "goodput", "—" if math.isnan(share) else percent(share, 3), ""))
    plain = {
        "steps": known(number(found.steps)),
        "interruptions": known(number(found.interruptions)),
        "experience_bytes": None if sync is None else float(sync.experience),
    }
    price = [styled(f"  {line.plain}") for line in price_lines(subject_of(answer.inputs.case).price)]
    return PlanRun(figures, run_shares(answer), "iterations", _facts(answer), price, plain=plain)


def _figure(answer: RlAnswer, words: str, name: str) -> RunFigure:
    if math.isnan(answer.costs["goodput"]):
        return RunFigure(words, name, "—", "")
    if math.isnan(answer.costs[name]):
        wanted = "set workload.iterations" + ("" if name == "run_time" else ", and assume.price")
        return RunFigure(words, name, "unknown", wanted)
    low, high = (result(name, answer.costs[f"{name}_{end}"]) for end in ENDS)
    return RunFigure(words, name, result(name, answer.costs[name]), between(low, high))


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
