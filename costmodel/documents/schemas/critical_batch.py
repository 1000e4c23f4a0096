"""The critical batch as a workload states it: tokens, or a published fit with what it depends on."""

from __future__ import annotations

import functools
import re
from typing import Annotated, Any, Literal

from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from costmodel.documents.schemas.count_kinds import TOKENS
from costmodel.ground.parsing import UnitError, parse
from costmodel.ground.record import record

Fit = Literal["kaplan", "deepseek"]
_FORM = re.compile(r"(kaplan|deepseek)(?: +(.+))?")
_OF: dict[str, tuple[str, float, float, str]] = {
    "kaplan": ("1", 0.5, 20.0, "kaplan 2.0, of a loss in nats a token"),
    "deepseek": ("FLOP", 1e15, 1e30, "deepseek 1e24 FLOP, of the work of the run"),
}


@record
class BatchFit:
    """A published fit of the critical batch, and the loss or total work at which it is evaluated."""

    fit: Fit
    at: float


@functools.lru_cache(maxsize=64)
def batch_fit(text: str) -> BatchFit:
    """The fit that a text such as "kaplan 2.0" names.

    >>> batch_fit("kaplan 2.0")
    BatchFit(fit='kaplan', at=2.0)
    """
    found = _FORM.fullmatch(" ".join(text.split()))
    assert found is not None
    fit: Any = found[1]
    unit, least, most, wanted = _OF[fit]
    try:
        at = parse(found[2] or "", unit)
    except UnitError:
        at = 0.0
    if not least <= at <= most:
        sentence = "{given} is no critical batch; write {wanted}"
        raise PydanticCustomError("quantity_unit", sentence, {"given": f"'{text[:40]}'", "wanted": wanted})
    return BatchFit(fit, at)


def _critical(value: Any) -> Any:
    """A number of tokens, or the text of a fit."""
    if isinstance(value, str) and _FORM.fullmatch(" ".join(value.split())):
        batch_fit(str(value))
        return value
    return TOKENS.validate(value)


CriticalBatch = Annotated[
    float | str,
    PlainValidator(_critical),
    WithJsonSchema({"type": ["string", "number"], "examples": ["4 M", "kaplan 2.0", "deepseek 1e24 FLOP"]}),
]
