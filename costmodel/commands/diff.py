"""diff: what changed from one answer to another."""

from __future__ import annotations

from typing import Annotated

import typer

from costmodel.commands import completion
from costmodel.commands.shared import SetOption, answering
from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.report.terminal.style.answer import Reply

BeforeArgument = Annotated[
    str,
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
def diff(
    before: BeforeArgument,
    after: AfterArgument = "",
    plans: PlansOption = "",
    assignments: SetOption = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Leave with 1 when anything differs")] = False,
) -> Reply:
    """What changed from A to B: in the inputs, then term by term in time, memory and communication.

    Examples:
      costmodel diff llama-3-70b-512 --set plan.recompute=full
      costmodel diff llama-3-70b-512 --plans 0,1
      costmodel estimate SCENARIO --json | costmodel diff - SCENARIO --set plan.zero=3

    --set applies to B. A stored result keeps the figures it had; everything else is predicted anew.

    Next: costmodel check SCENARIO --against BASELINE
    """
    from costmodel.explore.compare.compare import compare
    from costmodel.explore.compare.comparison_sides import side_of
    from costmodel.report.terminal.compare import compare as report

    if not (after or plans or assignments):
        raise fail("C013", "there is nothing to compare with", None, "name another scenario, or add --set or --plans")
    if before == "-" and after in ("", "-"):
        raise fail("C013", "standard input is read once", None, "put one of the two into a file")
    first, second = _ranks(plans)
    if (kind := _kind(before)) != "training":
        from costmodel.commands import rl, serving
        from costmodel.documents.reader.resolved_scenario import load_any

        sides = load_any(before), load_any(after or before, assignments or ())
        stated, refused = f"{before} → {after or 'changed'}", [("--plans", bool(plans))]
        if kind == "rl":
            return rl.diff(*sides, stated, exit_code=exit_code, refused=refused)
        serving.without("diff", refused)
        return serving.diff(*sides, stated, exit_code=exit_code)
    found = compare(side_of(before, first), side_of(after or before, second, tuple(assignments or ())))
    title = f"{before}{_told(first)} → {after or ('changed' if assignments else before)}{_told(second)}"
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
