"""What an iteration sends between trainer and engines and within each, and what an accelerator holds in both phases."""

from __future__ import annotations

from typing import Any

from costmodel.estimate.machine.process_groups import Transfer
from costmodel.estimate.rl.iteration import WeightTransfer
from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.estimate.serving.replica_capacity import transfers
from costmodel.estimate.shared.results import number
from costmodel.explore.communication import is_sent
from costmodel.ground.units import show, show_time
from costmodel.report.answers.memory import room_words
from costmodel.report.answers.plan_parts import LedgerLine, LedgerSum, MemoryLedger, PlanTraffic, SentMessage
from costmodel.report.document import Cell, Column, Section, Table, traced
from costmodel.report.terminal.layout import BAD, GOOD, HEAD, WARN, Abridged, Line, styled
from costmodel.report.terminal.rl_estimate import fit_words


def within(answer: RlAnswer) -> list[tuple[str, Transfer]]:
    """Transfers of an optimizer step, and of a step of an engine."""
    found = [("update", item) for item in answer.inputs.trainer.evaluation.step.transfers if is_sent(item)]
    engines = answer.inputs.engines
    if engines is not None:
        sent = transfers(engines.inputs, engines.layout, engines.together)
        found += [(f"engine {item.moment}", item.transfer) for item in sent]
    return found


def rl_traffic(answer: RlAnswer) -> PlanTraffic:
    """The communication of an iteration: weights and answers, optimizer steps, and engine steps."""
    case, sync = answer.inputs.case, answer.iteration.sync
    sent = [
        SentMessage(of, item, case.scale_up.name if number(item.group.domains) == 1 else case.scale_out.name)
        for of, item in within(answer)
    ]
    where, whole = "Each optimizer step, and each step of an engine", answer.costs["iteration_time"]
    of_iteration = ("iteration_time", whole, "of the iteration")
    once = [] if sync is None else [_once_an_iteration(sync)]
    return PlanTraffic(where, sent, [], of_iteration, once, plain={} if sync is None else _sync_json(sync))


def _once_an_iteration(sync: WeightTransfer) -> Section:
    """Table of what moves once an iteration: weights to the engines, answers to the trainer."""
    rate, nbytes = show(number(sync.rate), "B/s"), show(number(sync.nbytes), "B")
    bound = f"{sync.layout} weights, bound by {sync.link}"
    time = number(sync.time)
    rows: list[list[Cell]] = [
        ["weights to the engines", nbytes, rate, traced(show_time(time), time, "weight_sync_s", "weight_sync"), bound],
        ["answers to the trainer", show(float(sync.experience), "B"), "", "", "8 B a token"],
    ]
    columns = [Column("what", "k"), Column("size"), Column("rate"), Column("time"), Column("", "l")]
    lead = "What moves between trainer and engines."
    ahead = [styled("Once an iteration", HEAD)]
    return Section("sync", "Once an iteration", lead, ahead=ahead, table=Table(columns, rows, headed=False))


def _sync_json(sync: WeightTransfer) -> dict[str, Any]:
    """Weight and answer transfers between trainer and engines, as plain values."""
    return {
        "weight_sync": {
            "bytes": number(sync.nbytes),
            "rate_bytes_per_s": number(sync.rate),
            "time_s": number(sync.time),
            "layout": sync.layout,
            "bound_by": sync.link,
            "experience_bytes": float(sync.experience),
        }
    }


_ROLES = {
    "policy weights": "weights",
    "policy gradients": "gradients",
    "policy optimizer": "optimizer",
    "activations and buffers": "activations",
    "critic states": "bad",
    "engine weights": "weights",
    "engine step": "activations",
    "cache": "ideal",
    "training runtime": "runtime",
    "engine runtime": "runtime",
}


def rl_ledger(answer: RlAnswer) -> MemoryLedger:
    """The memory of every part while generating answers and while updating the policy."""
    found, stated = answer.memory, fit_words(answer.costs)
    where = "One GPU, which does both in turns" if found.colocated else "A GPU that generates, and one that trains"
    words = f"  {room_words(found.peak, found.usable)}   {stated}"
    return MemoryLedger(
        where,
        ["generating", "updating"],
        [
            LedgerLine(
                part.name.replace(" ", "_"),
                [part.generating, part.updating],
                "",
                _ROLES.get(part.name, "buffers"),
                part.name,
            )
            for part in found.parts
        ],
        [LedgerSum("in all", len(found.parts), total="memory_peak")],
        found.usable,
        "usable",
        styled(words, {"fits": GOOD, "does not fit": BAD}.get(stated, WARN)),
        [] if answer.inputs.engines is None or not found.colocated else _notes(answer),
        fits=stated != "does not fit",
    )


def _notes(answer: RlAnswer) -> list[Line]:
    """Lines on the memory that engines and trainer free for each other."""
    sharing = answer.inputs.case.stack.sharing
    engine = "free" if sharing.sleeps else "keep"
    states = "go to the host" if answer.inputs.offload else "stay in memory"
    words = f"engines {engine} weights and cache during updates", f"training states {states} while generating"
    return [Abridged(f"  {each}", short="", added="what each phase frees") for each in words]
