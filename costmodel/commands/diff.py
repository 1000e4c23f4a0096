"""diff: what changed from one answer to another."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.commands import completion
from costmodel.commands.answer_options import PAGE, answering_in, optional, optional_argument
from costmodel.commands.replies import document_reply
from costmodel.commands.scenario_options import Question, question_command, with_best_plan, with_plan
from costmodel.ground.errors import Place, fail
from costmodel.report.terminal.layout import Reply

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario
    from costmodel.explore.compare.compare import Side

Ranks = tuple[int | None, int | None]

BeforeArgument = Annotated[
    str | None,
    optional_argument(
        metavar="A",
        help="A scenario, or a result written with --json; '-' for stdin; or only flags",
        autocompletion=completion.scenarios,
    ),
]
AfterArgument = Annotated[
    str,
    optional_argument(
        metavar="[B]",
        help="The other scenario or result; default: A, changed by --set or --plans",
        autocompletion=completion.scenarios,
    ),
]
PlansOption = Annotated[
    str,
    optional(
        "--plans", metavar="I,J", help="Ranks in the search of A and of B, or in a result; 0 is the scenario's own plan"
    ),
]


@answering_in(*PAGE)
@functools.partial(question_command, argument=BeforeArgument)
def diff(
    question: Question,
    after: AfterArgument = "",
    plans: PlansOption = "",
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with code 1 if anything differs")] = False,
) -> Reply:
    """What changed from A to B: in the inputs, then term by term in time, memory and communication.

    Examples:
      costmodel diff llama-3-70b-512 --set plan.recompute=full
      costmodel diff llama-3-70b-512 --plans 0,1
      costmodel diff llama-3-70b-512 --gpu h200
      costmodel diff --model llama-3.1-8b --gpu h100 --gpus 64 --set cluster.node=dgx-h200
      costmodel estimate SCENARIO --json | costmodel diff - SCENARIO --set plan.zero=3

    Of a scenario, --set and flags apply to B. Without one, all flags, --dtype too, describe A and B alike, and --set
    changes B alone; each takes the best plan of its search, with the keys of the plan that are set. A stored
    result keeps the figures it had; everything else is predicted anew.

    Next: costmodel check SCENARIO --against BASELINE
    """
    from costmodel.documents.reader.load_scenario import load_any
    from costmodel.explore.search.required_chance import preferring

    ranks, stated = parsed_ranks(plans), bool(plans)
    before, changed = question.scenario, not question.is_plain
    if before is None:
        return _compare_flags_with_changes(question, ranks, stated=stated, exit_code=exit_code)
    if not (after or plans or changed):
        hint = "name another scenario, or add flags, --set or --plans"
        raise fail("C013", "there is nothing to compare with", None, hint)
    if before == "-" and after in ("", "-"):
        raise fail("C013", "standard input is read once", None, "put one of the two into a file")
    other = replace(question, scenario=after or before).loaded()
    sides = (before, preferring(load_any(before), other.asked.safe)), (after or before, other)
    first, second = map(_rank_text, ranks)
    title = f"{before}{first} → {after or ('changed' if changed else before)}{second}"
    return comparison_reply(sides, title, ranks if stated else None, changed=changed, exit_code=exit_code)


def _compare_flags_with_changes(question: Question, ranks: Ranks, *, stated: bool, exit_code: bool) -> Reply:
    """Compares the scenario of flags with the same one after --set, or two ranked plans of its search."""
    if not question.is_flags:
        raise fail("C013", "A is missing", None, "name a scenario, or describe one: --model NAME --gpu NAME")
    if not (question.assignments or stated):
        hint = "the flags describe A; add what changes B, for example --set cluster.node=dgx-h200"
        raise fail("C013", "there is nothing to compare with", None, hint)
    unplanned = (half.loaded(planned=False) for half in question.of_change())
    before, after = (case if stated else with_best_plan(case) for case in unplanned)
    change = " ".join(f"--set {shlex.quote(item)}" for item in question.assignments)
    names = shlex.join(before.asked.words), f"with {change}" if change else "the same"
    of_which = ("A and B", "B") if change else ("A", "B")
    whole = zip(names, ranks, of_which, strict=True)
    title = " → ".join(f"{name}{_rank_text(rank)} ({which})" for name, rank, which in whole)
    sides = (names[0], before), (names[1], after)
    return comparison_reply(sides, title, ranks if stated else None, changed=True, exit_code=exit_code)


def comparison_reply(
    sides: Sequence[tuple[str, LoadedScenario]], title: str, ranks: Ranks | None, *, changed: bool, exit_code: bool
) -> Reply:
    """The comparison of two scenarios; with ranks, of the plans at these ranks of their searches."""
    from costmodel.commands.by_workload import check_one_workload
    from costmodel.explore.compare.compare import compare
    from costmodel.report.answers import diff as report

    (one, before), (other, after) = ((name, case if ranks else with_plan(case)) for name, case in sides)
    check_one_workload(before, after)
    first, second = ranks or (None, None)
    changes = compare(
        _side_of_case(one, before, first, changed=False), _side_of_case(other, after, second, changed=changed)
    )
    return document_reply(
        lambda: report.diff_document(changes, title),
        lambda: report.diff_json(changes),
        "figures",
        yes=changes.same or not exit_code,
        found=changes,
    )


def _side_of_case(name: str, case: LoadedScenario, rank: int | None, *, changed: bool) -> Side:
    """One side of a comparison: a scenario, an unchanged stored result, or the plan at a rank of its search."""
    from costmodel.explore.compare.compare import is_stored
    from costmodel.explore.workloads import workload_of

    side = workload_of(case).side(name, rank, changed=changed)
    is_own = rank is None and case.scenario.plan is not None and (changed or not is_stored(case))
    return replace(side, case=case) if is_own else side


def _rank_text(rank: int | None) -> str:
    return "" if rank is None else " own plan" if rank == 0 else f" plan {rank}"


def parsed_ranks(text: str) -> Ranks:
    """The two ranks that --plans states."""
    if not text:
        return None, None
    parts = [part.strip() for part in str(text).split(",")]  # of JSON anything
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and int(part) <= 1000 for part in parts):
        place = Place("command line", 0, 9, "", f"--plans {text}", max(1, len(text)))
        raise fail("C013", f"'{text}' is not two ranks up to 1000", place, "for example --plans 1,2")
    return int(parts[0]), int(parts[1])
