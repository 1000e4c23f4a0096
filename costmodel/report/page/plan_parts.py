"""The parts of a page about one training plan: where its time and its memory go."""

from __future__ import annotations

from costmodel.explore.page.plan_facts import PlanFacts
from costmodel.ground.units import gib, percent, show_memory
from costmodel.report.page.content import PageTable, Part
from costmodel.report.page.figures import BarRow, Bars, FigureEntry, Piece, waterfall
from costmodel.report.page.values import TERM_WORDS, Figures, memory_role, seconds, term_role
from costmodel.report.terminal.plan.memory_breakdown import ledger_label, ledger_note

_LOSSES = {"ideal": "ideal: model FLOP at peak", "recomputed": "computed again", "kernels": "kernels below peak"}


def time_part(facts: PlanFacts, figures: Figures) -> Part:
    """From the ideal to the predicted step."""
    costs, step = facts.costs, facts.costs["step_time"]
    return Part(
        "time",
        "Where the time goes",
        f"{percent(costs['mfu'])} of the step is the ideal, all model FLOP at the peak; each bar comes on top.",
        [time_figure(facts)],
        figures_as_table=PageTable(
            ("term", "time", "of the step"),
            [
                *(
                    (_LOSSES[loss.name], figures.other(f"{loss.name}_s", loss.seconds, seconds(loss.seconds)),
                     figures.share(f"{loss.name}_s", "step_time", loss.seconds / step))
                    for loss in facts.losses
                    if loss.name in _LOSSES
                ),
                *((TERM_WORDS[name], figures(name), figures.share(name, "step_time", costs[name] / step))
                  for name in TERM_WORDS if costs[name]),
            ],
            "lrr",
            "The ideal, what is lost to kernels, then every term of the step as costmodel estimate has them",
        ),
    )  # fmt: skip


def time_figure(facts: PlanFacts) -> Bars:
    """The way from the ideal to the step."""
    entries = [
        FigureEntry(
            _LOSSES.get(loss.name) or TERM_WORDS[loss.name], loss.seconds, _loss_role(loss.name), f"{loss.name}_s"
        )
        for loss in facts.losses
        if loss.seconds or loss.name == "ideal"
    ]
    total = FigureEntry("predicted step", facts.costs["step_time"], "total", "step_time_s")
    words = f"A step takes {seconds(total.value)}, of which {seconds(facts.losses[0].seconds)} is the ideal."
    return waterfall("time", "From the ideal to the predicted step", words, entries, total, seconds)


def _loss_role(name: str) -> str:
    return name if name in _LOSSES else term_role(name)


def memory_part(facts: PlanFacts, figures: Figures) -> Part:
    """The memory of each stage against what the accelerator has."""
    worst = max(facts.stages, key=lambda stage: stage.peak)
    rows = [
        (ledger_label(facts.answer, name), figures.other(f"{name}_bytes", value, show_memory(value)),
         ledger_note(facts.answer, name))
        for name, value in worst.lines.items()
        if value
    ]  # fmt: skip
    peak = ("peak", figures("memory_peak"), f"of {show_memory(float(facts.answer.inputs.usable))} usable")
    where = f"the {worst.stage} stage" if facts.pipelined else "the only stage"
    return Part(
        "memory",
        "Where the memory goes",
        f"The fullest accelerator is on {where}: {show_memory(worst.peak)}.",
        [memory_figure(facts)],
        figures_as_table=PageTable(("line", "bytes", "note"), [*rows, peak], "lrl", f"Memory of {where}, line by line"),
    )


def memory_figure(facts: PlanFacts) -> Bars:
    """Stages stacked by the lines of their ledger, and the capacity."""
    held = [name for name in facts.stages[0].lines if any(stage.lines[name] for stage in facts.stages)]
    rows = []
    for stage in facts.stages:
        at, pieces = 0.0, []
        for name in held:
            value = stage.lines[name]
            tip = f"{ledger_label(facts.answer, name)}: {show_memory(value)}"
            pieces.append(Piece(at, at + value, memory_role(name), tip, f"{stage.stage}.{name}_bytes", value))
            at += value
        rows.append(BarRow(f"{stage.stage} stage" if facts.pipelined else "each", pieces, f"{gib(stage.peak)} GiB"))
    usable = float(facts.answer.inputs.usable)
    roles: dict[str, list[str]] = {}
    for name in held:
        roles.setdefault(memory_role(name), []).append(ledger_label(facts.answer, name))
    return Bars(
        "memory",
        "Memory of a stage against the capacity",
        f"The fullest stage needs {show_memory(max(stage.peak for stage in facts.stages))} of {show_memory(usable)}.",
        rows,
        "memory, GiB",
        gib,
        (usable, f"usable {gib(usable)} GiB"),
        [(role, ", ".join(names)) for role, names in roles.items()],
        2.0**30,
    )
