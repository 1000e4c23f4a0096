"""Validates predictions against measured runs, and compares two versions by the terms that moved."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.reader.library import CachedReader, names, read
from costmodel.documents.reader.measured_cases import cases, serves
from costmodel.documents.reader.resolved_scenario import LoadedScenario, ResolvedScenario
from costmodel.documents.reader.rl_scenario import RlCase
from costmodel.documents.schemas.measurement import MeasuredTable
from costmodel.equations.run.uncertainty import slowed_step
from costmodel.estimate.answer_facts import subject_of
from costmodel.estimate.model.mixers.mixing_half import layer_names_text
from costmodel.estimate.training_answer.predict_training import Answer, predict
from costmodel.evidence.validate.imputation import RULES
from costmodel.evidence.validate.modelled_rows import Modelled, RowCount, modelled_rows, uncounted
from costmodel.evidence.validate.outcomes import (
    GROUPINGS,
    TOTALS,
    Compared,
    Quantity,
    RowOutcome,
    ServingQuantity,
    Validated,
    Where,
    chosen,
    chosen_rows,
    groups_of_row,
    meant,
    measured,
    memory_total,
    nothing_chosen,
    outcomes_over,
    quantity_of,
    shares_of_step,
    stated,
)
from costmodel.evidence.validate.spelling import CannotModel, invalid
from costmodel.exchange.logs.benchmark_result import is_result_file
from costmodel.exchange.tables.csv_cells import CsvRow
from costmodel.exchange.tables.kernel_table import read_measured
from costmodel.exchange.tables.run_table import Table
from costmodel.exchange.tables.serving_table import ServingTable
from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.ground.record import record

if TYPE_CHECKING:
    from costmodel.evidence.validate.validate_serving import Ends


DOCUMENTED: dict[Quantity, tuple[str, ...]] = {  # results of measured documents, by what they are about
    "time": ("step_time", "flop_rate", "iteration_time"),
    "memory": tuple(TOTALS),
    "throughput": ("output_tokens_per_s",),
    "cache": ("cache_pool_tokens",),
}
_SERVED = ", ".join(name for name in DOCUMENTED if name in get_args(ServingQuantity))
OF_STEPS = ("step_time", "flop_rate")  # results with the terms of a step
TABLES = (".csv", ".txt", ".log")  # files that are no documents: tables, and logs of engines


def compared(table: MeasuredTable, quantity: Quantity, accelerator: str = "") -> Iterator[Compared]:
    """Compares each measured figure of a quantity in a document with its prediction; on one accelerator if named."""
    if not _has_quantity(table, quantity):
        return
    for run, case in cases(table):
        if accelerator not in ("", case.accelerator.name):
            continue
        shown = {name: value for name in DOCUMENTED[quantity] if (value := getattr(run.measured, name)) is not None}
        if not shown:
            continue
        predicted = _predicted_run(case, shown)
        left = predicted if isinstance(predicted, CannotModel) else None
        groups = _groups_of_case(table, case, left.code if left else "modelled")
        for name, value in shown.items():
            tolerance = getattr(table.tolerance, name)
            if isinstance(predicted, CannotModel):
                none = Compared(run.name, name, value, None, tolerance, groups=groups, subject=case)
                yield replace(none, refused=predicted.code, why=predicted.why)
                continue
            ends, parts = predicted
            ours, low, high = ends[name]
            parts = parts if name in OF_STEPS else {}
            yield Compared(run.name, name, value, ours, tolerance, low, high, groups=groups, subject=case, parts=parts)


def _has_quantity(table: MeasuredTable, quantity: Quantity) -> bool:
    """Whether any run of a document has a figure of that quantity."""
    stated = {name for run in table.runs for name, value in run.measured if value is not None}
    return bool(stated & set(DOCUMENTED.get(quantity, ())))


def _predicted_run(
    case: LoadedScenario, names: Iterable[str]
) -> tuple[dict[str, Ends], Mapping[str, float]] | CannotModel:
    """The predicted results of a run with P10 and P90, and each term's share of the step; or why there are none."""
    if isinstance(case, RlCase):
        from costmodel.estimate.rl import predict_rl

        iteration = predict_rl.predict(case)
        costs = iteration.costs
        if iteration.refused:
            return invalid(iteration.refused[0])
        return {name: (costs[name], costs[f"{name}_low"], costs[f"{name}_high"]) for name in names}, {}
    if not isinstance(case, ResolvedScenario):
        from costmodel.evidence.validate.validate_serving import predicted_figures

        served = predicted_figures(case, names)
        return served if isinstance(served, CannotModel) else (served, {})
    predicted = predict(case)
    if predicted.refused:
        return invalid(predicted.refused[0])
    totals = {name: memory_total(predicted.inputs, predicted.evaluation, name) for name in names if name in TOTALS}
    ends: dict[str, Ends] = {name: totals[name] if name in totals else _with_band(predicted, name) for name in names}
    return ends, shares_of_step(predicted.evaluation.step.terms)


