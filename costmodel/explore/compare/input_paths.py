"""Every input value of a scenario and its documents, by the path that --set would use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel

from costmodel.documents.keys import paths
from costmodel.documents.keys.paths import REFERENCES, holder
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.ground.errors import CostModelError, Place
from costmodel.ground.record import record
from costmodel.ground.units import Figure

C = TypeVar("C", bound=LoadedScenario)
Inputs = TypeVar("Inputs")
Found = TypeVar("Found")
_TALK = frozenset({"schema_", "title", "source", "sources", "check", "note", "name", "of", "vendor", "provider"})
_ASIDE = frozenset({"search", "limits", "fitted", "year", "family", "offer"})


@record
class InputValue:
    """One input value and the place where it is written."""

    value: Any
    place: Place | None = None

    @property
    def text(self) -> str:
        """The value as it is written, else as a plain number or word."""
        place = self.place
        if place is not None and place.text and isinstance(self.value, float):
            return place.text[place.column - 1 : place.column - 1 + place.width].strip("'\" ")
        if isinstance(self.value, bool):
            return str(self.value).lower()
        return f"{self.value:.10g}" if isinstance(self.value, float) else str(self.value)


def input_values(case: LoadedScenario) -> dict[str, InputValue]:
    """Every value that predictions can depend on, by path: of the scenario and of the documents that it names."""
    return dict(_walk_values(case, "", case.document))


def _walk_values(case: LoadedScenario, path: str, value: Any) -> Iterator[tuple[str, InputValue]]:
    """The values under one path of a scenario, each with its own path; follows named documents."""
    if path in REFERENCES:
        document = getattr(case, REFERENCES[path].held)
        if document is None:
            return
        named = getattr(document, "name", None) or getattr(document, "of", "")
        yield path, InputValue(str(named), getattr(value, "place", None))
        value = document
    if isinstance(value, BaseModel):
        for name, inner in value:
            if name not in _TALK and name not in _ASIDE:
                yield from _walk_values(case, f"{path}.{name}" if path else name, inner)
    elif isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from _walk_values(case, f"{path}.{key}", inner)
    elif path not in REFERENCES and value is not None:
        yield path, InputValue(value, getattr(value, "place", None))


def document_of_path(path: str) -> tuple[str, str]:
    """The attribute of a loaded scenario that holds the document of a key, and the key's path inside it."""
    above, key = holder(path)
    return REFERENCES[above].held if above else "scenario", key


def case_with_number(case: C, path: str, value: float) -> C:
    """A copy of the case with one number changed; its bounds are checked as on reading."""
    held, key = document_of_path(path)
    return replace(case, **{held: paths.changed(getattr(case, held), key, Figure(value))})


@record
class Variant:
    """A case with some numbers of its documents changed, and these numbers by path."""

    case: LoadedScenario
    figures: Mapping[str, float]


def make_variant(case: LoadedScenario, figures: Mapping[str, float]) -> Variant:
    """The case with some numbers changed and checked."""
    for path, figure in figures.items():
        case = case_with_number(case, path, figure)
    return Variant(case, figures)


def case_in_columns(case: C, variants: Sequence[Variant]) -> C:
    """The case with a column in place of each number that variants change: one row for each variant.

    Equations accept columns as well as numbers. Code that needs a single number raises a TypeError or a ValueError.
    """
    for path in dict.fromkeys(path for each in variants for path in each.figures):
        held, key = document_of_path(path)
        document = getattr(case, held)
        own = paths.at(document, key)
        if own is None:
            raise TypeError(f"{path} is no number")
        column = np.array([each.figures.get(path, own) for each in variants], dtype=np.float64)
        case = replace(case, **{held: paths.changed(document, key, column, checked=False)})
    return case


def results_in_rows(
    case: C,
    variants: Sequence[Variant],
    result: str,
    inputs_of: Callable[[C], Inputs],
    results_of: Callable[[Inputs, str, int], Sequence[float]],
) -> list[float | None]:
    """A result of every variant from one joint evaluation; None for a variant that must be evaluated alone.

    All variants have the same plan and structure. A variant whose number changes which equations apply is evaluated
    alone.
    """

    def possible(some: Sequence[Variant]) -> list[bool]:
        """Whether each variant alone is valid."""
        inputs_of(case_in_columns(case, some))
        return [True] * len(some)

    def results(some: Sequence[Variant]) -> Sequence[float]:
        """The result of each variant from one joint evaluation."""
        return results_of(inputs_of(case_in_columns(case, some)), result, len(some))

    if len(variants) == 1:
        return [None]
    rows = [each for each, is_row in zip(variants, _evaluate_or_halve(possible, variants), strict=True) if is_row]
    values = dict(zip(map(id, rows), _evaluate_or_halve(results, rows), strict=True))
    return [values.get(id(each)) for each in variants]


def _evaluate_or_halve(
    work: Callable[[Sequence[Variant]], Sequence[Found]], variants: Sequence[Variant]
) -> Sequence[Found | None]:
    """The results of all variants at once; if that fails, of each half; None for a single variant that fails."""
    try:
        return work(variants) if variants else []
    except (TypeError, ValueError, CostModelError):
        middle = len(variants) // 2
        return (
            [*_evaluate_or_halve(work, variants[:middle]), *_evaluate_or_halve(work, variants[middle:])]
            if middle
            else [None]
        )
