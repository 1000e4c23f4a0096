"""The decorator costs nothing outside a trace; inside, every number tells where it came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.ground.equation import (
    EQUATIONS,
    Combined,
    Leaf,
    Named,
    Step,
    Traced,
    equation,
    known_as,
    leaf,
    origin_of,
    parse_contract,
    term,
    trace,
    tracing,
)
from costmodel.ground.errors import Place
from costmodel.ground.units import Figure

PLACE = Place("fabric.yaml", 4, 12, "bandwidth")


@pytest.fixture(scope="module")
def toy() -> Iterator[SimpleNamespace]:
    """Three equations, one built on another, that leave the registry as it was."""
    before = dict(EQUATIONS)

    @equation
    def toy_wire(message: Any, ranks: Any) -> Any:
        """Bytes a rank sends.

        S (n − 1) / n

        message S [B]: what each rank holds · ranks n → bytes [B]
        Source: thakur-2005
        """
        return message * (ranks - 1) / ranks

    @equation
    def toy_time(message: Any, ranks: Any, bandwidth: Any = 1e9, *, twice: bool = False) -> Any:
        """Time of a toy.

        message [B]: what each rank holds, S: its share · ranks n
        bandwidth E[B] [B/s]: of one rank, one way · twice: there and back
        → from first send to last receive [s]
        Source: composition
        Holds: S / n is large
            and n > 1
        Monotone: increasing in message; decreasing in bandwidth
        >>> toy_time(1e9, 8.0)
        0.875
        """
        time = toy_wire(message, ranks) / bandwidth
        return 2 * time if twice else time

    @equation
    def toy_sum(first: Any, second: Any) -> Any:
        return np.where(first > second, first, second) + np.sqrt(second)

    yield SimpleNamespace(wire=toy_wire, time=toy_time, sum=toy_sum)
    EQUATIONS.clear()
    EQUATIONS.update(before)


def test_outside_a_trace_it_is_the_function_itself() -> None:
    given_ = []

    def probe(number: Any, *, choice: str = "a") -> Any:
        given_.append((number, choice))
        return answer

    answer, number = object(), Figure(1.0, PLACE)
    try:
        assert equation(probe)(number, choice="b") is answer
        assert given_[0][0] is number
        assert given_[0][1] == "b"
        registered = EQUATIONS["probe"]
        assert registered.function is probe
        assert "contract" not in vars(registered), "the docstring is read before anyone asks"
        assert "signature" not in vars(registered), "the signature is read before anyone asks"
    finally:
        del EQUATIONS["probe"]


def test_outside_a_trace_numbers_stay_plain(toy: SimpleNamespace) -> None:
    assert not tracing()
    assert type(toy.time(1e9, 8.0)) is float
    assert type(toy.time(np.array([1e9, 2e9]), 8.0)) is np.ndarray
    with term("nothing listens"):
        assert toy.time(1e9, 8.0) == 0.875


def test_the_wrapper_looks_like_the_function(toy: SimpleNamespace) -> None:
    assert toy.time.__name__ == "toy_time"
    assert toy.time.__doc__.startswith("Time of a toy.")


def test_the_contract_is_the_docstring_taken_apart(toy: SimpleNamespace) -> None:
    contract = EQUATIONS["toy_time"].contract
    assert contract.title == "Time of a toy."
    assert contract.formula == ""
    assert [(item.name, item.symbol, item.unit, item.words) for item in contract.arguments] == [
        ("message", "", "B", "what each rank holds, S: its share"),
        ("ranks", "n", "1", ""),
        ("bandwidth", "E[B]", "B/s", "of one rank, one way"),
        ("twice", "", None, "there and back"),
    ]
    assert (contract.meaning, contract.unit) == ("from first send to last receive", "s")
    assert contract.holds == "S / n is large and n > 1"
    assert contract.source == "composition"
    assert contract.monotone == "increasing in message; decreasing in bandwidth"
    assert EQUATIONS["toy_wire"].contract.formula == "S (n − 1) / n"
    assert parse_contract("").title == ""


def test_a_trace_records_steps(toy: SimpleNamespace) -> None:
    with trace() as recorder:
        assert tracing()
        result = toy.time(1e9, 8.0, twice=True)
    assert not tracing()
    (step,) = recorder.steps
    assert step.equation is EQUATIONS["toy_time"]
    assert list(step.inputs) == ["message", "ranks", "bandwidth"]
    assert step.choices == {"twice": True}
    assert float(step.value) == float(result) == 1.75
    (beneath,) = step.beneath
    assert beneath.equation is EQUATIONS["toy_wire"]
    assert float(beneath.value) == 8.75e8
    assert not isinstance(step.value, Traced)


def test_defaults_and_keywords_are_recorded_by_name(toy: SimpleNamespace) -> None:
    with trace() as recorder:
        toy.time(ranks=8.0, message=1e9)
    inputs = recorder.steps[0].inputs
    assert list(inputs) == ["message", "ranks", "bandwidth"]
    assert [item.value for item in inputs.values() if isinstance(item, Leaf)] == [1e9, 8.0, 1e9]
    assert recorder.steps[0].choices == {"twice": False}


def test_a_figure_leads_to_its_place(toy: SimpleNamespace) -> None:
    figure = Figure(360e9, PLACE)
    with trace() as recorder:
        toy.time(leaf(1e9, "plan.message", figure), 8.0, figure)
    inputs = recorder.steps[0].inputs
    bandwidth, message, ranks = inputs["bandwidth"], inputs["message"], inputs["ranks"]
    assert isinstance(bandwidth, Leaf)
    assert bandwidth.figure is not None
    assert (bandwidth.name, bandwidth.value, bandwidth.figure.place) == ("bandwidth", 360e9, PLACE)
    assert isinstance(message, Leaf)
    assert (message.name, message.figure) == ("plan.message", figure)
    assert isinstance(ranks, Leaf)
    assert (ranks.name, ranks.value, ranks.figure) == ("ranks", 8.0, None)


def test_a_result_that_is_an_input_leads_to_its_step(toy: SimpleNamespace) -> None:
    with trace() as recorder:
        wire = toy.wire(1e9, 8.0)
        toy.time(wire, 8.0)
    origin = recorder.steps[1].inputs["message"]
    assert origin is recorder.steps[0]
    assert isinstance(origin, Step)


@pytest.mark.parametrize(
    ("operation", "compose"),
    [
        ("add", lambda a, b: a + b),
        ("subtract", lambda a, b: a - b),
        ("maximum", np.maximum),
        ("minimum", np.minimum),
        ("add", lambda a, b: np.add(a, b)),
    ],
)
def test_composition_leaves_sums(toy: SimpleNamespace, operation: str, compose: Callable[[Any, Any], Any]) -> None:
    with trace() as recorder:
        first, second = toy.time(1e9, 8.0), toy.time(2e9, 8.0)
        total = compose(first, second)
    assert len(recorder.steps) == 2, "composition is no equation"
    origin = origin_of(total)
    assert isinstance(origin, Combined)
    assert origin.operation == operation
    assert origin.parts == recorder.steps
    assert float(origin.value) == float(compose(0.875, 1.75))


def test_sums_of_python_and_numpy_numbers(toy: SimpleNamespace) -> None:
    with trace() as recorder:
        time = toy.time(1e9, 8.0)
        total = sum([time, 1.0])
        chosen = np.where(time > 0, time, 0.0)
        stacked = np.concatenate([np.atleast_1d(time), np.array([3.0])])
    outer = origin_of(total)
    assert isinstance(outer, Combined)
    assert isinstance(outer.parts[1], Leaf)
    assert outer.parts[1].value == 1.0
    inner = outer.parts[0]
    assert isinstance(inner, Combined)
    assert inner.parts[1] is recorder.steps[0]
    where, pile = origin_of(chosen), origin_of(stacked)
    assert isinstance(where, Combined)
    assert where.operation == "where"
    assert recorder.steps[0] in where.parts
    assert isinstance(pile, Combined)
    assert pile.operation == "concatenate"
    assert stacked.tolist() == [0.875, 3.0]


def test_a_choice_keeps_what_was_asked(toy: SimpleNamespace) -> None:
    with trace():
        time = toy.time(1e9, 8.0)
        chosen = np.where(np.bool_(True), time, 0.0)
    origin = origin_of(chosen)
    assert isinstance(origin, Combined)
    assert [item.value for item in origin.parts] == [1.0, 0.875, 0.0]


def test_a_figure_has_the_name_it_is_known_by(toy: SimpleNamespace) -> None:
    plain = toy.time(1e9, 8.0)
    assert known_as("toy", plain) is plain
    with trace() as recorder:
        named = known_as("toy", toy.time(1e9, 8.0))
        assert type(known_as("nothing", 0.0)) is float
    origin = origin_of(named)
    assert isinstance(origin, Named)
    assert (origin.name, origin.of, origin.value, float(named)) == ("toy", recorder.steps[0], 0.875, 0.875)


def test_adding_on_leaves_a_sum_and_the_first_number_alone(toy: SimpleNamespace) -> None:
    with trace() as recorder:
        first = total = toy.time(1e9, 8.0)
        total += toy.time(2e9, 8.0)
    origin = origin_of(total)
    assert isinstance(origin, Combined)
    assert origin.parts == recorder.steps
    assert (float(first), float(total)) == (0.875, 2.625)


def test_what_an_equation_does_inside_is_not_the_callers_sum(toy: SimpleNamespace) -> None:
    with trace() as recorder:
        result = toy.sum(toy.time(1e9, 8.0), 4.0)
    assert origin_of(result) is recorder.steps[1]
    assert float(result) == 6.0


def test_terms_name_the_calls_inside_them(toy: SimpleNamespace) -> None:
    with trace() as recorder:
        toy.wire(1.0, 2.0)
        with term("communication"):
            with term("tp all-reduce"):
                toy.time(1.0, 2.0)
            toy.wire(1.0, 2.0)
        toy.wire(1.0, 2.0)
    assert [step.labels for step in recorder.steps] == [(), ("communication", "tp all-reduce"), ("communication",), ()]
    assert recorder.steps[1].beneath[0].labels == ("communication", "tp all-reduce")


def test_a_fault_inside_leaves_no_trace_behind(toy: SimpleNamespace) -> None:
    with pytest.raises(ZeroDivisionError), trace() as recorder, term("lost"):
        toy.wire(1, 0)
    assert not tracing()
    assert recorder.open == []
    with trace() as second:
        toy.wire(1.0, 2.0)
    assert second.steps[0].labels == ()
    assert len(recorder.steps) == 1


def test_a_trace_in_a_trace_is_its_own(toy: SimpleNamespace) -> None:
    with trace() as outer:
        toy.wire(1.0, 2.0)
        with trace() as inner:
            toy.wire(1.0, 4.0)
        toy.wire(1.0, 8.0)
    assert (len(outer.steps), len(inner.steps)) == (2, 1)


def _composed(toy: SimpleNamespace, message: Any, ranks: Any, bandwidth: Any) -> Any:
    with term("there"):
        there = toy.time(message, ranks, bandwidth)
    with term("and back"):
        back = toy.time(toy.wire(message, ranks), ranks, bandwidth, twice=True)
    return toy.sum(there, back) + np.maximum(there, back) - np.minimum(there, 1.0)


_sizes = st.lists(st.floats(1.0, 1e12), min_size=3, max_size=3)
_ranks = st.lists(st.integers(1, 1024).map(float), min_size=3, max_size=3)


@settings(derandomize=True, database=None)
@given(_sizes, _ranks, st.floats(1e6, 1e13))
def test_a_traced_result_is_the_plain_result(
    toy: SimpleNamespace, sizes: list[float], ranks: list[float], bandwidth: float
) -> None:
    table = np.array(sizes), np.array(ranks), bandwidth
    plain = _composed(toy, *table)
    with trace() as recorder:
        traced = _composed(toy, *table)
        row = _composed(toy, sizes[0], ranks[0], Figure(bandwidth, PLACE))
    assert isinstance(traced, Traced)
    assert np.array_equal(np.asarray(traced), plain)
    assert float(row) == pytest.approx(float(plain[0]), rel=1e-12)
    assert len(recorder.steps) == 8
