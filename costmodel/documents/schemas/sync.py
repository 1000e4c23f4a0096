"""How replicas synchronise their weights, as a plan states it."""

import functools
from typing import Annotated, Any, Literal

from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from costmodel.ground.parsing import late_pattern
from costmodel.ground.record import record

Way = Literal["all-reduce", "parameter-server", "async", "stale", "first"]
USUAL = "all-reduce"
_WRITTEN = "all-reduce, parameter-server, parameter-server 16, async, stale 4 or first 60"
_FORM = late_pattern(r"(all-reduce|async)|(parameter-server)( [0-9]{1,9})?|(stale|first) ([0-9]{1,9})")


@record
class Sync:
    """A synchronisation method and its number: extra parameter servers, steps of staleness, or replicas to wait for."""

    way: Way
    number: float = 0.0


@functools.lru_cache(maxsize=256)
def sync_of(text: str) -> Sync:
    """The synchronisation method that a plan names.

    >>> sync_of("parameter-server 16"), sync_of("async")
    (Sync(way='parameter-server', number=16.0), Sync(way='async', number=0.0))
    """
    match = _FORM.fullmatch(" ".join(text.split()))
    way: Any = match and (match[1] or match[2] or match[4])
    number = float(match[3] or match[5] or 0) if match else 0.0
    if not way or (way == "first" and number < 1):
        words = {"given": f"'{text[:40]}'", "wanted": _WRITTEN}
        raise PydanticCustomError("quantity_unit", "{given} is no way to agree on weights; write {wanted}", words)
    return Sync(way, number)


def _sync(value: Any) -> Any:
    """The text of a synchronisation method, validated."""
    if not isinstance(value, str):
        raise PydanticCustomError("quantity_unit", "sync is a text; write {wanted}", {"wanted": _WRITTEN})
    sync_of(str(value))
    return value


Synchronisation = Annotated[
    str,
    PlainValidator(_sync),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^(all-reduce|async|parameter-server( +[0-9]+)?|(stale|first) +[0-9]+)$",
            "examples": ["parameter-server 16", "async", "stale 4", "first 60"],
        }
    ),
]
