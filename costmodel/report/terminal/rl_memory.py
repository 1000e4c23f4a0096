"""The memory of an RL iteration in a terminal: while generating answers, and while updating the policy."""

from __future__ import annotations

from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.report.answers.memory import room_words
from costmodel.report.answers.plan_parts import LedgerLine, LedgerSum, MemoryLedger
from costmodel.report.terminal.layout import BAD, GOOD, WARN, Abridged, Line, styled
from costmodel.report.terminal.rl_estimate import fit_verdict

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
    found, stated = answer.memory, fit_verdict(answer.costs)
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
        [] if answer.inputs.engines is None or not found.colocated else _freed_memory_notes(answer),
        fits=stated != "does not fit",
    )


def _freed_memory_notes(answer: RlAnswer) -> list[Line]:
    """Lines on the memory that engines and trainer free for each other."""
    sharing = answer.inputs.case.stack.sharing
    engine = "free" if sharing.sleeps else "keep"
    states = "go to the host" if answer.inputs.offload else "stay in memory"
    words = f"engines {engine} weights and cache during updates", f"training states {states} while generating"
    return [Abridged(f"  {each}", short="", added="what each phase frees") for each in words]
