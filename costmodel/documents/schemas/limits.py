"""Bounds a plan must keep, on any result."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Self, TypeVar

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from costmodel.documents.schemas.base import Bytes, Document, FlopRate, Quantity, Seconds, Share
from costmodel.documents.schemas.results import RESULTS, RUN_RESULTS

TokenRate = Annotated[float, Quantity("token/s", 0, 1e18)]
GpuTokenRate = Annotated[float, Quantity("token/GPU/s", 0, 1e18)]
Money = Annotated[float, Quantity("USD", 0, 1e18)]
Joules = Annotated[float, Quantity("J", 0, 1e21)]
Kilograms = Annotated[float, Quantity("kg", 0, 1e18)]
TokenPrice = Annotated[float, Quantity("USD/Mtoken", 0, 1e18)]

T = TypeVar("T")


class Bound(Document, Generic[T]):
    """Bounds on one result."""

    at_most: T | None = Field(default=None, description="Largest value allowed")
    at_least: T | None = Field(default=None, description="Smallest value allowed")
    target: T | None = Field(default=None, description="Value to stay close to; within sets the distance")
    within: Share | None = Field(
        default=None, description="Share the value may lie off the target; without one, worsen from a baseline"
    )

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        bound: Any = self
        if bound.target is not None and bound.within is None:
            raise PydanticCustomError("limit", "a target needs within beside it, for example within: 2 %")
        if bound.at_most is not None and bound.at_least is not None and bound.at_most < bound.at_least:
            words = {"keys": ("at_most", "at_least")}
            raise PydanticCustomError("limit", "at_most is less than at_least, so that nothing keeps both", words)
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


class GpuTokenRateLimit(Bound[GpuTokenRate]):
    """Bounds on a rate of tokens of each accelerator."""


class MoneyLimit(Bound[Money]):
    """Bounds on an amount of money."""


class TokenPriceLimit(Bound[TokenPrice]):
    """Bounds on what a million tokens cost."""


class EnergyLimit(Bound[Joules]):
    """Bounds on an amount of energy."""


class MassLimit(Bound[Kilograms]):
    """Bounds on a mass."""


B = TypeVar("B", bound=Document)


def bounded(kind: type[B], result: str) -> B:
    """A result that nothing bounds until a scenario does; its name is the title where the key is another."""
    meaning = (RESULTS | RUN_RESULTS)[result].meaning
    field: B = Field(default_factory=kind, description=meaning[0].upper() + meaning[1:], title=result)
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