def _with_band(answer: Answer, name: str) -> tuple[float, float, float]:
    """A column of a plan with its P10 and P90."""
    costs = answer.evaluation.costs.row()
    return costs[name], costs[f"{name}_low"], costs[f"{name}_high"]


def _groups_of_case(table: MeasuredTable, case: LoadedScenario, reason: str) -> dict[str, str]:
    """The value of a scenario in each column by which results can be grouped."""
    labels = (table.source.key, table.name, case.accelerator.name, case.accelerator.name, case.model.name)
    kind = "moe" if any(layers.experts for layers in case.model.layers) else "dense"
    stack = _software_name(case)
    parts = (case.accelerator.vendor, stack, layer_names_text(case.model))
    groups = (*labels, case.scenario.workload.precision, stack, kind, reason, *parts)
    return dict(zip(GROUPINGS, groups, strict=True))


def _software_name(case: LoadedScenario) -> str:
    """The name of a scenario's software."""
    return subject_of(case).stack.name


def compared_rows(rows: Sequence[CsvRow], quantity: Quantity, shelf: CachedReader, count: RowCount) -> list[Compared]:
    """Every row of a table with its prediction, or the reason why there is none."""
    unstated = [_why_not_comparable(row, quantity) for row in rows]
    asked = [row for row, refused in zip(rows, unstated, strict=True) if refused is None]
    left = len(rows) - len(asked)
    known = iter(modelled_rows(asked, shelf, lambda done, _: count(left + done, len(rows))))
    models = [refused or next(known) for refused in unstated]
    outcomes = outcomes_over(list(zip(rows, models, strict=True)), quantity, shelf)
    compared = zip(rows, models, outcomes, strict=True)
    return [_compared_figure(row, model, each, quantity, shelf) for row, model, each in compared]


def _why_not_comparable(row: CsvRow, quantity: Quantity) -> CannotModel | None:
    """Why a row has nothing to compare, before anything is predicted."""
    try:
        stated(row, quantity)
    except CannotModel as refused:
        return refused
    return None


def _compared_figure(
    row: CsvRow, model: Modelled | CannotModel, row_outcome: RowOutcome, quantity: Quantity, shelf: CachedReader
) -> Compared:
    """The measured figure of a row with its prediction, or the reason why there is none."""
    if isinstance(row_outcome, CannotModel):
        groups = groups_of_row(row, row_outcome.code, shelf)
        name, value = measured(row, quantity)
        return Compared(
            row.id, name, value, None, refused=row_outcome.code, why=row_outcome.why, groups=groups, subject=row
        )
    figure, filled = row_outcome
    groups = groups_of_row(row, "modelled", shelf)
    if isinstance(model, Modelled):
        case = model.inputs.case
        groups |= {
            "maker": case.accelerator.vendor,
            "stack": case.stack.name,
            "layer_kind": layer_names_text(case.model),
        }
    return Compared(
        row.id,
        figure.quantity,
        figure.measured,
        figure.predicted,
        low=figure.low,
        high=figure.high,
        called_fit=figure.called_fit,
        fit_chance=figure.fit_chance,
        filled=filled,
        groups=groups,
        subject=row,
        parts=figure.parts,
    )


