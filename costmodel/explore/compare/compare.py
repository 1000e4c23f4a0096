"""Compares two answers: which inputs, results and figures differ."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from costmodel.documents.keys.paths import REFERENCES
from costmodel.documents.reader.load_scenario import RESULTS
from costmodel.documents.reader.resolved_scenario import ForeignPrice, LoadedScenario
from costmodel.documents.schemas.baseline import EquationFingerprint
from costmodel.documents.schemas.default_values import FlagQuestion
from costmodel.documents.schemas.results import COLUMNS, column_of, machine_name
from costmodel.estimate.answer_facts import Subject, facts_of
from costmodel.estimate.shared.plan_batch import Block, plan_to_mapping
from costmodel.estimate.shared.results import number
from costmodel.estimate.training_answer.evaluate_training import evaluate
from costmodel.estimate.training_answer.predict_training import Answer
from costmodel.explore.compare.input_paths import InputValue, input_values
from costmodel.ground.counts import SIZES
from costmodel.ground.equation import Origin, Step, trace
from costmodel.ground.errors import Place
from costmodel.ground.record import record
from costmodel.ground.units import counted

MEMORY, TRAFFIC = "memory.", "comm."
NAMES = {machine_name(name): name for columns in COLUMNS.values() for name in columns}
_ZERO, _NOT_FINITE = -777.7, 777.7
_UNITS = {"_bytes": "B", "_s": "s"}


def plan_choices(block: Block) -> dict[str, Any]:
    """All choices of a plan by key, without those that follow from others."""
    made = {name: _plain_value(value) for name, value in plan_to_mapping(block.structure).items()}
    return {**{name: number(getattr(block, name)) for name in SIZES}, **made}


def _plain_value(value: Any) -> Any:
    return f"[{', '.join(value)}]" if isinstance(value, list) else value


def training_figures(answer: Answer) -> dict[str, float]:
    """Every known figure of a training answer, by its name with unit."""
    evaluation = answer.evaluation
    figures_by_name = {machine_name(name): value for name, value in evaluation.costs.row().items()}
    peaks = [number(peak) for peak in evaluation.ledger.peaks]
    worst = peaks.index(max(peaks))
    for name, values in evaluation.ledger.lines.items():
        figures_by_name[f"{MEMORY}{name}_bytes"] = number(values[worst])
    for transfer in evaluation.step.transfers:
        name = f"{TRAFFIC}{transfer.group.name} {transfer.operation}".replace("_", "-")
        for key, value in ((f"{name}.time_s", transfer.total_time), (f"{name}.volume_bytes", transfer.volume)):
            figures_by_name[key] = figures_by_name.get(key, 0.0) + number(value)
    return {
        name: value
        for name, value in figures_by_name.items()
        if math.isfinite(value) and not _is_unused_transfer(name, value)
    }


def _is_unused_transfer(name: str, value: float) -> bool:
    """Whether a figure belongs to a collective that sends nothing."""
    return name.startswith(TRAFFIC) and value == 0


def unit_of(name: str) -> str:
    """The unit of a figure, from the suffix of its name."""
    if name in NAMES:
        return column_of(NAMES[name]).unit
    return next((unit for suffix, unit in _UNITS.items() if name.endswith(suffix)), "1")


def name_without_unit(name: str) -> str:
    """The name of a figure without its unit."""
    if name in NAMES:
        return NAMES[name]
    return next((name.removesuffix(suffix) for suffix in _UNITS if name.endswith(suffix)), name)


def equation_fingerprints(answer: Answer) -> dict[str, EquationFingerprint]:
    """A fingerprint (checksums of inputs and outputs) of each equation that computes this plan."""
    with trace() as record:
        evaluate(answer.inputs, answer.evaluation.block)
    calls: dict[str, list[tuple[float, float]]] = {}
    for step in _all_steps(record.steps):
        asked = _checksum_of_inputs(step.inputs.values()) + _hash_of_choices(step.choices)
        calls.setdefault(step.equation.name, []).append((asked, _checksum_term(step.value)))
    return {
        name: EquationFingerprint(
            calls=len(pairs),
            inputs=round(math.fsum(asked for asked, _ in pairs), 6),
            output=round(math.fsum(stated for _, stated in pairs), 6),
        )
        for name, pairs in sorted(calls.items())
    }


def called_equations(answer: Answer) -> dict[str, set[str]]:
    """For each equation, the equations that it calls itself."""
    with trace() as record:
        evaluate(answer.inputs, answer.evaluation.block)
    called: dict[str, set[str]] = {}
    for step in _all_steps(record.steps):
        called.setdefault(step.equation.name, set()).update(inner.equation.name for inner in _all_steps(step.beneath))
    return called


def _all_steps(steps: Sequence[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        yield from _all_steps(step.beneath)


def _checksum_of_inputs(inputs: Iterable[Origin]) -> float:
    """A checksum of an equation's inputs that depends on their order."""
    mixed = math.fsum(math.sqrt(place + 2) * _checksum_term(origin.value) for place, origin in enumerate(inputs))
    return mixed + mixed * mixed / 100


def _checksum_term(value: Any) -> float:
    """The logarithm of a value, so that small ones count as much; constants for zero and for non-finite values."""
    plain = float(np.asarray(value, dtype=np.float64).flat[0])
    if not math.isfinite(plain):
        return _NOT_FINITE
    return math.log(abs(plain)) if plain else _ZERO


def _hash_of_choices(choices: dict[str, Any]) -> float:
    return float(zlib.crc32(repr(sorted((name, str(value)) for name, value in choices.items())).encode()) % 1000)


