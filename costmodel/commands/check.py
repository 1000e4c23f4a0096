"""check: whether scenarios keep their limits and match a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.commands import completion, pages
from costmodel.commands.output import write_file
from costmodel.commands.shared import PAGE, SetOption, answering_in
from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.report.terminal.style.answer import Reply

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario
    from costmodel.documents.schemas.baseline import Baseline
    from costmodel.explore.compare.check import BaselineFile

ScenariosArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="SCENARIO…",
        help="Scenarios: shipped names or paths; '-' for stdin",
        show_default=False,
        autocompletion=completion.scenarios,
    ),
]
_WITHIN = "1 %"
_OF_BASELINE = ("--against", "--update", "--exact", "--within")
AgainstOption = Annotated[
    Path | None, typer.Option("--against", metavar="FILE", help="Baseline to compare with", show_default=False)
]


@answering_in("github", "junit", *PAGE)
def check(
    scenarios: ScenariosArgument,
    against: AgainstOption = None,
    update: Annotated[bool, typer.Option("--update", help="Write today's figures into the baseline")] = False,
    within: Annotated[
        str, typer.Option("--within", metavar="SHARE", help="By how much a watched result may get worse")
    ] = _WITHIN,
    exact: Annotated[bool, typer.Option("--exact", help="No figure may move at all, for better or worse")] = False,
    assignments: SetOption = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also show the limits that are met")] = False,
) -> Reply:
    """For CI: check that scenarios meet their limits and are no worse than a baseline.

    Examples:
      costmodel check llama-3-70b-512 quickstart
      costmodel check SCENARIO --against baseline.json --update
      costmodel check SCENARIO --against baseline.json --format github

    A scenario states its limits on any result: at_most, at_least, target and within. Step time, memory and cost may not
    be worse than the baseline by more than --within, other results not by more than within of their limit. If a
    scenario has no plan, the best plan of its search is checked.

    Exit code 1 when a check fails, 2 when a scenario or the baseline cannot be read.

    Next: costmodel diff A B
    """
    from costmodel.explore.compare.check import BaselineFile, BaselinePolicy, renewed
    from costmodel.explore.compare.check import check as run
    from costmodel.report.terminal.compare import check as report

    kinds = {_kind(name) for name in scenarios} - {"training"}
    given = (against is not None, update, exact, within != _WITHIN)
    if "rl" in kinds or (kinds and against is None and any(given)):
        return _of_limits(scenarios, assignments or (), kinds, verbose=verbose, given=given)
    baseline = _baseline(against, update=update)
    holding = BaselinePolicy(None if update else baseline, _share(within), exact)
    if kinds:
        held_to = BaselineFile(holding, baseline, against if update else None)
        return _of_serving(scenarios, assignments or (), held_to, verbose=verbose)
    found = run(scenarios, holding, tuple(assignments or ()))
    if update and against is not None:
        write_file(against, report.baseline_text(renewed(found, baseline)))
    return Reply(
        lambda: report.check(found, verbose=verbose, wrote=str(against) if update else ""),
        lambda: report.check_json(found),
        "scenarios",
        yes=all(checked.kept for checked in found),
        others={
            "github": lambda: report.github(found),
            "junit": lambda: report.junit(found),
            "markdown": lambda: report.markdown(found),
            **pages.of_check(found),
        },
    )


def _of_limits(
    scenarios: Sequence[str],
    assignments: Sequence[str],
    kinds: set[str],
    *,
    verbose: bool,
    given: Sequence[bool],
) -> Reply:
    """Scenarios of reinforcement learning, held to their limits; of serving, options that need a baseline."""
    from costmodel.commands import rl
    from costmodel.documents.reader.resolved_scenario import load_any

    if "rl" in kinds:
        cases, refused = [load_any(name, assignments) for name in scenarios], zip(_OF_BASELINE, given, strict=True)
        return rl.check(cases, verbose=verbose, refused=list(refused))
    names = ", ".join(name for name, value in zip(_OF_BASELINE, given, strict=True) if value)
    raise fail("C008", f"{names} is about a baseline, and none is named", None, "name it: --against baseline.json")


def _of_serving(scenarios: Sequence[str], assignments: Sequence[str], held_to: BaselineFile, *, verbose: bool) -> Reply:
    """Scenarios that serve, by what a baseline calls them."""
    from costmodel.commands import serving
    from costmodel.documents.reader.resolved_scenario import load_any
    from costmodel.explore.compare.check import key_of

    found: dict[str, LoadedScenario] = {}
    for scenario in scenarios:
        case = load_any(scenario, assignments)
        key = key_of(scenario, case)
        if key in found:
            raise fail("C008", f"two scenarios are called '{key}' in a baseline", Place(scenario), "check one alone")
        found[key] = case
    return serving.check(found, held_to, verbose=verbose)


def _kind(name: str) -> str:
    """The kind of a scenario; the check of training reports what cannot be read."""
    from costmodel.documents.reader.resolved_scenario import load_any

    try:
        return "training" if name == "-" else load_any(name).kind
    except CostModelError:
        return "training"


def _baseline(path: Path | None, *, update: bool) -> Baseline | None:
    """The baseline to compare with; one that is still to be written may be missing."""
    from costmodel.documents.schemas.baseline import read_baseline

    if path is None:
        if update:
            raise fail("C008", "--update needs a file to write", None, "name it: --against baseline.json")
        return None
    if not path.exists():
        if update:
            return None
        place = Place(str(path))
        raise fail("C008", f"there is no baseline {path}", place, f"--against {path} --update writes it")
    return read_baseline(str(path))


def _share(text: str) -> float:
    from costmodel.ground.parsing import UnitError, parse

    try:
        share = parse(text, "1")
    except UnitError:
        share = -1.0
    if not 0 <= share <= 1:
        place = Place("command line", 0, 10, "", f"--within {text}", max(1, len(text)))
        raise fail("C008", f"'{text}' is not a share", place, "for example --within '2 %'")
    return share
