"""The operations of a traced step as points of a roofline: work, bytes and time of one call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from costmodel.documents.schemas.results import TRAINING_COLUMNS
from costmodel.equations.run.economics import rate, share
from costmodel.estimate.evaluate.evaluate_plans import TERM_COLUMNS, Evaluation
from costmodel.estimate.shared.results import number
from costmodel.explore.explain.explain import Book, ExplainedFigure, trees_of
from costmodel.ground.equation import Combined, Leaf, Named, Origin, Step, origin_of
from costmodel.ground.record import record

PRODUCTS = {"matmul_time": "matmul"}


@record
class Operation:
    """One matrix product: its name, FLOP, bytes and seconds, and the peak of its number type."""

    name: str
    flop: float
    nbytes: float
    seconds: float
    peak: float
    bandwidth: float
    step: Step = field(repr=False, compare=False)

    @property
    def intensity(self) -> float:
        """FLOP for each byte."""
        return float(share(self.flop, self.nbytes))

    @property
    def attained(self) -> float:
        """FLOP a second."""
        return float(rate(self.flop, self.seconds))


@record
class Roof:
    """The two limits of an accelerator for one type, and the intensity at which they meet."""

    peak: float
    bandwidth: float

    @property
    def ridge(self) -> float:
        """FLOP for each byte from which compute is the limit."""
        return float(share(self.peak, self.bandwidth))


def operations(evaluation: Evaluation, most: int = 40) -> list[Operation]:
    """The distinct matrix products behind the step time of a traced evaluation, those that take longest first."""
    found: dict[str, Operation] = {}
    for step in _steps(origin_of(evaluation.costs.columns["step_time"])):
        if step.equation.name not in PRODUCTS:
            continue
        inputs = {name: number(origin.value) for name, origin in step.inputs.items()}
        seconds = number(step.value)
        if min(inputs["flop"], inputs["nbytes"], seconds) <= 0:
            continue
        name = ", ".join(step.labels) or step.equation.name
        sizes = (inputs["flop"], inputs["nbytes"], seconds, inputs["peak"], inputs["bandwidth"])
        found.setdefault(name, Operation(name, *sizes, step))
    return sorted(found.values(), key=lambda item: -item.seconds)[:most]


def operation_nodes(trees: dict[str, Any], found: list[Operation]) -> dict[str, ExplainedFigure]:
    """The trees of the figures of operations: `operations.0.seconds`, `.intensity`, `.attained` and `.of_peak`."""
    nodes: dict[str, ExplainedFigure] = {}
    book = Book(trees, TRAINING_COLUMNS, TERM_COLUMNS)
    units = {"seconds": "s", "flop": "FLOP", "nbytes": "B", "peak": "FLOP/s"}
    for place, item in enumerate(found):
        origins: dict[str, Origin] = {"seconds": item.step}
        origins |= {name: item.step.inputs[name] for name in ("flop", "nbytes", "peak")}
        known = trees_of(book, origins, units)
        attained = ExplainedFigure("attained", item.attained, "FLOP/s", operation="quotient",
                                   beneath=[known["flop"], known["seconds"]])  # fmt: skip
        ratios = {"intensity": ("FLOP/B", item.intensity, [known["flop"], known["nbytes"]]),
                  "of_peak": ("1", item.attained / item.peak, [attained, known["peak"]])}  # fmt: skip
        made = {name: ExplainedFigure(name, value, unit, operation="quotient", beneath=inner)
                for name, (unit, value, inner) in ratios.items()}  # fmt: skip
        figures = {"seconds": known["seconds"], "attained": attained, **made}
        nodes |= {f"operations.{place}.{name}": node for name, node in figures.items()}
    return nodes


def roofs(found: list[Operation]) -> list[Roof]:
    """The roofs that these operations have, the highest first."""
    made = {(item.peak, item.bandwidth) for item in found}
    return [Roof(*limits) for limits in sorted(made, reverse=True)]


def _steps(start: Origin) -> Iterator[Step]:
    """The equation calls behind a figure, each once."""
    waiting, seen = [start], {id(start)}
    while waiting:
        origin = waiting.pop()
        if isinstance(origin, Step):
            yield origin
        for part in _parts(origin):
            if id(part) not in seen:
                seen.add(id(part))
                waiting.append(part)


def _parts(origin: Origin) -> list[Origin]:
    if isinstance(origin, Leaf):
        return []
    if isinstance(origin, Named):
        return [origin.of]
    return list(origin.parts) if isinstance(origin, Combined) else list(origin.inputs.values())
