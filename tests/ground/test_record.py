"""Records behave as frozen dataclasses do, whose functions are made for each class."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import pytest

from costmodel.ground import record as records
from costmodel.ground.record import record


class _Fields:
    size: float
    name: str = "a"
    text: str = field(default="", repr=False, compare=False)


def _made(decorator: Any) -> Any:
    """A class of these fields."""
    return decorator(type("Made", (), {**vars(_Fields), "__annotations__": _Fields.__annotations__, "__doc__": "One."}))


RECORD, DATACLASS = _made(record), _made(dataclass(frozen=True))
VALUES = [(1.0,), (1.0, "b"), (2.0,), (float("nan"),), (1.0, "a", "seen by nobody")]


@pytest.mark.parametrize("one", VALUES)
@pytest.mark.parametrize("other", VALUES)
def test_records_are_equal_where_dataclasses_are(one: Any, other: Any) -> None:
    assert (RECORD(*one) == RECORD(*other)) == (DATACLASS(*one) == DATACLASS(*other))
    assert hash(RECORD(*one)) == hash(DATACLASS(*one))
    assert repr(RECORD(*one)) == repr(DATACLASS(*one))
    assert replace(RECORD(*one), size=3.0).size == replace(DATACLASS(*one), size=3.0).size


def test_a_record_differs_from_one_of_another_class() -> None:
    inherited = record(type("Inherited", (RECORD,), {"__doc__": "One."}))
    assert RECORD(1.0) != inherited(1.0)
    assert RECORD(1.0) != 1.0


def test_a_record_keeps_its_own_functions() -> None:
    @record
    class Shown:
        size: float

        def __repr__(self) -> str:
            return "shown"

    assert (repr(Shown(1.0)), Shown(1.0) == Shown(1.0)) == ("shown", True)


def test_records_without_fields_are_equal() -> None:
    @record
    class Nothing:
        """None."""

    assert {Nothing(), Nothing()} == {Nothing()}


def test_a_record_is_compiled_where_many_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[type] = []
    compiled = records.dataclass
    monkeypatch.setattr(records, "dataclass", lambda **how: lambda kind: made.append(kind) or compiled(**how)(kind))
    kind, other = _made(record), _made(record)
    assert kind(1.0).size == 1.0
    assert made == []
    several = [kind(2.0, text="c") for _ in range(records._FEW)]
    assert {(one.size, one.name, one.text) for one in several} == {(2.0, "a", "c")}
    assert made == [kind]
    assert [part.name for part in fields(other)] == ["size", "name", "text"]
    assert made == [kind, other]


@pytest.mark.parametrize("values", [(), (1.0, "a", "b", "c")])
@pytest.mark.parametrize("named", [{}, {"size": 2.0}, {"other": 1}])
def test_the_first_record_refuses_what_a_dataclass_refuses(values: Any, named: Any) -> None:
    def outcome(kind: Any) -> str:
        try:
            return repr(kind(*values, **named))
        except TypeError as error:
            return str(error)

    assert outcome(_made(record)) == outcome(DATACLASS)


def test_the_first_record_sets_what_later_ones_set() -> None:
    @record
    class Base:
        size: float
        kept: ClassVar[int] = 3
        parts: list[int] = field(default_factory=list)

    @record
    class Longer(Base):
        size: float = 1.0
        more: int = field(default=2, compare=False)
        last: int = field(default=4, kw_only=True)

    @record
    class After(Base):
        more: int = 2

    assert [vars(Longer()) for _ in range(records._FEW + 2)][:: records._FEW + 1] == [
        {"size": 1.0, "parts": [], "more": 2, "last": 4}
    ] * 2
    first, second = Base(1.0), Base(1.0)
    assert first.parts is not second.parts
    assert fields(Base)
    assert vars(After(2.0, [1])) == {"size": 2.0, "parts": [1], "more": 2}
