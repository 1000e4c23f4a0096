"""Closed forms that know their own docstring, and the trace of real calls.

An equation is a pure function on numbers, scalar or array. Outside `trace()` the decorator costs one look at a
variable. Inside, each number carries its origin through the composition. So every result leads back to the
documents: equation, inputs, units, sources; nothing is implemented twice.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.ground.errors import fail
from costmodel.ground.record import record
from costmodel.ground.units import Figure, Total

Number = float | NDArray[np.float64]

P = ParamSpec("P")
R = TypeVar("R")

_SECTIONS = ("Source", "Holds", "Pitfall", "Monotone")
_ARGUMENT = re.compile(r"(\w+)(?: ((?:Σ )?[^\s:\[][^\s:]*))?(?: \[([^\]]+)\])?(?:: (.+))?")
_RETURN = re.compile(r"(.+?)(?: \[([^\]]+)\])?")


@record
class Argument:
    """One argument as its docstring declares it; `unit` is None for a choice.

    If `words` is empty, the meaning comes from the glossary entry for its name.
    """

    name: str
    words: str
    symbol: str
    unit: str | None


@record
class Contract:
    """The parts of an equation's docstring, in the form that `parse_contract` reads."""

    title: str
    formula: str
    arguments: tuple[Argument, ...]
    meaning: str
    unit: str
    source: str
    holds: str
    monotone: str
    pitfall: str = ""


