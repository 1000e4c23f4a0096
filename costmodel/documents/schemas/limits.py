"""Bounds a plan must keep, on any result: a class of bounds for each unit, and a key for each result."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

from pydantic import Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from costmodel.documents.schemas.base import Bytes, Document, Money, NonNegative, Quantity, Seconds, Share, optional
from costmodel.documents.schemas.results import (
    COUNTS,
    RL_RESULTS,
    RUN_RESULTS,
    SERVICE_LEVEL,
    SERVING_RESULTS,
    TRAINING_RESULTS,
    ResultColumn,
)

AT_MOST: Any = optional("Largest value allowed")
AT_LEAST: Any = optional("Smallest value allowed")
TARGET: Any = optional("Value to stay close to; within sets the distance")


class Bound(Document):
    """Bounds on one result; each kind sets its unit."""

    at_most: Any = AT_MOST
    at_least: Any = AT_LEAST
    target: Any = TARGET
    within: Share | None = optional("Share the value may lie off the target; without one, worsen from a baseline")

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        """Checks that a target has a tolerance, and that at_most is not below at_least."""
        if self.target is not None and self.within is None:
            raise PydanticCustomError("limit", "a target needs within beside it, for example within: 2 %")
        if self.at_most is not None and self.at_least is not None and self.at_most < self.at_least:
            words = {"keys": ("at_most", "at_least")}
            raise PydanticCustomError("limit", "at_most is less than at_least, so that nothing keeps both", words)
        return self


def _bound_on(name: str, what: str, kind: Any, base: type[Bound] = Bound) -> type[Bound]:
    """A class of bounds on values of one kind."""
    fields: dict[str, Any] = {"at_most": AT_MOST, "at_least": AT_LEAST, "target": TARGET}
    typed: dict[str, Any] = {key: (kind | None, field) for key, field in fields.items()}
    model = create_model(name, __base__=base, __doc__=f"Bounds on {what}.", __module__=__name__, **typed)
    globals()[name] = model  # pickle finds a class by its name: searches send scenarios to other processes
    return model


class _OfWait(Bound):
    @model_validator(mode="after")
    def _no_least(self) -> Self:
        if self.at_least is not None:
            sentence = "at_least refuses plans that answer sooner; a time that users wait is bounded by at_most"
            raise PydanticCustomError("limit", sentence, {"keys": ("at_least",)})
        return self


_WAIT = _bound_on("WaitLimit", "a time that a user waits", Seconds, _OfWait)
_COUNT = _bound_on("CountLimit", "a number of requests, tokens, replicas or accelerators", NonNegative)
_BY_UNIT = {
    "1": _bound_on("ShareLimit", "a fraction", Share),
    "s": _bound_on("TimeLimit", "a duration", Seconds),
    "B": _bound_on("BytesLimit", "an amount of memory or of traffic", Bytes),
    "FLOP/GPU/s": _bound_on("FlopRateLimit", "a rate of computing", Annotated[float, Quantity("FLOP/GPU/s")]),
    "request/s": _bound_on("RequestRateLimit", "a rate of requests", Annotated[float, Quantity("request/s", 0, 1e6)]),
    "token/s": _bound_on("TokenRateLimit", "a rate of tokens", Annotated[float, Quantity("token/s")]),
    "token/GPU/s": _bound_on(
        "GpuTokenRateLimit", "a rate of tokens of each accelerator", Annotated[float, Quantity("token/GPU/s")]
    ),
    "USD": _bound_on("MoneyLimit", "an amount of money", Money),
    "USD/Mtoken": _bound_on("TokenPriceLimit", "what a million tokens cost", Annotated[float, Quantity("USD/Mtoken")]),
    "J": _bound_on("EnergyLimit", "an amount of energy", Annotated[float, Quantity("J")]),
    "kg": _bound_on("MassLimit", "a mass", Annotated[float, Quantity("kg")]),
}
_BY_UNIT["J/token"] = _BY_UNIT["J"]


def _bounds_of(name: str, result: ResultColumn) -> type[Bound]:
    return _WAIT if name in SERVICE_LEVEL else _COUNT if name in COUNTS else _BY_UNIT[result.written]


def limits_on(name: str, words: str, results: Mapping[str, ResultColumn]) -> type[Document]:
    """A document with a key for the limits on each result, without bounds by default; memory_share has the key memory.

    The title of a field is the result's name.
    """
    fields: dict[str, Any] = {}
    for result, column in results.items():
        kind, meaning = _bounds_of(result, column), column.meaning[0].upper() + column.meaning[1:]
        field = Field(default_factory=cache(kind.model_construct), description=meaning, title=result)
        fields["memory" if result == "memory_share" else result] = (kind, field)
    return create_model(name, __base__=Document, __doc__=words, __module__=__name__, **fields)


_OF_RL = ("iteration_time", "memory_share", "fit_chance", "run_time", "run_cost")
if TYPE_CHECKING:

    class Limits(Document):
        """A document with bounds under the name of every result."""

        def __getattr__(self, result: str) -> Bound: ...

    ServingLimits: TypeAlias = Limits
    RlLimits: TypeAlias = Limits
else:
    Limits = limits_on(
        "Limits",
        "Limits that a plan must meet, in search and check.",
        {"memory_share": TRAINING_RESULTS["memory_share"], **TRAINING_RESULTS, **RUN_RESULTS},
    )
    ServingLimits = limits_on(
        "ServingLimits", "Limits that a plan must meet: service-level limits, and any other.", SERVING_RESULTS
    )
    RlLimits = limits_on("RlLimits", "What a plan must keep.", {name: RL_RESULTS[name] for name in _OF_RL})
