"""The tree of equations behind a figure of a training plan, from one traced evaluation."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from costmodel.documents.reader.library import Provenance, provenance
from costmodel.documents.schemas.results import TRAINING_COLUMNS
from costmodel.equations.parallelism.counts import data_parallel_degree
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.memory_breakdown import LINES
from costmodel.estimate.training_answer.evaluate_training import TERM_COLUMNS, Evaluation, evaluate
from costmodel.estimate.training_answer.predict_training import plan_block
from costmodel.estimate.training_answer.training_error_band import banded
from costmodel.ground.counts import SIZES
from costmodel.ground.equation import Combined, Equation, Leaf, Named, Origin, Step, leaf, origin_of, trace
from costmodel.ground.record import record
from costmodel.ground.units import Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from costmodel.documents.schemas.results import ResultColumn
    from costmodel.documents.schemas.scenario import Plan
    from costmodel.estimate.training.training_inputs import TrainingInputs
    from costmodel.ground.equation import Number

_OPERATIONS = {
    "add": "sum",
    "subtract": "difference",
    "multiply": "product",
    "divide": "quotient",
}  # others are called as NumPy calls them


@dataclass
class ExplainedFigure:
    """A node of an equation tree: a figure, its equation or operation, and the figures that it is computed from."""

    name: str
    value: float
    unit: str
    equation: Equation | None = None
    labels: tuple[str, ...] = ()
    choices: dict[str, Any] = field(default_factory=dict)
    operation: str = ""
    written: Provenance | None = None
    beneath: list[ExplainedFigure] = field(default_factory=list)
    quantity: str = ""


@record
class TreeNames:
    """The names that a tree shows: of documents, of result columns, and of the column of each term."""

    trees: dict[str, Any]
    columns: Mapping[str, ResultColumn]
    terms: Mapping[str, str]


MadeTrees = dict[tuple[int, str, str], ExplainedFigure]  # by origin, name and unit


def quantities() -> list[str]:
    """The figures of a training plan that can be explained."""
    return [*TRAINING_COLUMNS, *LINES]


def explain(inputs: TrainingInputs, plan: Plan, quantity: str) -> ExplainedFigure:
    """The equation tree of one figure of a plan."""
    return explained_figure(inputs, traced_evaluation(inputs, plan), quantity)


def traced_evaluation(inputs: TrainingInputs, plan: Plan) -> Evaluation:
    """Evaluates a plan with tracing, so that each figure records how it was computed."""
    with trace():
        return banded(inputs, evaluate(inputs, _block_with_places(inputs, plan)))


def explained_figure(inputs: TrainingInputs, evaluation: Evaluation, quantity: str) -> ExplainedFigure:
    """The equation tree of one figure of a traced evaluation."""
    with trace():
        origin, unit = _origin(evaluation, quantity)
    return tree_of(TreeNames(inputs.case.trees, TRAINING_COLUMNS, TERM_COLUMNS), quantity, unit, origin)


def figure_trees(inputs: TrainingInputs, evaluation: Evaluation, wanted: Sequence[str]) -> dict[str, ExplainedFigure]:
    """The equation trees of several figures of a traced evaluation; shared parts are one node."""
    with trace():
        found = {quantity: _origin(evaluation, quantity) for quantity in wanted}
    origins = {quantity: origin for quantity, (origin, _) in found.items()}
    units = {quantity: unit for quantity, (_, unit) in found.items()}
    return trees_of(TreeNames(inputs.case.trees, TRAINING_COLUMNS, TERM_COLUMNS), origins, units)


def memory_line_trees(inputs: TrainingInputs, evaluation: Evaluation) -> dict[str, ExplainedFigure]:
    """The equation trees of the memory lines, on the most loaded stage of a traced evaluation."""
    with trace():
        origins = {name: _memory_line_origin(evaluation, name) for name in LINES}
    return trees_of(TreeNames(inputs.case.trees, TRAINING_COLUMNS, TERM_COLUMNS), origins, dict.fromkeys(LINES, "B"))


def trees_of(
    book: TreeNames, origins: Mapping[str, Origin], units: Mapping[str, str], made: MadeTrees | None = None
) -> dict[str, ExplainedFigure]:
    """The equation trees of figures, given their origins; nodes in `made` are reused."""
    made = {} if made is None else made
    return {name: _memoised_node(book, name, units[name], origin, made) for name, origin in origins.items()}


def traced_figures(make: Callable[[], Mapping[str, Number]], units: Mapping[str, str]) -> dict[str, ExplainedFigure]:
    """The equation trees of the figures that `make` computes; `units` has the units of those that are not money."""
    with trace():
        origins = {name: origin_of(figure, name) for name, figure in make().items()}
    return trees_of(TreeNames({}, {}, {}), origins, {name: units.get(name, "USD") for name in origins})


def tree_of(book: TreeNames, quantity: str, unit: str, origin: Origin) -> ExplainedFigure:
    """The equation tree of one figure, given its origin."""
    return _memoised_node(book, quantity, unit, origin, {})


def _block_with_places(inputs: TrainingInputs, plan: Plan) -> Block:
    """The plan as a block whose columns record the place where each value is written."""
    block, _ = plan_block(inputs, plan)
    columns: dict[str, Any] = {
        name: leaf(getattr(block, name), f"plan.{name}", value if isinstance(value, Figure) else None)
        for name in SIZES
        for value in [getattr(plan, name)]
    }
    if plan.dp is None:
        ranks = inputs.ranks
        columns["dp"] = np.asanyarray(data_parallel_degree(ranks, columns["tp"], columns["cp"], columns["pp"]))
    return Block(block.structure, **columns)


def _origin(evaluation: Evaluation, quantity: str) -> tuple[Origin, str]:
    if quantity in TRAINING_COLUMNS:
        return origin_of(evaluation.costs.columns[quantity], quantity), TRAINING_COLUMNS[quantity].unit
    return _memory_line_origin(evaluation, quantity), "B"


def _memory_line_origin(evaluation: Evaluation, name: str) -> Origin:
    peaks = [number(peak) for peak in evaluation.ledger.peaks]
    return origin_of(evaluation.ledger.line(name, peaks.index(max(peaks))), name)


def _memoised_node(book: TreeNames, name: str, unit: str, origin: Origin, made: MadeTrees) -> ExplainedFigure:
    """The tree node of an origin, created once, because a tree meets most origins many times."""
    key = (id(origin), name, unit)
    if key not in made:
        made[key] = _new_node(book, name, unit, origin, made)
    return made[key]


def _new_node(book: TreeNames, name: str, unit: str, origin: Origin, made: MadeTrees) -> ExplainedFigure:
    """A new tree node of an origin."""
    value = number(origin.value)
    if isinstance(origin, Named):
        column = _column_name(book, origin)
        of_plan = column in book.columns and book.columns[column].unit == unit
        return replace(_memoised_node(book, name, unit, origin.of, made), quantity=column if of_plan else "")
    if isinstance(origin, Leaf):
        place = origin.figure.place if origin.figure is not None else None
        shown = origin.name if origin.name.startswith("plan.") else name
        return ExplainedFigure(shown, value, unit, written=provenance(book.trees, place) if place else None)
    if isinstance(origin, Combined):
        parts = _parts_that_matter(origin)
        if len(parts) == 1 and not _is_sum_of_rows(origin):
            return _memoised_node(book, name, unit, parts[0], made)
        each = zip(parts, _units_of_parts(origin.operation, parts, unit), strict=True)
        beneath = [
            _memoised_node(book, _part_name(book, part), unit_of_part, part, made) for part, unit_of_part in each
        ]
        labels = origin.labels if origin.operation in ("multiply", "divide") else ()
        operation = _operation_name(origin) if parts else ""
        return ExplainedFigure(name, value, unit, None, labels, operation=operation, beneath=beneath)
    units = {argument.name: argument.unit or "1" for argument in origin.equation.contract.arguments}
    units["u"] = unit if origin.equation.contract.unit == "u" else _common_unit(_inputs_of_any_unit(origin)) or "1"
    inner = [
        _memoised_node(book, key, units["u"] if units[key] == "u" else units[key], part, made)
        for key, part in origin.inputs.items()
    ]
    return ExplainedFigure(name, value, unit, origin.equation, origin.labels, origin.choices, beneath=inner)


def _units_of_parts(operation: str, parts: Sequence[Origin], unit: str) -> list[str]:
    """The units of the operands: a product is a number times an amount, a quotient an amount over a number."""
    if operation == "multiply":
        return ["1", unit]
    return [unit, "1"] if operation == "divide" else [unit] * len(parts)


def _inputs_of_any_unit(step: Step) -> list[Origin]:
    """The inputs of an equation call that may have any unit, which they share."""
    return [step.inputs[argument.name] for argument in step.equation.contract.arguments if argument.unit == "u"]


def _common_unit(origins: Sequence[Origin]) -> str:
    """The unit of values that share one, from the first equation among them that states it; empty if none does."""
    for origin in origins:
        if isinstance(origin, Step) and origin.equation.contract.unit != "u":
            return origin.equation.contract.unit
        if not isinstance(origin, Leaf) and (unit := _common_unit(_parts_of_same_unit(origin))):
            return unit
    return ""


def _parts_of_same_unit(origin: Named | Combined | Step) -> list[Origin]:
    """The direct inputs of an origin that have its unit."""
    if isinstance(origin, Named):
        return [origin.of]
    return _parts_that_matter(origin) if isinstance(origin, Combined) else _inputs_of_any_unit(origin)


def _part_name(book: TreeNames, origin: Origin) -> str:
    """The name of a part that is no equation argument: its column, label, equation, or place."""
    if isinstance(origin, Named):
        return _column_name(book, origin)
    if isinstance(origin, Leaf):
        place = origin.figure.place if origin.figure is not None else None
        return origin.name or (place.path.rpartition(".")[2] if place is not None else "") or "number"
    if isinstance(origin, Combined) and not _is_sum_of_rows(origin) and len(parts := _parts_that_matter(origin)) < 2:
        return _part_name(book, parts[0]) if parts else "nothing"
    if origin.labels and isinstance(origin, Combined):
        return origin.labels[-1]
    if isinstance(origin, Combined):
        return _operation_name(origin)
    return origin.equation.name


def _column_name(book: TreeNames, origin: Named) -> str:
    """The name of a figure; a term of the step has the name of its result column."""
    return book.terms.get(origin.name, origin.name)


def _is_sum_of_rows(origin: Combined) -> bool:
    """Whether an origin sums the rows of one column; the tree then shows the first row."""
    return origin.operation == "sum" and np.size(origin.parts[0].value) > 1


def _operation_name(origin: Combined) -> str:
    """The name of a combination's operation."""
    if _is_sum_of_rows(origin):
        return f"sum of {np.size(origin.parts[0].value)}, the first"
    return _OPERATIONS.get(origin.operation, origin.operation)


