"""Fits constants on measured runs: from tables to the documents with the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.folders import is_near
from costmodel.documents.reader.library import UNMEASURED
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.prior import Prior
from costmodel.documents.text.yaml_editor import Changes, document_text, place_of, rewritten
from costmodel.evidence.calibrate.default_efficiency import changed, part_with, registered
from costmodel.evidence.calibrate.fit_from_runs import Posterior, StepFit, step_fit
from costmodel.evidence.calibrate.priors import before, own, own_source, priors_for
from costmodel.evidence.calibrate.regression_problem import APART, FAMILY, timed
from costmodel.evidence.calibrate.write_back import SLACK, WORST_MEDIAN
from costmodel.evidence.validate.compared_figures import Where, chosen_rows, meant, nothing_chosen
from costmodel.evidence.validate.skip_reasons import SkippedRow
from costmodel.exchange.tables.kernel_table import read_runs, stem
from costmodel.exchange.tables.run_table import Table
from costmodel.ground.errors import Place, fail
from costmodel.ground.record import record
from costmodel.ground.units import significant

SECONDS = "operation"  # the leaf that is a time


@record
class Refined:
    """A fit on the runs of some tables: its runs, the skipped ones, and the groups held out in turn."""

    tables: tuple[Table, ...]
    runs: int
    left: tuple[SkippedRow, ...]
    grouping: str
    afresh: bool
    fit: StepFit

    @property
    def rows(self) -> int:
        """Requested runs, modelled or not."""
        return self.runs + len(self.left)

    @property
    def why(self) -> str:
        """The reason why the fit is not written; empty where it is."""
        found, now = self.fit.inside.median, self.fit.shipped.median
        if found > WORST_MEDIAN:
            return f"half of the runs still have an error over {WORST_MEDIAN:.0%}; are times in seconds?"
        return "half of the runs are further off than now, by more than as much again" if found > SLACK * now else ""


def refine(
    tables: Sequence[str | Table], *, where: Where | None = None, leave_out: str | None = None, afresh: bool = False
) -> Refined:
    """Constants from tables of runs: a full fit, or a refinement by your own few runs near the shipped values."""
    asked = [read_runs(each) if isinstance(each, str) else each for each in tables]
    shelf, where = CachedReader(), meant(where or {}, asked)
    rows = [row for table in asked for row in chosen_rows(table, where, shelf)]
    if where and not rows:
        raise nothing_chosen(where, asked, shelf)
    grouping = leave_out or FAMILY
    runs, left = timed(rows, shelf, grouping)
    if not runs:
        first = "; the tables have no rows" if not left else f"; {left[0].run}: {left[0].why}"
        names = [table.file for table in asked]
        first = first if all(map(is_near, names)) else ""  # it repeats words of the table
        hint = f"costmodel validate {' '.join(names)} --by reason shows the reason for each row"
        raise fail("C005", f"none of {len(rows)} runs is modelled{first}", Place("command line"), hint)
    if not afresh:
        runs = [replace(run, case=_with_its_own(run.case, shelf)) for run in runs]
    asked_of = [run.case for run in runs]
    priors = priors_for(asked_of, shelf) if afresh else own(asked_of, shelf)
    fit = step_fit(runs, priors, shelf, leave_out=leave_out is not None, apart=APART if afresh else 0.0)
    return Refined(tuple(asked), len(runs), tuple(left), grouping, afresh, fit)


def _with_its_own(case: ResolvedScenario, shelf: CachedReader) -> ResolvedScenario:
    """The scenario with default efficiency documents for an accelerator or network without one."""
    if case.efficiency.of == UNMEASURED:
        case = replace(case, efficiency=registered("accelerator", case.accelerator.name, shelf))
    if case.network.of == UNMEASURED:
        case = replace(case, network=registered("fabric", case.scale_out.name, shelf))
    return case


def texts(found: Refined) -> dict[Path, str]:
    """The documents of the working folder with the fitted values; comments and order stay."""
    if found.why:
        return {}
    where = ", ".join(f"{stem(table.file)} {table.digest}" for table in found.tables) + f", {found.runs} runs"
    source = own_source(where)
    shown: dict[tuple[str, str, str], list[Posterior]] = {}
    for part in found.fit.constants:
        for document in part.prior.documents if part.resolved else ():
            shown.setdefault((part.prior.kind, document, part.prior.group), []).append(part)
    changes: dict[tuple[str, str], dict[tuple[str, ...], Mapping[str, Any]]] = {}
    for (kind, document, group), parts in shown.items():
        leaves = {part.prior.key: _written(part) for part in parts}
        note = f"{' and '.join(leaves)} fitted on runs; all else is of {_source_before(parts[0].prior, document)}"
        entry = {**leaves, "source": source, "check": None, "note": note}
        changes.setdefault((kind, document), {})[group,] = entry
    cited = {"title": "Fit of costmodel calibrate on measured runs", "where": where}
    return {
        place_of(kind, name): _text(kind, name, {**mine, ("sources", source): cited})
        for (kind, name), mine in changes.items()
    }


def _text(kind: str, name: str, changes: Changes) -> str:
    """A document with these changes."""
    if kind == "stack":
        return rewritten(document_text(kind, name), changes)
    return changed(part_with("network" if ("network",) in changes else "sustained"), name, changes)


def _source_before(prior: Prior, document: str) -> str:
    return str(getattr(before(prior.leaf, document, CachedReader()), prior.group).source)


def _written(part: Posterior) -> Any:
    value = unit_value(part.prior, part.value)
    return value if part.prior.key == SECONDS else float(value)


def unit_value(prior: Prior, value: float) -> str:
    """A value in the form of documents."""
    return f"{significant(value * 1e6)} us" if prior.key == SECONDS else f"{value:.3g}"
