"""Records: classes of named values that stay as they are made.

`dataclass(frozen=True)` writes and compiles six functions for each class: half a millisecond, and behind an answer are
hundreds of classes. Each record has its own `__init__`, compiled when the first one is made, which half
of them never are; the others are shared.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

_ONE_AT_A_TIME = threading.RLock()  # one is completed with those that it extends
_FEW = 20  # records of a class that are made before its `__init__` is compiled
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
    unmade.__init__ = _first_init(made)
    return made


def _first_init(made: Any) -> Callable[..., None]:
    """The `__init__` of a record until it is compiled."""
    before = 0

    def init(self: Any, *values: Any, **named: Any) -> None:
        nonlocal before
        before += 1
        known = _defaults(made) if before <= _FEW else None
        if known is None or not _set(self, known, values, named):
            _complete_class(made).__init__(self, *values, **named)

    return init


@functools.cache
def _defaults(made: Any) -> dict[str, Any] | None:
    """The fields of a record with their defaults; None if a dataclass has to set them."""
    known: dict[str, Any] = {}
    for kind in reversed(made.__mro__):
        inside = kind.__dict__
        if not isinstance(inside.get("__dataclass_fields__"), _Unmade):
            known |= {one.name: one for one in fields(kind)} if "__dataclass_fields__" in inside else {}
            continue
        written = inside.get("__annotations__", {})
        known |= {name: inside.get(name, MISSING) for name in written if "ClassVar" not in str(written[name])}
    special = any(isinstance(one, Field) and (not one.init or one.kw_only is True) for one in known.values())
    return None if special or hasattr(made, "__post_init__") else known


def _set(made: Any, known: Mapping[str, Any], values: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Set the fields of a record; False if the arguments do not match them."""
    given = {**dict(zip(known, values, strict=False)), **named}
    if len(given) < len(values) + len(named) or not given.keys() <= known.keys():
        return False
    for name, default in known.items():
        if name in given:
            value = given[name]
        elif isinstance(default, Field):
            value = default.default if default.default_factory is MISSING else default.default_factory()
        else:
            value = default
        if value is MISSING:
            return False
        setattr(made, name, value)
    return True


class _Unmade:
    """A placeholder for a record's dataclass fields until they are first used."""

    def __init__(self, made: type) -> None:
        self.made = made

    def __get__(self, _: Any, owner: type) -> Any:
        return _complete_class(self.made).__dataclass_fields__


def _complete_class(made: Any) -> Any:
    """The record's class, turned into a dataclass on first use."""
    with _ONE_AT_A_TIME:
        if isinstance(made.__dict__["__dataclass_fields__"], _Unmade):
            del made.__dataclass_fields__, made.__init__
            dataclass(eq=False, repr=False)(made)
    return made


@functools.cache
def _compared_fields(made: Any) -> Callable[[Any], Any]:
    """A function that reads the fields by which a record is compared."""
    names = [one.name for one in fields(made) if one.compare]
    return attrgetter(*names) if names else lambda _: ()


def _equal(one: Any, other: Any) -> Any:
    """Whether two records have the same class and equal compared fields."""
    if one.__class__ is not other.__class__:
        return NotImplemented
    values = _compared_fields(one.__class__)
    return values(one) == values(other)


def _hash(one: Any) -> int:
    """The hash of the compared fields."""
    return hash(_compared_fields(one.__class__)(one))


def _text(one: Any) -> str:
    """The class and fields of a record, as in code."""
    shown = (f"{part.name}={getattr(one, part.name)!r}" for part in fields(one) if part.repr)
    return f"{type(one).__qualname__}({', '.join(shown)})"


_SHARED = {"__eq__": _equal, "__hash__": _hash, "__repr__": _text}
