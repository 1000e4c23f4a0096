"""Memory of all parts in one accelerator's ledger on the terminal."""

from __future__ import annotations

from rich.text import Text

from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.ground.units import gib
from costmodel.report.terminal.rl.rl_formatting import following, problems, titled
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.remark_lines import assumed_lines
from costmodel.report.terminal.style.theme import BAD, GOOD, HEAD, styled


def memory(answer: RlAnswer, *, verbose: bool = False) -> list[Line]:
    """Every part while answers are generated, and while the policy is updated."""
    case, found = answer.inputs.case, answer.memory
    if answer.refused:
        return [*titled(case, answer), *problems(answer)]
    where = "One GPU, which does both in turns" if found.colocated else "A GPU that generates, and one that trains"
    rows = [(part.name, _size(part.generating), _size(part.updating)) for part in found.parts]
    rows = [row for row in rows if row[1:] != ("", "")]
    total = ("in all", gib(found.generating), gib(found.updating))
    fits = "M001" not in answer.broken
    verdict = f"{'fits' if fits else 'does not fit'}: {gib(found.peak)} of {gib(found.usable)} GiB"
    return [
        *titled(case, answer),
        styled(where, HEAD),
        Text(),
        CellTable(("GiB", "generating", "updating"), [*rows, ("─" * 10, "─" * 5, "─" * 5), total], "lrr"),
        styled(f"  {verdict}", GOOD if fits else BAD),
        *([] if answer.inputs.engines is None or not found.colocated else _notes(answer)),
        *problems(answer),
        *([Text(), *assumed_lines(answer.assumed, verbose=True)] if verbose else []),
        Text(),
        following(case, "estimate"),
    ]


def _size(nbytes: float) -> str:
    return gib(nbytes) if nbytes else ""


def _notes(answer: RlAnswer) -> list[Line]:
    """Who makes room for whom."""
    sharing = answer.inputs.case.stack.sharing
    engine = "give back" if sharing.sleeps else "keep"
    states = "go to the host" if answer.inputs.offload else "stay"
    return [
        styled(f"  engines {engine} weights and cache while training"),
        styled(f"  states of training {states} while generating"),
    ]
