"""What moves between trainer and engines: weights one way, answers the other; then what each sends within."""

from __future__ import annotations

from rich.text import Text

from costmodel.estimate.machine.process_groups import Transfer
from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.estimate.rl.weight_sync import WeightTransfer
from costmodel.estimate.serving.replica_traffic import transfers
from costmodel.estimate.shared.results import number
from costmodel.explore.communication import is_sent
from costmodel.ground.units import show, show_time
from costmodel.report.terminal.rl.rl_formatting import following, problems, titled
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.theme import HEAD, styled


def within(answer: RlAnswer) -> list[tuple[str, Transfer]]:
    """Transfers of an optimizer step, and of a step of an engine."""
    found = [("update", item) for item in answer.inputs.trainer.evaluation.step.transfers if is_sent(item)]
    engines = answer.inputs.engines
    if engines is not None:
        sent = transfers(engines.inputs, engines.layout, engines.together)
        found += [(f"engine {item.moment}", item.transfer) for item in sent]
    return found


def communication(answer: RlAnswer) -> list[Line]:
    """Who sends what in an iteration."""
    case, sync = answer.inputs.case, answer.iteration.sync
    if answer.refused:
        return [*titled(case, answer), *problems(answer)]
    rows = [
        (
            moment,
            item.group.name,
            f"{number(item.group.ranks):.0f}",
            item.operation.replace("_", "-"),
            show(number(item.message), "B"),
            f"{number(item.count):,.0f}",
            show_time(number(item.time)),
        )
        for moment, item in within(answer)
    ]
    return [
        *titled(case, answer),
        *([] if sync is None else _once(sync)),
        styled("Each optimizer step, and each step of an engine", HEAD),
        CellTable(("of", "group", "ranks", "op", "size", "count", "time"), rows, "llrlrrr")
        if rows
        else styled("  nothing: one accelerator in every group"),
        *problems(answer),
        Text(),
        following(case, "estimate"),
    ]


def _once(sync: WeightTransfer) -> list[Line]:
    """Weights to the engines, and answers back."""
    rate, nbytes = show(number(sync.rate), "B/s"), show(number(sync.nbytes), "B")
    bound = f"{sync.layout} weights, bound by {sync.link}"
    rows = [
        ("weights to the engines", nbytes, rate, show_time(number(sync.time)), bound),
        ("answers to the trainer", show(float(sync.experience), "B"), "", "", "8 B a token"),
    ]
    return [styled("Once an iteration", HEAD), CellTable([""] * 5, rows, "lrrrl", headed=False)]
