"""Bounds a plan must keep, on any result."""

from functools import cache
from typing import Annotated, Any, Self, TypeVar

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from costmodel.documents.schemas.base import Bytes, Document, Money, Quantity, Seconds, Share, optional
from costmodel.documents.schemas.results import RUN_RESULTS, TRAINING_RESULTS

LimitRate = Annotated[float, Quantity("FLOP/GPU/s")]
TokenRate = Annotated[float, Quantity("token/s")]
GpuTokenRate = Annotated[float, Quantity("token/GPU/s")]
Joules = Annotated[float, Quantity("J")]
Kilograms = Annotated[float, Quantity("kg")]
TokenPrice = Annotated[float, Quantity("USD/Mtoken")]

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


class ShareLimit(Bound):
    """Bounds on a fraction."""

    at_most: Share | None = AT_MOST
    at_least: Share | None = AT_LEAST
    target: Share | None = TARGET


class TimeLimit(Bound):
    """Bounds on a duration."""

    at_most: Seconds | None = AT_MOST
    at_least: Seconds | None = AT_LEAST
    target: Seconds | None = TARGET


class BytesLimit(Bound):
    """Bounds on an amount of memory or of traffic."""

    at_most: Bytes | None = AT_MOST
    at_least: Bytes | None = AT_LEAST
    target: Bytes | None = TARGET


class FlopRateLimit(Bound):
    """Bounds on a rate of computing."""

    at_most: LimitRate | None = AT_MOST
    at_least: LimitRate | None = AT_LEAST
    target: LimitRate | None = TARGET


class TokenRateLimit(Bound):
    """Bounds on a rate of tokens."""

    at_most: TokenRate | None = AT_MOST
    at_least: TokenRate | None = AT_LEAST
    target: TokenRate | None = TARGET


class GpuTokenRateLimit(Bound):
    """Bounds on a rate of tokens of each accelerator."""

    at_most: GpuTokenRate | None = AT_MOST
    at_least: GpuTokenRate | None = AT_LEAST
    target: GpuTokenRate | None = TARGET


class MoneyLimit(Bound):
    """Bounds on an amount of money."""

    at_most: Money | None = AT_MOST
    at_least: Money | None = AT_LEAST
    target: Money | None = TARGET


class TokenPriceLimit(Bound):
    """Bounds on what a million tokens cost."""

    at_most: TokenPrice | None = AT_MOST
    at_least: TokenPrice | None = AT_LEAST
    target: TokenPrice | None = TARGET


class EnergyLimit(Bound):
    """Bounds on an amount of energy."""

    at_most: Joules | None = AT_MOST
    at_least: Joules | None = AT_LEAST
    target: Joules | None = TARGET


class MassLimit(Bound):
    """Bounds on a mass."""

    at_most: Kilograms | None = AT_MOST
    at_least: Kilograms | None = AT_LEAST
    target: Kilograms | None = TARGET


B = TypeVar("B", bound=Document)


def bounded(kind: type[B], result: str) -> B:
    """A field for a limit on a result, without bounds by default; the field's title is the result's name."""
    meaning = (TRAINING_RESULTS | RUN_RESULTS)[result].meaning
    none, words = cache(kind.model_construct), meaning[0].upper() + meaning[1:]
    field: B = Field(default_factory=none, description=words, title=result)
    return field


class Limits(Document):
    """What a plan must keep; search obeys it, check holds it."""

    memory: ShareLimit = bounded(ShareLimit, "memory_share")
    step_time: TimeLimit = bounded(TimeLimit, "step_time")
    tokens_per_s: TokenRateLimit = bounded(TokenRateLimit, "tokens_per_s")
    tokens_per_s_per_gpu: GpuTokenRateLimit = bounded(GpuTokenRateLimit, "tokens_per_s_per_gpu")
    flop_rate: FlopRateLimit = bounded(FlopRateLimit, "flop_rate")
    mfu: ShareLimit = bounded(ShareLimit, "mfu")
    hfu: ShareLimit = bounded(ShareLimit, "hfu")
    matmul: TimeLimit = bounded(TimeLimit, "matmul")
    attention: TimeLimit = bounded(TimeLimit, "attention")
    memory_bound: TimeLimit = bounded(TimeLimit, "memory_bound")
    launch: TimeLimit = bounded(TimeLimit, "launch")
    tp_exposed: TimeLimit = bounded(TimeLimit, "tp_exposed")
    cp_exposed: TimeLimit = bounded(TimeLimit, "cp_exposed")
    pp_exposed: TimeLimit = bounded(TimeLimit, "pp_exposed")
    ep_exposed: TimeLimit = bounded(TimeLimit, "ep_exposed")
    dp_exposed: TimeLimit = bounded(TimeLimit, "dp_exposed")
    bubble: TimeLimit = bounded(TimeLimit, "bubble")
    bubble_share: ShareLimit = bounded(ShareLimit, "bubble_share")
    offload_exposed: TimeLimit = bounded(TimeLimit, "offload_exposed")
    optimizer: TimeLimit = bounded(TimeLimit, "optimizer")
    memory_peak: BytesLimit = bounded(BytesLimit, "memory_peak")
    memory_free: BytesLimit = bounded(BytesLimit, "memory_free")
    fit_chance: ShareLimit = bounded(ShareLimit, "fit_chance")
    host_memory: BytesLimit = bounded(BytesLimit, "host_memory")
    host_share: ShareLimit = bounded(ShareLimit, "host_share")
    tp_volume: BytesLimit = bounded(BytesLimit, "tp_volume")
    cp_volume: BytesLimit = bounded(BytesLimit, "cp_volume")
    ep_volume: BytesLimit = bounded(BytesLimit, "ep_volume")
    pp_volume: BytesLimit = bounded(BytesLimit, "pp_volume")
    dp_volume: BytesLimit = bounded(BytesLimit, "dp_volume")
    communication_efficiency: ShareLimit = bounded(ShareLimit, "communication_efficiency")
    scaling_efficiency: ShareLimit = bounded(ShareLimit, "scaling_efficiency")
    cost_per_mtoken: TokenPriceLimit = bounded(TokenPriceLimit, "cost_per_mtoken")
    run_time: TimeLimit = bounded(TimeLimit, "run_time")
    run_cost: MoneyLimit = bounded(MoneyLimit, "run_cost")
    goodput: ShareLimit = bounded(ShareLimit, "goodput")
    energy: EnergyLimit = bounded(EnergyLimit, "energy")
    emissions: MassLimit = bounded(MassLimit, "emissions")
    mtbf: TimeLimit = bounded(TimeLimit, "mtbf")
    restart_time: TimeLimit = bounded(TimeLimit, "restart_time")
    checkpoint_size: BytesLimit = bounded(BytesLimit, "checkpoint_size")
    checkpoint_blocking: TimeLimit = bounded(TimeLimit, "checkpoint_blocking")
    checkpoint_write: TimeLimit = bounded(TimeLimit, "checkpoint_write")
    checkpoint_host: BytesLimit = bounded(BytesLimit, "checkpoint_host")
    checkpoint_interval: TimeLimit = bounded(TimeLimit, "checkpoint_interval")
