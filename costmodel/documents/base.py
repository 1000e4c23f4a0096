"""What every document shares: frozen, unknown keys refused, quantities with units, sources by name."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from costmodel.errors import Place
from costmodel.units import Figure, UnitError, example, parse


class Document(BaseModel):
    """A part of a document: frozen, and closed to keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=False)


_LONGEST = 60
_DIGITS = r"[0-9][0-9_,.]*([eE][-+]?[0-9]+)?"
_HUGE = 1e300  # integers have no largest; floats do


def said(value: Any) -> str:
    """A value as a sentence can name it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, float):
        return f"{value:.10g}"
    text = str(value) if isinstance(value, str) or abs(value) < _HUGE else "a number of hundreds of digits"
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return f"'{text}'" if isinstance(value, str) else text


def figure(value: Any, unit: str, sample: str = "") -> Figure:
    """A written number or quantity in SI base units, remembering where it was written."""
    place: Place | None = getattr(value, "place", None)
    sample = sample or example(unit)
    wanted = "number" if unit == "1" else "quantity"
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        words = {"wanted": wanted, "sample": sample, "given": said(value)}
        raise PydanticCustomError("quantity_type", "a {wanted} is wanted here, not {given}; write e.g. {sample}", words)
    if isinstance(value, str):
        number = _parsed(value, unit, sample)
    elif unit == "1" or isinstance(value, Figure):
        number = float(value) if isinstance(value, float) or abs(value) < _HUGE else math.inf
    else:
        words = {"sample": sample, "given": said(value)}
        raise PydanticCustomError("quantity_unit", "{given} has no unit; write e.g. {sample}", words)
    if not math.isfinite(number):
        raise PydanticCustomError("quantity_range", "a finite number is wanted here", {})
    return Figure(number, place)


def _parsed(text: str, unit: str, sample: str) -> float:
    if len(text) > _LONGEST:
        raise PydanticCustomError("quantity_unit", "this is not a quantity; write e.g. {sample}", {"sample": sample})
    try:
        return parse(text, unit)
    except UnitError as error:
        reason = str(error)
    if unit == "1":
        _, ending, spellings = reason.partition(": ") if reason.startswith("unknown unit") else ("", "", "")
        reason = f"'{text}' is not a plain number{ending}{spellings}"
    if "e.g." not in reason:
        reason += f"; write e.g. {sample}"
    raise PydanticCustomError("quantity_unit", "{reason}", {"reason": reason})


def quantity(
    unit: str,
    low: float = 0.0,
    high: float = math.inf,
    *,
    above: bool = False,
    whole: bool = False,
    written: str = "",
) -> tuple[PlainValidator, WithJsonSchema]:
    """The validator and JSON Schema of a number in `unit` between `low` and `high`; `written` is how one writes it."""
    usual = written or example(unit)
    sample = f"'{usual}'" if unit != "1" else "8" if whole else "0.81 or 81 %" if high == 1 else "1.5"
    bounds = f"{'more than' if above else 'at least'} {_bound(low, unit)}"
    bounds += "" if math.isinf(high) else f" and at most {_bound(high, unit)}"

    def validate(value: Any) -> Figure:
        number = figure(value, unit, sample)
        if number < low or (above and number <= low) or number > high:
            meant = "" if isinstance(value, str) or unit != "1" or high != 1 else _percent(number)
            words = {"given": _bare(value), "bounds": bounds + meant}
            raise PydanticCustomError("quantity_range", "{given} is out of range: {bounds}", words)
        if whole and not number.is_integer():
            given = {"given": _bare(value)}
            raise PydanticCustomError("quantity_range", "a whole number is wanted here, not {given}", given)
        return number

    if unit == "1":
        pattern = rf"^{_DIGITS} *(%|k|K|M|G|B|T|Ki|Mi|Gi|(mi|bi|tri)llion|thousand)?( *tokens?)?$"
        number = {"type": "integer" if whole else "number"}
        schema: dict[str, Any] = {"anyOf": [number, {"type": "string", "pattern": pattern}]}
    else:
        money = r"|^(\$|USD *)[0-9]" if unit.startswith("USD") else ""
        rate = "/" if unit == "1/s" else ""
        schema = {"type": "string", "pattern": rf"^{_DIGITS} *[A-Za-zµ{rate}]{money}", "examples": [usual]}
    return PlainValidator(validate), WithJsonSchema(schema)


def _bare(value: Any) -> str:
    return said(value).strip("'")


def _percent(number: float) -> str:
    """What may have been meant by a share over one."""
    return f"; if percent is meant, {number:g} %" if 1 < number <= 100 else ""


def _bound(value: float, unit: str) -> str:
    number = f"{value:g}".replace("e+", "e")
    return number if unit == "1" or not value else f"{number} {unit}"


_count, _count_schema = quantity("1", 1, 1e18, whole=True)
_whole, _whole_schema = quantity("1", 0, 1e18, whole=True)
_multiple, _multiple_schema = quantity("1", 1, 1e18)
_positive, _positive_schema = quantity("1", 0, 1e18, above=True)
_nonnegative, _nonnegative_schema = quantity("1", 0, 1e18)
_share, _share_schema = quantity("1", 0, 1)
_portion, _portion_schema = quantity("1", 0, 1, above=True)
_bytes, _bytes_schema = quantity("B", 0, 1e18)
_capacity, _capacity_schema = quantity("B", 0, 1e18, above=True)
_width, _width_schema = quantity("B", 0, 64, above=True)
_rate, _rate_schema = quantity("B/s", 1, 1e18)
_flop_rate, _flop_rate_schema = quantity("FLOP/s", 1, 1e21)
_seconds, _seconds_schema = quantity("s", 0, 1e12)
_watts, _watts_schema = quantity("J/s", 0, 1e9, above=True)
_price, _price_schema = quantity("USD/s", 0, 1e9)

Count = Annotated[float, _count, _count_schema]
Whole = Annotated[float, _whole, _whole_schema]
Multiple = Annotated[float, _multiple, _multiple_schema]
Positive = Annotated[float, _positive, _positive_schema]
NonNegative = Annotated[float, _nonnegative, _nonnegative_schema]
Share = Annotated[float, _share, _share_schema]
Portion = Annotated[float, _portion, _portion_schema]
Bytes = Annotated[float, _bytes, _bytes_schema]
Capacity = Annotated[float, _capacity, _capacity_schema]
Width = Annotated[float, _width, _width_schema]
Rate = Annotated[float, _rate, _rate_schema]
FlopRate = Annotated[float, _flop_rate, _flop_rate_schema]
Seconds = Annotated[float, _seconds, _seconds_schema]
Watts = Annotated[float, _watts, _watts_schema]
Price = Annotated[float, _price, _price_schema]

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.+-]*$", max_length=64)]
Check = Literal["seen", "known"]


class Source(Document):
    """Where a group of facts was read."""

    title: str = Field(description="Title of the source")
    year: Count | None = Field(default=None, description="Year of publication")
    authors: str | None = Field(default=None, description="Authors or publisher")
    url: str | None = Field(default=None, description="Link")
    where: str | None = Field(default=None, description="Table, page or file inside the source")


class Sourced(Document):
    """A group of facts with the key of its source."""

    source: str = Field(description="Key of the source under 'sources', or of the bibliography")
    check: Check = Field(
        default="seen", description="seen: read in that source; known: general knowledge, page not re-read"
    )
    note: str | None = Field(default=None, description="What a reader should know about these figures")


def as_written(value: Any) -> str:
    """Whether a reference is a name or a whole document."""
    return "name" if isinstance(value, str) else "inline"