def validated(
    tables: Sequence[str | Table] | None = None,
    *,
    quantity: Quantity | None = None,
    where: Where | None = None,
    without: Collection[str] = (),
    count: RowCount = uncounted,
) -> list[Validated]:
    """Compares every named table, or every document found, with the predictions.

    without: terms of a training step that predictions leave out; of the shipped tables those without such terms are
    left out too. count: is given the rows of a file that are done, and all of them
    """
    asked: list[MeasuredTable | Table] = [
        name
        if isinstance(name, Table)
        else read_measured(name)
        if name == "-" or name.lower().endswith(TABLES) or is_result_file(name)
        else read("measured", name)
        for named in tables or names("measured")
        for name in ((named,) if isinstance(named, Table) else _documents_of_source(named))
    ]
    if quantity and not tables:
        asked = _shipped_tables(quantity)
    shelf, where = CachedReader(), meant(where or {}, asked)
    scored = [_validated_table(table, quantity, where, shelf, count) for table in asked]
    if where and not any(part.figures for part in scored):
        raise nothing_chosen(where, asked, shelf)
    if not without:
        return scored
    trained = [part for part in scored if not isinstance(part.table, ServingTable)]
    of_steps = [part for part in trained if any(figure.parts for figure in part.figures)]
    if not of_steps or (tables and len(of_steps) < len(scored)):
        other = next((part.table for part in scored if part not in of_steps), None)
        named = "these tables" if other is None else other.name if isinstance(other, MeasuredTable) else other.file
        sentence = f"--without leaves out terms of training steps, and {named} has no predicted time of one"
        raise fail("C005", sentence, Place("command line"), "leave the table out, or --without; --quantity time")
    return [replace(part, figures=[figure.without(without) for figure in part.figures]) for part in of_steps]


def _documents_of_source(name: str) -> Sequence[str]:
    """The measured documents of a source name; the name itself if it is no source."""
    if name in names("measured") or not name.replace("-", "").replace(".", "").isalnum():
        return (name,)
    tables = [name_of_table for name_of_table in names("measured") if _key_of_source(name_of_table) == name]
    return tables or (name,)


def _key_of_source(name: str) -> str:
    table = read("measured", name)
    return str(table.source.key) if isinstance(table, MeasuredTable) else ""


def _shipped_tables(quantity: Quantity) -> list[MeasuredTable | Table]:
    """The documents of the workload that a quantity belongs to; a fault where none has it."""
    served = quantity in get_args(ServingQuantity)
    found = [table for table in (read("measured", name) for name in names("measured")) if serves(table) == served]
    if served and not any(_has_quantity(table, quantity) for table in found):
        raise fail("C005", f"no measured document has {quantity}", Place("command line"), f"one of {_SERVED}")
    return found


def _validated_table(
    table: MeasuredTable | Table, quantity: Quantity | None, where: Where, shelf: CachedReader, count: RowCount
) -> Validated:
    """The figures of one table or document with their predictions."""
    if isinstance(table, ServingTable):
        from costmodel.evidence.validate.validate_serving import compared_serving

        return compared_serving(table, quantity, where, shelf, count)
    if isinstance(table, MeasuredTable):
        return _compare_document(table, quantity, where)
    if quantity in get_args(ServingQuantity):
        raise _table_of_other_kind(table.file, "training", quantity, "time, memory or regret")
    shown = quantity or quantity_of(table.columns)
    return Validated(table, compared_rows(chosen_rows(table, where, shelf), shown, shelf, count), RULES)


def _compare_document(table: MeasuredTable, quantity: Quantity | None, where: Where) -> Validated:
    """Compares a measured document; by default for the first quantity that its runs state."""
    served = serves(table)
    if quantity and (quantity in get_args(ServingQuantity)) != served:
        kind, hint = ("serving", _SERVED) if served else ("training", "time, memory or regret")
        raise _table_of_other_kind(table.name, kind, quantity, hint)
    quantities: list[Quantity] = [name for name in DOCUMENTED if _has_quantity(table, name)]
    asked = quantity or (quantities[0] if quantities else "memory")
    return Validated(table, [figure for figure in compared(table, asked) if chosen(figure.groups.get, where)])