SAME = 1e-9  # figures nearer than this are equal; platforms differ by less


@record
class Side:
    """One of two answers that are compared: its inputs and its figures."""

    name: str
    values: Mapping[str, InputValue]
    figures: Mapping[str, float]
    documents: Mapping[str, str] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    assumed: Mapping[str, str] = field(default_factory=dict)  # values that the user did not state
    facts: Subject | None = None  # what was computed
    parts: tuple[str, ...] = (MEMORY, TRAFFIC)  # of which figures are known, those that are not there being 0
    left_out: tuple[ForeignPrice, ...] = ()  # prices of another machine
    overload: tuple[str, ...] = ()  # why it cannot answer all that arrives
    asked: FlagQuestion = field(default_factory=FlagQuestion)  # flags that it is asked for with, and their defaults
    kind: str = "training"
    case: LoadedScenario | None = None  # whose own plan it is; None of a stored result, and of the plan of a rank


@record
class ChangedInput:
    """An input that differs between two sides; None on a side that does not have it."""

    path: str
    before: str | None
    after: str | None
    place: Place | None = None


@record
class MovedFigure:
    """A figure that differs between two sides."""

    name: str
    before: float | None
    after: float | None

    @property
    def change(self) -> float:
        """The relative change of the figure; infinite if it was missing or zero before."""
        if self.before is None or self.after is None or not self.before:
            return math.inf
        return self.after / self.before - 1


@record
class Difference:
    """All differences between the two sides."""

    before: Side
    after: Side
    inputs: tuple[ChangedInput, ...]
    figures: tuple[MovedFigure, ...]

    @property
    def same(self) -> bool:
        """Whether there are no differences."""
        return not (self.inputs or self.figures or self.before.refused != self.after.refused)


def compare(before: Side, after: Side) -> Difference:
    """The differences between two sides."""
    moves = moved_figures(before.figures, after.figures)
    missing = [part for part in (MEMORY, TRAFFIC) if part not in before.parts or part not in after.parts]
    known = [move for move in moves if not any(move.name.startswith(part) for part in missing)]
    return Difference(before, after, tuple(_changed_inputs(before, after)), tuple(known))


def moved_figures(before: Mapping[str, float], after: Mapping[str, float]) -> list[MovedFigure]:
    """The figures that differ between two answers, or that only one of them has."""
    none = {name: 0.0 if name.startswith(TRAFFIC) else None for name in (*after, *before)}
    pairs = [MovedFigure(name, before.get(name, least), after.get(name, least)) for name, least in none.items()]
    return [pair for pair in pairs if not _is_equal(pair.before, pair.after)]


def _is_equal(before: float | None, after: float | None) -> bool:
    if before is None or after is None:
        return before is after
    return math.isclose(before, after, rel_tol=SAME, abs_tol=1e-15)


def _changed_inputs(before: Side, after: Side) -> list[ChangedInput]:
    """Inputs that differ; for a document that was replaced by another, only its name."""
    names = dict.fromkeys((*after.values, *before.values))
    changes = []
    for path in names:
        old, new = before.values.get(path), after.values.get(path)
        if (old and old.value) == (new and new.value) and (old is None) == (new is None):
            continue
        changes.append(ChangedInput(path, *_input_texts(path, before, after), new.place if new else None))
    exchanged = [f"{change.path}." for change in changes if change.path in REFERENCES]
    kept = [change for change in changes if not any(change.path.startswith(prefix) for prefix in exchanged)]
    return kept + _changed_documents(before.documents, after.documents)


def _input_texts(path: str, before: Side, after: Side) -> tuple[str | None, str | None]:
    """The text of an input on each side, whether stated or assumed."""
    old, new = (side.values[path].text if path in side.values else None for side in (before, after))
    assumed, instead = before.assumed.get(path), after.assumed.get(path)
    if old is None:
        return (None if assumed == new else assumed), new
    if old == new and old is not None:  # a batch in tokens, of another number of sequences
        return counted(before.values[path].value), counted(after.values[path].value)
    return old, new if new is not None or instead == old else instead


def _changed_documents(before: Mapping[str, str], after: Mapping[str, str]) -> list[ChangedInput]:
    """Files whose text changed since a stored result was made."""
    both = [name for name in after if name in before and before[name] != after[name]]
    return [ChangedInput(name, before[name], after[name]) for name in both]


def is_stored(case: LoadedScenario) -> bool:
    """Whether a scenario comes from a stored result, as --json writes it."""
    stored = next(iter(case.trees.values()), None)
    return isinstance(stored, dict) and str(stored.get("schema")).startswith(tuple(RESULTS))


def side_of_answer(name: str, answer: Answer) -> Side:
    """A training answer as one side of a comparison."""
    written = input_values(answer.inputs.case)
    values = {path: value for path, value in written.items() if not path.startswith("plan.")}
    for key, value in plan_choices(answer.evaluation.block).items():
        own = written.get(f"plan.{key}")
        values[f"plan.{key}"] = own if own and own.value == value else InputValue(value)
    held = {} if answer.refused else training_figures(answer)
    assumed = {item.path: item.value for item in answer.assumed}
    documents, facts = document_digests(answer.inputs.case), facts_of(answer.inputs.case)
    parts = () if answer.refused else (MEMORY, TRAFFIC)
    asked = answer.inputs.case.asked
    return Side(name, values, held, documents, answer.refused, assumed, facts, parts, asked=asked)


def document_digests(case: LoadedScenario) -> dict[str, str]:
    """Digests of the documents that a scenario names; its own file is compared by value instead."""
    return dict(list(case.named_digests.items())[1:])
