"""Dimensional analysis: called with quantities of its declared units, an equation answers in its declared unit."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pint
import pytest
from each import each

from costmodel.ground.equation import Equation
from costmodel.ground.parsing import parse_unit

from .catalogue import MODULES, choices, numbers, registered

BASES = ("B", "FLOP", "s", "J", "USD", "kg")
WILDCARD = "B"
CONSTANTS = {"FLOP_PER_MAC": "FLOP", "PIECE_BYTES": "B", "SECOND": "s", "FITTED_FLOP": "FLOP"}

_registry: Any = pint.UnitRegistry(None)
for _base in BASES:
    _registry.define(f"{_base} = [{_base}_dimension]")
_registry.define("radian = []")  # angles are numbers


def unit(text: str) -> Any:
    """A declared unit as pint's, read by the same parser as the documents'."""
    factor, dimension = parse_unit(WILDCARD if text == "u" else text)
    assert factor == 1.0
    result = _registry.Unit("")
    for base, power in dimension:
        result = result * _registry.Unit(base) ** power
    return result


def quantity(value: float, text: str) -> Any:
    """A number with a declared unit."""
    return _registry.Quantity(value, unit(text))


def dimension_fault(
    function: Callable[..., Any], units: list[str], returned: str, picked: dict[str, Any] | None = None
) -> str:
    """Why the function does not turn these units into that one; empty when it does."""
    samples = [quantity(value, text) for value, text in zip(_samples(len(units)), units, strict=True)]
    try:
        with np.errstate(all="ignore"):
            result = function(*samples, **(picked or {}))
    except (pint.PintError, pint.UnitStrippedWarning) as error:
        return str(error)
    if not isinstance(result, _registry.Quantity):
        if np.all(result == 0):  # nothing is nothing in any unit
            return ""
        result = _registry.Quantity(result, "")
    found, wanted = dict(result.dimensionality), dict(unit(returned).dimensionality)
    same = all(abs(found.get(base, 0) - wanted.get(base, 0)) < 1e-9 for base in {*found, *wanted})
    return "" if same else f"answers in [{result.units}], declares [{returned}]"


def _samples(count: int) -> list[float]:
    return [float(value) for value in np.linspace(2.0, 8.0, max(count, 2))[:count]]


@pytest.fixture(autouse=True)
def constants_are_quantities(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, (name, text) in itertools.product(MODULES, CONSTANTS.items()):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, quantity(float(getattr(module, name)), text))


@each("equation", registered())
def test_units_agree(equation: Equation) -> None:
    units = [argument.unit or "" for argument in numbers(equation)]
    faults = {}
    for picked in choices(equation):
        fault = dimension_fault(equation.function, units, equation.contract.unit, picked)
        if fault:
            faults[str(picked)] = fault
    assert faults == {}


def test_a_right_form_passes() -> None:
    assert not dimension_fault(lambda nbytes, bandwidth, latency: latency + nbytes / bandwidth, ["B", "B/s", "s"], "s")
    assert not dimension_fault(lambda t: np.where(t > 0, np.maximum(t, 0.0), 0.0), ["s"], "s")
    assert not dimension_fault(lambda a, b, p: (a**p + b**p) ** (1 / p), ["s", "s", "1"], "s")
    assert not dimension_fault(lambda a, b: a / b, ["u", "u"], "1")
    assert not dimension_fault(lambda a, w: w * a, ["1", "J/s"], "J/s")


@pytest.mark.parametrize(
    ("function", "units", "returned"),
    [
        (lambda nbytes, bandwidth, latency: latency + nbytes * bandwidth, ["B", "B/s", "s"], "s"),
        (lambda m, n, k: 2 * m * n * k, ["1", "1", "1"], "FLOP"),
        (lambda work, nbytes: np.maximum(work, nbytes), ["FLOP", "B"], "B"),
        (lambda t: np.log2(t), ["s"], "1"),
        (lambda t: np.where(t > 0, t, 1.0), ["s"], "s"),
        (lambda t: t + 1, ["s"], "s"),
        (lambda energy, time: energy * time, ["J", "s"], "J/s"),
        (lambda t: float(t), ["s"], "s"),
        (lambda t: np.asarray(t), ["s"], "s"),
    ],
)
def test_a_planted_fault_is_caught(function: Callable[..., Any], units: list[str], returned: str) -> None:
    assert dimension_fault(function, units, returned)
