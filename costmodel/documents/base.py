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

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, use_attribute_docstrings=False)


def figure(value: Any, unit: str) -> Figure:
    """A written number or quantity in SI base units, remembering where it was written."""
    place: Place | None = getattr(value, "place", None)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise PydanticCustomError(
            "quantity_type", "a quantity is wanted here, e.g. '{sample}'", {"sample": example(unit)}
        )
    if isinstance(value, str):
        try:
            number = parse(value, unit)
        except UnitError as error:
            raise PydanticCustomError("quantity_unit", "{reason}", {"reason": str(error)}) from None
    elif unit == "1" or isinstance(value, Figure):
        number = float(value)
    else:
        sample = {"sample": example(unit), "given": str(value)}
        raise PydanticCustomError("quantity_unit", "{given} has no unit; write e.g. '{sample}'", sample)
    if not math.isfinite(number):
        raise PydanticCustomError("quantity_range", "a finite number is wanted here", {})
    return Figure(number, place)


def quantity(
    unit: str, low: float = 0.0, high: float = math.inf, *, above: bool = False, whole: bool = False
) -> tuple[PlainValidator, WithJsonSchema]:
    """The validator and JSON Schema of a number in `unit` between `low` and `high`."""

    def validate(value: Any) -> Figure:
        number = figure(value, unit)
        if number < low or (above and number <= low) or number > high:
            bounds = {"low": f"{low:g}", "high": f"{high:g}", "given": f"{float(number):g}"}
            sentence = (
                "{given} is out of range: more than {low}" if above else "{given} is out of range: at least {low}"
            )
            raise PydanticCustomError(
                "quantity_range", sentence + ("" if math.isinf(high) else " and at most {high}"), bounds
            )
        if whole and not number.is_integer():
            raise PydanticCustomError("quantity_range", "a whole number is wanted here", {})
        return number

    if unit == "1":
        schema: dict[str, Any] = {
            "anyOf": [
                {"type": "integer" if whole else "number"},
                {"type": "string", "pattern": r"^[0-9][0-9_,.]*([eE][-+]?[0-9]+)? *(%|k|K|M|G|B|T|Ki|Mi|Gi)?$"},
            ]
        }
    else:
        schema = {
            "type": "string",
            "pattern": r"^[0-9][0-9_,.]*([eE][-+]?[0-9]+)? *[A-Za-zµ]",
            "examples": [example(unit)],
        }
    return PlainValidator(validate), WithJsonSchema(schema)


_count, _count_schema = quantity("1", 1, 1e18, whole=True)
_positive, _positive_schema = quantity("1", 0, 1e18, above=True)
_nonnegative, _nonnegative_schema = quantity("1", 0, 1e18)
_share, _share_schema = quantity("1", 0, 1)
_bytes, _bytes_schema = quantity("B", 0, 1e18)
_rate, _rate_schema = quantity("B/s", 0, 1e18, above=True)
_flop_rate, _flop_rate_schema = quantity("FLOP/s", 0, 1e21, above=True)
_seconds, _seconds_schema = quantity("s", 0, 1e12)
_watts, _watts_schema = quantity("J/s", 0, 1e9, above=True)
_price, _price_schema = quantity("USD/s", 0, 1e9)

Count = Annotated[float, _count, _count_schema]
Positive = Annotated[float, _positive, _positive_schema]
NonNegative = Annotated[float, _nonnegative, _nonnegative_schema]
Share = Annotated[float, _share, _share_schema]
Bytes = Annotated[float, _bytes, _bytes_schema]
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
