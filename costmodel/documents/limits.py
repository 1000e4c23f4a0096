"""Bounds a plan must keep, on any result."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Self, TypeVar

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from costmodel.documents.base import Bytes, Document, FlopRate, Seconds, Share, quantity

_tokens, _tokens_schema = quantity("1/s", 0, 1e18)
_money, _money_schema = quantity("USD", 0, 1e18)
TokenRate = Annotated[float, _tokens, _tokens_schema]
Money = Annotated[float, _money, _money_schema]

T = TypeVar("T")


class Bound(Document, Generic[T]):
    """Bounds on one result."""

    at_most: T | None = Field(default=None, description="Largest value allowed")
    at_least: T | None = Field(default=None, description="Smallest value allowed")
    target: T | None = Field(default=None, description="Value to stay around; within says how near")
    within: Share | None = Field(
        default=None, description="Share the value may lie off the target; without one, worsen from a baseline"
    )

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        bound: Any = self
        if bound.target is not None and bound.within is None:
            raise PydanticCustomError("limit", "a target needs within beside it, for example within: 2 %")
        if bound.at_most is not None and bound.at_least is not None and bound.at_most < bound.at_least:
            raise PydanticCustomError("limit", "at_most is less than at_least, so that nothing keeps both")
        return self


class ShareLimit(Bound[Share]):
    """Bounds on a fraction."""


class TimeLimit(Bound[Seconds]):
    """Bounds on a duration."""


class BytesLimit(Bound[Bytes]):
    """Bounds on an amount of memory or of traffic."""


class FlopRateLimit(Bound[FlopRate]):
    """Bounds on a rate of computing."""


class TokenRateLimit(Bound[TokenRate]):
    """Bounds on a rate of tokens."""


class MoneyLimit(Bound[Money]):
    """Bounds on an amount of money."""


B = TypeVar("B", bound=Document)


def bounded(kind: type[B], description: str, title: str | None = None) -> B:
    """A result that nothing bounds until a scenario does; a title is its name where the key is another."""
    field: B = Field(default_factory=kind, description=description, title=title)
    return field


class Limits(Document):
    """What a plan must keep; search obeys it, check holds it."""

    memory: ShareLimit = bounded(ShareLimit, "memory_share: peak memory over usable memory", "memory_share")
    step_time: TimeLimit = bounded(TimeLimit, "Time of a step")
    tokens_per_s: TokenRateLimit = bounded(TokenRateLimit, "Tokens trained a second by the whole job")
    tokens_per_s_per_gpu: TokenRateLimit = bounded(TokenRateLimit, "Tokens trained a second by each accelerator")
    flop_rate: FlopRateLimit = bounded(FlopRateLimit, "Model FLOP a second of each accelerator")
    mfu: ShareLimit = bounded(ShareLimit, "Model FLOP utilisation")
    hfu: ShareLimit = bounded(ShareLimit, "Utilisation, executed FLOP counted")
    matmul: TimeLimit = bounded(TimeLimit, "Matrix products of the busiest stage")
    attention: TimeLimit = bounded(TimeLimit, "Attention cores of the busiest stage")
    memory_bound: TimeLimit = bounded(TimeLimit, "Operations bound by memory bandwidth")
    launch: TimeLimit = bounded(TimeLimit, "Waiting for the host")
    tp_exposed: TimeLimit = bounded(TimeLimit, "Tensor-parallel communication that compute does not hide")
    cp_exposed: TimeLimit = bounded(TimeLimit, "Context-parallel communication that attention does not hide")
    pp_exposed: TimeLimit = bounded(TimeLimit, "Sends between stages that compute does not hide")
    ep_exposed: TimeLimit = bounded(TimeLimit, "Tokens on their way to experts and back that compute does not hide")
    dp_exposed: TimeLimit = bounded(TimeLimit, "Data-parallel communication that compute does not hide")
    bubble: TimeLimit = bounded(TimeLimit, "Time the busiest stage waits for others")
    bubble_share: ShareLimit = bounded(ShareLimit, "Bubble over the step")
    offload_exposed: TimeLimit = bounded(TimeLimit, "Traffic over the host link that compute does not hide")
    optimizer: TimeLimit = bounded(TimeLimit, "Optimizer step")
    memory_peak: BytesLimit = bounded(BytesLimit, "Peak memory of the worst stage")
    memory_free: BytesLimit = bounded(BytesLimit, "Usable memory less the peak")
    host_memory: BytesLimit = bounded(BytesLimit, "Host memory and drives of a node that offload takes")
    host_share: ShareLimit = bounded(ShareLimit, "host_memory over what the node has, of memory or drives the fuller")
    tp_volume: BytesLimit = bounded(BytesLimit, "Bytes a rank sends a step for tensor parallelism")
    cp_volume: BytesLimit = bounded(BytesLimit, "Bytes a rank sends a step for context parallelism")
    ep_volume: BytesLimit = bounded(BytesLimit, "Bytes a rank sends a step for tokens to their experts and back")
    pp_volume: BytesLimit = bounded(BytesLimit, "Bytes a rank sends a step between stages")
    dp_volume: BytesLimit = bounded(BytesLimit, "Bytes a rank sends a step for data parallelism")
    communication_efficiency: ShareLimit = bounded(ShareLimit, "Compute over compute and exposed communication")
    scaling_efficiency: ShareLimit = bounded(
        ShareLimit, "Speed over that of as many accelerators without exposed communication and bubble"
    )
    cost_per_mtoken: MoneyLimit = bounded(MoneyLimit, "Rent for a million tokens")
    run_time: TimeLimit = bounded(TimeLimit, "Wall-clock time of the token budget, without failures")
    run_cost: MoneyLimit = bounded(MoneyLimit, "Rent for the token budget")
