"""The scenarios of the runs of a measured table."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.documents.keys.overrides import listed
from costmodel.documents.reader.library import DocumentReader, FoundDocument
from costmodel.documents.reader.load_scenario import any_from
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.measurement import MeasuredTable, Results, Run
from costmodel.documents.text.yaml_tree import copied
from costmodel.ground.errors import CostModelError, Fault, Place, fail

# Results of a workload; the others are of training.
WORKLOADS = {"output_tokens_per_s": "serving", "cache_pool_tokens": "serving", "iteration_time": "rl"}


def serves(table: MeasuredTable) -> bool:
    """Whether a table was measured with engines that serve."""
    served = [name for name, workload in WORKLOADS.items() if workload == "serving"]
    return any(getattr(run.measured, name) is not None for run in table.runs for name in served)


def cases(measured: MeasuredTable) -> list[tuple[Run, LoadedScenario]]:
    """Every run of a measured table with its scenario; raises the faults of all runs at once.

    Documents that several runs name are read once.
    """
    cases_of_runs: list[tuple[Run, LoadedScenario]] = []
    faults: list[Fault] = []
    read: dict[tuple[str, str, str], FoundDocument] = {}
    for run in measured.runs:
        changes = {change.path: change for change in (*listed(measured.set), *listed(run.set))}
        inward = sorted(changes.values(), key=lambda change: change.path.count("."))
        try:
            case = any_from(DocumentReader(read=read), copied(measured.scenario), measured.name, inward)
            _check(run, case)
            cases_of_runs.append((run, case))
        except CostModelError as error:
            faults += error.faults
    if faults:
        raise CostModelError(*dict.fromkeys(faults))
    return cases_of_runs


def _check(run: Run, case: LoadedScenario) -> None:
    """A fault for a measured result that the workload does not have."""
    strange = [name for name, value in run.measured if value is not None and case.kind != _workload_with(name)]
    if strange:
        sentence = (
            f"{run.name} states {', '.join(strange)}, of {_workload_with(strange[0])}, and its workload is {case.kind}"
        )
        hint = "; ".join(f"{kind} has {', '.join(names)}" for kind, names in _results_by_workload())
        raise fail("D016", sentence, case.place("workload.kind") or Place(case.file), hint)


def _workload_with(name: str) -> str:
    return WORKLOADS.get(name, "training")


def _results_by_workload() -> Iterator[tuple[str, list[str]]]:
    """Each workload with the results that runs in measured tables may have."""
    names = list(Results.model_fields)
    for kind in ("training", "serving", "rl"):
        yield kind, [name for name in names if _workload_with(name) == kind]
