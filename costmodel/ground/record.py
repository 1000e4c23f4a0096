"""Records: classes of named values that stay as they are made.

`dataclass(frozen=True)` writes and compiles six functions for each class: half a millisecond, and behind an answer are
hundreds of classes. Each record has its own `__init__`, compiled when the first one is made, which half
of them never are; the others are shared.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

_ONE_AT_A_TIME = threading.RLock()  # one is completed with those that it extends
_Class = TypeVar("_Class", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(made: _Class) -> _Class:
    """A frozen-style dataclass decorator that is fast to import; only mypy checks that fields are not assigned.

    >>> @record
    ... class Link:
    ...     name: str
    ...     lanes: int = 1
    >>> Link("nvlink"), Link("nvlink") == Link("nvlink", 1), hash(Link("a")) == hash(Link("a"))
    (Link(name='nvlink', lanes=1), True, True)
    """
    for name, shared in _SHARED.items():
        if name not in made.__dict__:
            setattr(made, name, shared)
    unmade: Any = made
    unmade.__dataclass_fields__ = _Unmade(made)
    unmade.__init__ = lambda self, *values, **named: _completed(made).__init__(self, *values, **named)
    return made


class _Unmade:
    """A placeholder for a record's dataclass fields until they are first used."""

    def __init__(self, made: type) -> None:
        self.made = made

    def __get__(self, _: Any, owner: type) -> Any:
        return _completed(self.made).__dataclass_fields__


def _completed(made: Any) -> Any:
    """The record's class, turned into a dataclass on first use."""
    with _ONE_AT_A_TIME:
        if isinstance(made.__dict__["__dataclass_fields__"], _Unmade):
            del made.__dataclass_fields__, made.__init__
            dataclass(eq=False, repr=False)(made)
    return made


@functools.cache
def _compared(made: Any) -> Callable[[Any], Any]:
    """A function that reads the fields by which a record is compared."""
    names = [one.name for one in fields(made) if one.compare]
    return attrgetter(*names) if names else lambda _: ()


def _equal(one: Any, other: Any) -> Any:
    """Whether two records have the same class and equal compared fields."""
    if one.__class__ is not other.__class__:
        return NotImplemented
    values = _compared(one.__class__)
    return values(one) == values(other)


def _hash(one: Any) -> int:
    """The hash of the compared fields."""
    return hash(_compared(one.__class__)(one))


def _text(one: Any) -> str:
    """The class and fields of a record, as in code."""
    shown = (f"{part.name}={getattr(one, part.name)!r}" for part in fields(one) if part.repr)
    return f"{type(one).__qualname__}({', '.join(shown)})"


_SHARED = {"__eq__": _equal, "__hash__": _hash, "__repr__": _text}
