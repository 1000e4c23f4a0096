"""Two scenarios of any workload, or plans of their searches, as sides of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from costmodel.documents.reader.resolved_scenario import LoadedScenario, training
from costmodel.explore.compare.compare import Side, is_stored
from costmodel.ground.errors import fail


def side_of(name: str, case: LoadedScenario, rank: int | None, *, changed: bool) -> Side:
    """A scenario, or a stored result of which nothing is changed, as a side; of a search, the plan of a rank.

    rank: counted from 1; 0 is the scenario's own plan
    """
    found = _SIDES[case.kind](name, case, rank, changed)
    is_own = rank is None and case.scenario.plan is not None and (changed or not is_stored(case))
    return replace(found, case=case) if is_own else found


def fail_if_unlike(cases: Iterable[LoadedScenario]) -> None:
    """A fault for scenarios of several workloads: the steps of one are not those of another."""
    kinds = dict.fromkeys(case.kind for case in cases)
    if len(kinds) > 1:
        sentence = f"{' and '.join(kinds)} have no results in common"
        raise fail("C013", sentence, None, "compare two scenarios of one workload")


def _training(name: str, case: LoadedScenario, rank: int | None, changed: bool) -> Side:
    from costmodel.explore.compare.comparison_sides import training_side

    return training_side(name, training(case), rank, changed=changed)


def _serving(name: str, case: LoadedScenario, rank: int | None, changed: bool) -> Side:
    from costmodel.documents.reader.serving_scenario import serving
    from costmodel.explore.serving import compare_serving

    return compare_serving.side(name, serving(case if rank is None else compare_serving.ranked(case, rank)))


def _rl(name: str, case: LoadedScenario, rank: int | None, changed: bool) -> Side:
    from costmodel.documents.reader.rl_scenario import reinforced
    from costmodel.explore.rl import compare_rl

    held = reinforced(case)
    return compare_rl.side(name, held, compare_rl.ranked(held, rank))


_SIDES: dict[str, Callable[[str, LoadedScenario, int | None, bool], Side]] = {
    "training": _training,
    "serving": _serving,
    "rl": _rl,
}