def _table_of_other_kind(name: str, kind: str, quantity: str | None, hint: str) -> CostModelError:
    return fail("C005", f"{name} is about {kind}, and has no {quantity}", Place("command line"), hint)


ALL = "all terms"  # clocks, or another machine
TIMES = ("step_time", "tpot", "ttft")  # other quantities are rates
_QUANTITIES: dict[type[Table], tuple[Quantity, ...]] = {Table: ("time",), ServingTable: ("tpot", "ttft")}
SIMILAR_BY = ("model", "accelerator", "stack")  # runs alike in these are off alike
_FACTORS = np.exp(np.linspace(math.log(0.25), math.log(8.0), 1387))  # of a term, a quarter of a percent apart
_ROUNDED = 0.005  # spread of runs at least: times are stated in three digits
_SURE = 4.5  # spreads, themselves of few runs, from which a change of any of ten terms is none of chance
_WIDE = 6.0  # spreads, from which a single run is none of chance
_SHARE = 0.02  # of a step in any run, from which a term is looked at
_EXPLAINED = 0.5  # of the change, as squares, that a term must explain at least
_APART = 4.0  # squares of spreads by which another term must leave more, to be another
_FEWEST = 3  # runs of each


@record
class MovedRuns:
    """What changed in the last runs of one kind since those before: step times, times per token, or first tokens.

    figure: that the runs have. release: of the software, before and now, where tables state both and they differ
    """

    figure: str
    night: str
    found: Moved
    release: tuple[str, str] | None


def moved_runs(nights: Mapping[str, Sequence[Table]]) -> list[MovedRuns]:
    """What changed in the last night of training runs and in the last night of serving runs.

    Raises:
        CostModelError: too few runs of a kind have a prediction
    """
    tables_moved = list[MovedRuns]()
    for kind, quantities in _QUANTITIES.items():
        held = {
            night: own for night, tables in nights.items() if (own := [each for each in tables if type(each) is kind])
        }
        if len(held) < 2:
            continue
        *_, last = held
        before = [table for night, tables in held.items() for table in tables if night != last]
        for quantity in quantities:
            old, new = (_figures_of_tables(tables, quantity) for tables in (before, held[last]))
            if quantity == "ttft" and not all(any(each.error is not None for each in part) for part in (old, new)):
                continue
            tables_moved.append(MovedRuns(quantity, last, moved_terms(old, new), _changed_release(before, held[last])))
    return tables_moved


def _figures_of_tables(tables: Sequence[Table], quantity: Quantity) -> list[Compared]:
    return [figure for part in validated(tables, quantity=quantity) for figure in part.figures]


def _changed_release(before: Sequence[Table], now: Sequence[Table]) -> tuple[str, str] | None:
    """The releases of an engine in two groups of runs, where each has one and they differ."""
    old, new = ({row.text("engine_version") for table in tables for row in table.rows} for tables in (before, now))
    return (old.pop(), new.pop()) if len(old) == len(new) == 1 and old != new and "" not in old | new else None


@record
class MovedTerm:
    """A term, the factor by which its times changed, and the share of the change left unexplained (1: all of it)."""

    term: str
    factor: float
    left: float


@record
class Moved:
    """The change from earlier runs to new ones, and the terms that may explain it.

    spread: of runs before, of the logarithm. change: geometric mean of the new times over what was expected
    moved: whether that is more than chance. terms: the likeliest first. alike: those that these runs do not distinguish
    from it
    """

    before: int
    now: int
    spread: float
    change: float
    moved: bool
    slower: bool
    terms: tuple[MovedTerm, ...]
    alike: tuple[str, ...]

    @property
    def likeliest(self) -> MovedTerm | None:
        """The term that moved; none where nothing did, or where no single one explains it."""
        first = self.terms[0]
        explained = first.left < _EXPLAINED and _FACTORS[0] < first.factor < _FACTORS[-1]
        return first if self.moved and explained else None


