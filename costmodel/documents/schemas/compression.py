"""Compression of gradients in a plan: a method and its parameter."""

import functools
from typing import Annotated, Any, Literal

from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from costmodel.documents.schemas.base import Document, Seconds, Share, optional
from costmodel.ground.parsing import UnitError, late_pattern, parse
from costmodel.ground.record import record

Method = Literal["none", "fp16", "int8", "one-bit", "top-k", "powersgd"]
PLAIN: tuple[Method, ...] = ("none", "fp16", "int8", "one-bit")
_WRITTEN = "none, fp16, int8, one-bit, top-k 0.1 % or powersgd 4"
_KEPT = late_pattern(r"top-k +(\S.*)\Z")
_RANK = late_pattern(r"powersgd +([0-9]{1,5})\Z")


@record
class Codec:
    """A gradient compression method: top-k sends a share of the gradients, PowerSGD low-rank factors."""

    method: Method
    kept: float = 0.0
    rank: float = 0.0


@functools.lru_cache(maxsize=256)
def codec_of(text: str) -> Codec:
    """The codec that a plan names, such as "powersgd 4".

    >>> codec_of("powersgd 4").rank, codec_of("top-k 0.1 %").kept
    (4.0, 0.001)
    """
    words = " ".join(text.split())
    for method in PLAIN:
        if words == method:
            return Codec(method)
    if (match := _RANK.match(words)) is not None and int(match[1]) > 0:
        return Codec("powersgd", rank=float(match[1]))
    if (match := _KEPT.match(words)) is not None:
        try:
            kept = parse(match[1], "1")
        except UnitError:
            kept = 0.0
        if 0 < kept <= 1:
            return Codec("top-k", kept=kept)
    raise PydanticCustomError("quantity_unit", "{given} is no compression; write {wanted}", _fault_words(text))


def _fault_words(text: str) -> dict[str, str]:
    return {"given": f"'{text[:40]}'", "wanted": _WRITTEN}


def _compression(value: Any) -> Any:
    """The text of a codec, validated."""
    if not isinstance(value, str):
        raise PydanticCustomError("quantity_unit", "compression is a text; write {wanted}", {"wanted": _WRITTEN})
    codec_of(str(value))
    return value


Compression = Annotated[
    str,
    PlainValidator(_compression),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^(none|fp16|int8|one-bit|top-k +[0-9].*|powersgd +[0-9]+)$",
            "examples": ["int8", "top-k 0.1 %", "powersgd 4"],
        }
    ),
]


class CompressionAssumption(Document):
    """What compression takes and when it begins; left out, as each method is known for."""

    codec: Seconds | None = optional(
        "Time of a step to compress gradients and restore sums; else by bytes through memory"
    )
    warm_up: Share | None = optional(
        "Share of the steps before compression begins; else 20 % for one-bit, 0 for others"
    )
