"""One plan's figures under one flat name each: results, lines of the ledger, transfers, and marks of its equations."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from costmodel.documents.schemas.baseline import EquationFingerprint
from costmodel.documents.schemas.results import COLUMNS, column_of, machine_name
from costmodel.estimate.evaluate.evaluate_plans import evaluate
from costmodel.estimate.evaluate.predict import Answer, plan_to_mapping
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.shared.results import number
from costmodel.ground.counts import SIZES
from costmodel.ground.equation import Origin, Step, trace

MEMORY, TRAFFIC = "memory.", "comm."
NAMES = {machine_name(name): name for columns in COLUMNS.values() for name in columns}
_ZERO, _NOT_FINITE = -777.7, 777.7
_UNITS = {"_bytes": "B", "_s": "s"}


def choices(block: Block) -> dict[str, Any]:
    """All choices of a plan; values that follow from other ones are left out."""
    made = {name: _plain_value(value) for name, value in plan_to_mapping(block.structure).items()}
    return {**{name: number(getattr(block, name)) for name in SIZES}, **made}


def _plain_value(value: Any) -> Any:
    return f"[{', '.join(value)}]" if isinstance(value, list) else value


def figures(answer: Answer) -> dict[str, float]:
    """Every figure that is known, by its name with unit."""
    evaluation = answer.evaluation
    found = {machine_name(name): value for name, value in evaluation.costs.row().items()}
    peaks = [number(peak) for peak in evaluation.ledger.peaks]
    worst = peaks.index(max(peaks))
    for name, values in evaluation.ledger.lines.items():
        found[f"{MEMORY}{name}_bytes"] = number(values[worst])
    for transfer in evaluation.step.transfers:
        name = f"{TRAFFIC}{transfer.group.name} {transfer.operation}".replace("_", "-")
        for key, value in ((f"{name}.time_s", transfer.total_time), (f"{name}.volume_bytes", transfer.volume)):
            found[key] = found.get(key, 0.0) + number(value)
    return {name: value for name, value in found.items() if math.isfinite(value) and not _is_silent(name, value)}


def _is_silent(name: str, value: float) -> bool:
    """Whether a figure belongs to a transfer that does not take place."""
    return name.startswith(TRAFFIC) and value == 0


def unit_of(name: str) -> str:
    """The unit of a figure."""
    if name in NAMES:
        return column_of(NAMES[name]).unit
    return next((unit for suffix, unit in _UNITS.items() if name.endswith(suffix)), "1")


def plan_in_words(name: str) -> str:
    """A figure's name without its unit."""
    if name in NAMES:
        return NAMES[name]
    return next((name.removesuffix(suffix) for suffix in _UNITS if name.endswith(suffix)), name)


def marks(answer: Answer) -> dict[str, EquationFingerprint]:
    """Fingerprint of each equation for this plan: checksums of its inputs and of its outputs."""
    with trace() as record:
        evaluate(answer.inputs, answer.evaluation.block)
    calls: dict[str, list[tuple[float, float]]] = {}
    for step in _steps(record.steps):
        asked = _of_inputs(step.inputs.values()) + _of_choices(step.choices)
        calls.setdefault(step.equation.name, []).append((asked, _of_number(step.value)))
    return {
        name: EquationFingerprint(
            calls=len(pairs),
            inputs=round(math.fsum(asked for asked, _ in pairs), 6),
            output=round(math.fsum(stated for _, stated in pairs), 6),
        )
        for name, pairs in sorted(calls.items())
    }


def called_equations(answer: Answer) -> dict[str, set[str]]:
    """The equations that each equation calls itself."""
    with trace() as record:
        evaluate(answer.inputs, answer.evaluation.block)
    called: dict[str, set[str]] = {}
    for step in _steps(record.steps):
        called.setdefault(step.equation.name, set()).update(inner.equation.name for inner in _steps(step.beneath))
    return called


def _steps(steps: Sequence[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        yield from _steps(step.beneath)


def _of_inputs(inputs: Iterable[Origin]) -> float:
    """A checksum of inputs that depends on their order, so that 8 × 256 differs from 16 × 128."""
    mixed = math.fsum(math.sqrt(place + 2) * _of_number(origin.value) for place, origin in enumerate(inputs))
    return mixed + mixed * mixed / 100


def _of_number(value: Any) -> float:
    """The logarithm for a checksum, so that small numbers count as much; constants for zero and non-finite ones."""
    plain = float(np.asarray(value, dtype=np.float64).flat[0])
    if not math.isfinite(plain):
        return _NOT_FINITE
    return math.log(abs(plain)) if plain else _ZERO


def _of_choices(choices: dict[str, Any]) -> float:
    return float(zlib.crc32(repr(sorted((name, str(value)) for name, value in choices.items())).encode()) % 1000)