def _parts_that_matter(origin: Combined) -> list[Origin]:
    """The operands without neutral ones, such as 0 in a sum."""
    operation, parts = origin.operation, list(_flattened_parts(origin))
    if operation == "add" or (operation == "maximum" and number(origin.value) != 0):
        return [part for part in parts if number(part.value) != 0]
    if operation == "subtract":
        return [parts[0], *(part for part in parts[1:] if number(part.value) != 0)]
    return parts


def _flattened_parts(origin: Combined) -> Iterator[Origin]:
    """The operands; an operand with the same operation is replaced by its own operands."""
    if (taken := _chosen_branch(origin)) is not origin:
        yield taken
        return
    for position, part in enumerate(map(_chosen_branch, origin.parts)):
        opened = origin.operation in _OPENED or (origin.operation == "subtract" and position == 0)
        if opened and isinstance(part, Combined) and part.operation == origin.operation:
            yield from _flattened_parts(part)
        else:
            yield part


def _chosen_branch(origin: Origin) -> Origin:
    """The chosen branch of a `where`; any other origin is returned unchanged."""
    while isinstance(origin, Combined) and origin.operation == "where":
        asked, one, other = origin.parts
        origin = one if number(asked.value) else other
    return origin


_OPENED = ("add", "maximum", "minimum")
