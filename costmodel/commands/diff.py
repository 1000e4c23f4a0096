"""diff: what changed from one answer to another."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Annotated

import typer

from costmodel.commands import completion
from costmodel.commands.shared import answering
from costmodel.commands.short_form import Question, asking
from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.report.terminal.style.answer import Reply

BeforeArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="A",
        help="A scenario, or a result written with --json; '-' for stdin",
        show_default=False,
        autocompletion=completion.scenarios,
    ),
]
AfterArgument = Annotated[
    str,
    typer.Argument(
        metavar="[B]",
        help="The other; A once more if left out, with --set or --plans",
        show_default=False,
        autocompletion=completion.scenarios,
    ),
]
PlansOption = Annotated[
    str,
    typer.Option(
        "--plans",
        metavar="I,J",
        help="Ranks in the search of A and of B, or in a result; 0 is the scenario's own plan",
        show_default=False,
    ),
]


@answering
@functools.partial(asking, argument=BeforeArgument)
def diff(
    question: Question,
    after: AfterArgument = "",
    plans: PlansOption = "",
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Leave with 1 when anything differs")] = False,
) -> Reply:
    """What changed from A to B: in the inputs, then term by term in time, memory and communication.

    Examples:
      costmodel diff llama-3-70b-512 --set plan.recompute=full
      costmodel diff llama-3-70b-512 --plans 0,1
      costmodel diff llama-3-70b-512 --gpu h200
      costmodel estimate SCENARIO --json | costmodel diff - SCENARIO --set plan.zero=3

    --set and flags apply to B. A stored result keeps the figures it had; everything else is predicted anew.

    Next: costmodel check SCENARIO --against BASELINE
    """
    from costmodel.documents.reader.resolved_scenario import load, load_any
    from costmodel.explore.compare.compare import compare
    from costmodel.explore.compare.comparison_sides import side_of
    from costmodel.report.terminal.compare import compare as report

    before, changed = question.scenario, not question.is_plain
    if before is None:
        hint = "write A first: costmodel estimate FLAGS --write a.yaml; then costmodel diff a.yaml --stack sglang"
        raise fail("C013", "A is missing: flags apply to B", None, hint)
    if not (after or plans or changed):
        hint = "name another scenario, or add flags, --set or --plans"
        raise fail("C013", "there is nothing to compare with", None, hint)
    if before == "-" and after in ("", "-"):
        raise fail("C013", "standard input is read once", None, "put one of the two into a file")
    first, second = _ranks(plans)
    other = replace(question, scenario=after or before)
    if (kind := _kind(before)) != "training":
        from costmodel.commands import rl, serving

        sides = load_any(before), other.loaded()
        stated, refused = f"{before} → {after or 'changed'}", [("--plans", bool(plans))]
        if kind == "rl":
            return rl.diff(*sides, stated, exit_code=exit_code, refused=refused)
        serving.without("diff", refused)
        return serving.diff(*sides, stated, exit_code=exit_code)
    one = side_of(before, load(before), first, changed=False)
    found = compare(one, side_of(after or before, other.case(), second, changed=changed))
    title = f"{before}{_told(first)} → {after or ('changed' if changed else before)}{_told(second)}"
    return Reply(
        lambda: report.diff(found, title), lambda: report.diff_json(found), "figures", yes=found.same or not exit_code
    )


def _kind(name: str) -> str:
    """The workload of a scenario that can be used; the comparison itself reports what cannot be read."""
    from costmodel.documents.reader.resolved_scenario import load_any

    try:
        return "training" if name == "-" else load_any(name).kind
    except CostModelError:
        return "training"


def _told(rank: int | None) -> str:
    return "" if rank is None else " own plan" if rank == 0 else f" plan {rank}"


def _ranks(text: str) -> tuple[int | None, int | None]:
    if not text:
        return None, None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and int(part) <= 1000 for part in parts):
        place = Place("command line", 0, 9, "", f"--plans {text}", max(1, len(text)))
        raise fail("C013", f"'{text}' is not two ranks up to 1000", place, "for example --plans 1,2")
    return int(parts[0]), int(parts[1])