def moved_terms(before: Sequence[Compared], now: Sequence[Compared]) -> Moved:
    """Finds the term of a step that explains best why new runs differ from earlier ones.

    Raises:
        CostModelError: too few runs have a predicted step, or none of the new ones is like one before
    """
    known, new = ([row for row in rows if row.parts and row.error is not None] for rows in (before, now))
    own, groups = _mean_errors(known, _run_key), _mean_errors(known, _group_key)
    new = [figure for figure in new if _group_key(figure) in groups]
    if len(known) < _FEWEST or len(new) < _FEWEST:
        counts = f"{len(known)} runs before and {len(new)} like them now have a predicted step"
        sentence = f"{counts}; {_FEWEST} of each are needed"
        raise fail("C005", sentence, Place("command line"), "measure several layouts of the same model and machine")
    repeated = len(own) < len(known)
    kept = [
        _log_error(figure) - (own[_run_key(figure)] if repeated else groups[_group_key(figure)]) for figure in known
    ]
    freedom = max(len(kept) - len(own if repeated else groups), 1)
    spread = max(math.sqrt(sum(figure**2 for figure in kept) / freedom), _ROUNDED)
    changes = np.array([_log_error(figure) - own.get(_run_key(figure), groups[_group_key(figure)]) for figure in new])
    whole = float(changes @ changes)
    factors = sorted(_fitted_factors(new, changes), key=lambda figure: figure.left)
    chance = spread * math.sqrt(1 + len(own) / len(known)) if repeated else spread  # of a run beside a mean of others
    best, widest = factors[0], _WIDE * chance
    moved = whole - best.left > (_SURE * chance) ** 2 or float(np.abs(changes).max()) > widest
    slower = moved and (best.factor > 1 or float(changes.max()) > widest)
    alike = [figure.term for figure in factors[1:] if figure.left - best.left < _APART * chance**2]
    terms = tuple(MovedTerm(figure.term, figure.factor, figure.left / whole if whole else 1.0) for figure in factors)
    change = math.exp(float(np.mean(changes)))
    return Moved(len(known), len(new), spread, change, moved, slower, terms, tuple(alike if moved else ()))


def _fitted_factors(new: Sequence[Compared], changes: NDArray[np.float64]) -> list[MovedTerm]:
    """For each term the factor that best explains the changes, with the residuals that it leaves."""
    factors = list[MovedTerm]()
    for term in [ALL, *dict.fromkeys(name for figure in new for name in figure.parts)]:
        shares = np.array([1.0 if term == ALL else figure.parts.get(term, 0.0) for figure in new])
        if shares.max() < _SHARE:
            continue
        expected = np.log(np.asarray(slowed_step(shares[:, None], _FACTORS[None, :])))
        left = ((changes[:, None] - expected) ** 2).sum(axis=0)
        place = int(np.argmin(left))
        factors.append(MovedTerm(term, float(_FACTORS[place]), float(left[place])))
    return factors


def _mean_errors(
    known: Sequence[Compared], like: Callable[[Compared], tuple[str, ...]]
) -> Mapping[tuple[str, ...], float]:
    """The mean log error of each group of similar runs."""
    groups: dict[tuple[str, ...], list[float]] = {}
    for figure in known:
        groups.setdefault(like(figure), []).append(_log_error(figure))
    return {group: statistics.fmean(values) for group, values in groups.items()}


def _run_key(figure: Compared) -> tuple[str, ...]:
    return (figure.run, *_group_key(figure))


def _group_key(figure: Compared) -> tuple[str, ...]:
    return tuple(figure.groups.get(column, "") for column in SIMILAR_BY)


def _log_error(figure: Compared) -> float:
    """The log of measured over predicted time (of predicted over measured for a rate)."""
    assert figure.measured is not None
    assert figure.predicted is not None
    ratio = math.log(figure.measured / figure.predicted)
    return ratio if figure.quantity in TIMES else -ratio