@dataclass(frozen=True, eq=False)
class Equation:
    """A closed form in the registry, with its docstring and signature."""

    function: Callable[..., Any]

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    @property
    def room(self) -> str:
        """The module of the equation, without the package name."""
        return self.function.__module__.removeprefix("costmodel.")

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The function's signature."""
        return inspect.signature(self.function)

    @functools.cached_property
    def arguments(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The defaults of the function's arguments by name: of its inputs, and of its choices, which are keywords."""
        inputs, choices = dict[str, Any](), dict[str, Any]()
        for name, parameter in self.signature.parameters.items():
            chosen = parameter.kind is inspect.Parameter.KEYWORD_ONLY
            (choices if chosen else inputs)[name] = parameter.default
        return inputs, choices

    @functools.cached_property
    def contract(self) -> Contract:
        """The parsed docstring; a fault if Python dropped docstrings."""
        if sys.flags.optimize > 1:
            hint = "run without -OO and with PYTHONOPTIMIZE unset; -O works"
            raise fail("C022", "python -OO removes the docstrings that this answer explains equations with", None, hint)
        return parse_contract(inspect.getdoc(self.function) or "", self.arguments[1])


EQUATIONS: dict[str, Equation] = {}


def parse_contract(doc: str, choices: Collection[str] = ()) -> Contract:
    """Take the docstring of an equation apart.

        Title, a sentence.

        formula

        name symbol [unit]: words · choice: words
        name symbol → what it gives [unit]
        Source: key §2; key
        Holds: under which conditions; then Pitfall and Monotone, all three optional
        >>> example

    A pure number has no unit in brackets; `choices` are the arguments that are no numbers. An argument without words
    means what the vocabulary has under its name.
    """
    title, *formula = doc.split("\n\n")
    lines = formula.pop().splitlines() if formula else []
    sections: dict[str, list[str]] = {"": []}
    current = ""
    for line in itertools.takewhile(lambda line: not line.startswith(">>>"), lines):
        head, colon, rest = line.partition(": ")
        if colon and head in _SECTIONS:
            current, line = head, rest
        sections.setdefault(current, []).append(line.strip())
    given, _, gives = "\n".join(sections[""]).partition("→ ")
    declared = filter(None, (_ARGUMENT.fullmatch(item) for item in re.split(r" · |\n", given.strip())))
    returned = _RETURN.fullmatch(gives)
    source, holds, pitfall, monotone = (" ".join(sections.get(name, ())) for name in _SECTIONS)
    return Contract(
        title=title,
        formula="\n".join(formula),
        arguments=tuple(
            Argument(name, words or "", symbol or "", unit or (None if name in choices else "1"))
            for name, symbol, unit, words in (match.groups() for match in declared)
        ),
        meaning=returned[1] if returned else "",
        unit=returned[2] or "1" if returned else "",
        source=source,
        holds=holds,
        monotone=monotone,
        pitfall=pitfall,
    )


@dataclass(eq=False)
class Leaf:
    """A number from outside the equations: from a document, a plan or a literal."""

    name: str
    value: float
    figure: Figure | None = None


@dataclass(eq=False)
class Combined:
    """The result of arithmetic, comparison or selection outside equations."""

    operation: str
    parts: list[Origin]
    value: Any
    labels: tuple[str, ...] = ()


@dataclass(eq=False)
class Step:
    """One call of one equation."""

    equation: Equation
    labels: tuple[str, ...]
    inputs: dict[str, Origin] = field(default_factory=dict)
    choices: dict[str, Any] = field(default_factory=dict)
    beneath: list[Step] = field(default_factory=list)
    value: Any = None


@dataclass(eq=False)
class Named:
    """A figure with the name that answers show."""

    name: str
    of: Origin

    @property
    def value(self) -> Any:
        """The value of the figure."""
        return self.of.value


Origin = Leaf | Combined | Step | Named


class Traced(np.ndarray):
    """An array that remembers its origin; exists only inside `trace()`.

    For example, in a trace `layers * layer_time(...)` gives a `Traced` array. Its `origin` is a `Combined` of two
    parts: the `Leaf` for `layers` with its line in the YAML file, and the `Step` for the call of `layer_time` with its
    inputs. `explain` prints this tree. NumPy operations work as on any array, because `__array_ufunc__` records each of
    them.
    """

    origin: Origin

    def __array_finalize__(self, parent: Any) -> None:
        if isinstance(parent, Traced) and hasattr(parent, "origin"):
            self.origin = parent.origin

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        kwargs.pop("out", None)
        result = getattr(ufunc, method)(*map(_bare, inputs), **kwargs)
        return _with_origin(
            result, Combined(ufunc.__name__, [origin_of(item) for item in inputs], result, _labels.get())
        )

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        result = function(*_bare_all(args), **{key: _bare(item) for key, item in kwargs.items()})
        if not isinstance(result, np.ndarray | np.generic):
            return result
        parts = [origin_of(item) for item in _flat(args)]
        return _with_origin(result, Combined(function.__name__, parts, result, _labels.get()))


def _bare(item: Any) -> Any:
    return item.view(np.ndarray) if isinstance(item, Traced) else item


def _bare_all(items: Any) -> Any:
    return type(items)(_bare_all(item) if isinstance(item, list | tuple) else _bare(item) for item in items)


def _flat(items: Any) -> Iterator[Any]:
    for item in items:
        if isinstance(item, list | tuple):
            yield from _flat(item)
        elif isinstance(item, float | int | np.ndarray | np.generic):
            yield item


def _with_origin(value: Any, origin: Origin) -> Traced:
    traced = np.asarray(value).view(Traced)
    traced.origin = origin
    return traced


def origin_of(value: Any, name: str = "") -> Origin:
    """The origin of a number; a number without one becomes a leaf."""
    if isinstance(value, Traced):
        return value.origin
    if type(value) is float:
        return Leaf(name, value)
    if isinstance(value, Total):
        return Combined(value.operation, [origin_of(part) for part in value.parts], float(value), _labels.get())
    if isinstance(value, Figure):
        return Leaf(name, float(value), value)
    scalar = float(np.asarray(value).flat[0]) if np.size(value) else float("nan")
    return Leaf(name, scalar)


def leaf(value: Any, name: str, figure: Figure | None = None) -> Traced:
    """A number from outside the equations, with its origin for the trace."""
    return _with_origin(np.asarray(value, dtype=np.float64), Leaf(name, float(np.asarray(value).flat[0]), figure))


class Trace:
    """The record of one traced evaluation."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.open: list[Step] = []

    def call(self, equation: Equation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the equation and record its inputs and its result."""
        step, (inputs, choices) = Step(equation, _labels.get()), equation.arguments
        given = dict(zip(inputs, args, strict=False)) | kwargs
        step.inputs.update((name, origin_of(given.get(name, default), name)) for name, default in inputs.items())
        step.choices.update((name, given.get(name, default)) for name, default in choices.items())
        (self.open[-1].beneath if self.open else self.steps).append(step)
        self.open.append(step)
        try:
            step.value = _bare(equation.function(*args, **kwargs))
        finally:
            self.open.pop()
        return _with_origin(step.value, step)


_trace: ContextVar[Trace | None] = ContextVar("trace", default=None)
_labels: ContextVar[tuple[str, ...]] = ContextVar("labels", default=())


def equation(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator that registers a closed form, so that `trace()` can record its calls."""
    registered = Equation(function)
    EQUATIONS[function.__name__] = registered

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        recorder = _trace.get()
        if recorder is None:
            return function(*args, **kwargs)
        result: R = recorder.call(registered, args, kwargs)
        return result

    return call


@contextmanager
def trace() -> Iterator[Trace]:
    """Record every equation call made inside, with its inputs and the calls below it."""
    recorder = Trace()
    token = _trace.set(recorder)
    try:
        yield recorder
    finally:
        _trace.reset(token)


@contextmanager
def untraced() -> Iterator[None]:
    """Suspend the trace, for example during a numeric search: only the final evaluation is recorded."""
    token = _trace.set(None)
    try:
        yield
    finally:
        _trace.reset(token)


def tracing() -> bool:
    """Whether a trace is being recorded."""
    return _trace.get() is not None


def term(label: str) -> AbstractContextManager[None]:
    """Labels the equation calls made inside, to distinguish repeated calls of one equation."""
    return _UNTOLD if _trace.get() is None else _labelled(label)


def known_as(name: str, value: Number) -> Number:
    """A figure that the trace shows under a name; a plain number without an origin stays unnamed."""
    if _trace.get() is None or type(value) is float:
        return value
    return _with_origin(_bare(value), Named(name, origin_of(value)))


def sum_of_rows(values: Number) -> Number:
    """The sum over the rows of one plan, such as the stretches of a long answer; plans are in the axes before."""
    total = np.sum(_bare(values), axis=-1)
    if _trace.get() is None:
        return total if total.ndim else float(total)
    return _with_origin(total, Combined("sum", [origin_of(values)], total, _labels.get()))


def is_any(number: Number) -> bool:
    """Whether a number of any row is not 0, sooner than `np.any` knows it of one number or of few.

    >>> is_any(0.0), is_any(0.5), is_any(np.array([0.0, 1.0]))
    (False, True, True)
    """
    return bool(number.any()) if isinstance(number, np.ndarray) else bool(number)


_UNTOLD = nullcontext()


@contextmanager
def _labelled(label: str) -> Iterator[None]:
    token = _labels.set((*_labels.get(), label))
    try:
        yield
    finally:
        _labels.reset(token)
