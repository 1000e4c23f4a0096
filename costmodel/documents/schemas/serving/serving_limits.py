"""Bounds a serving plan must keep, on any result."""

from typing import Annotated, Self, TypeVar

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from costmodel.documents.schemas.base import Document, NonNegative, Quantity
from costmodel.documents.schemas.limits import (
    AT_LEAST,
    AT_MOST,
    TARGET,
    Bound,
    BytesLimit,
    EnergyLimit,
    GpuTokenRateLimit,
    MoneyLimit,
    ShareLimit,
    TimeLimit,
    TokenPriceLimit,
    TokenRateLimit,
)
from costmodel.documents.schemas.results import SERVING_RESULTS

LimitRate = Annotated[float, Quantity("request/s", 0, 1e6)]

B = TypeVar("B", bound=Document)


class WaitLimit(TimeLimit):
    """Bounds on a time that a user waits."""

    @model_validator(mode="after")
    def _no_least(self) -> Self:
        if self.at_least is not None:
            sentence = "at_least refuses plans that answer sooner; a time that users wait is bounded by at_most"
            raise PydanticCustomError("limit", sentence, {"keys": ("at_least",)})
        return self


class CountLimit(Bound):
    """Bounds on a number of requests, tokens, replicas or accelerators."""

    at_most: NonNegative | None = AT_MOST
    at_least: NonNegative | None = AT_LEAST
    target: NonNegative | None = TARGET


class RequestRateLimit(Bound):
    """Bounds on a rate of requests."""

    at_most: LimitRate | None = AT_MOST
    at_least: LimitRate | None = AT_LEAST
    target: LimitRate | None = TARGET


def _bounded(kind: type[B], result: str) -> B:
    """A field for a limit on a serving result, without bounds by default."""
    meaning = SERVING_RESULTS[result].meaning
    field: B = Field(default_factory=kind.model_construct, description=meaning[0].upper() + meaning[1:], title=result)
    return field


class ServingLimits(Document):
    """What a plan must keep: service-level limits, and any other."""

    ttft: WaitLimit = _bounded(WaitLimit, "ttft")
    ttft_p99: WaitLimit = _bounded(WaitLimit, "ttft_p99")
    tpot: WaitLimit = _bounded(WaitLimit, "tpot")
    tpot_p99: WaitLimit = _bounded(WaitLimit, "tpot_p99")
    worst_gap: WaitLimit = _bounded(WaitLimit, "worst_gap")
    latency: WaitLimit = _bounded(WaitLimit, "latency")
    requests_per_s: RequestRateLimit = _bounded(RequestRateLimit, "requests_per_s")
    output_tokens_per_s: TokenRateLimit = _bounded(TokenRateLimit, "output_tokens_per_s")
    total_tokens_per_s: TokenRateLimit = _bounded(TokenRateLimit, "total_tokens_per_s")
    tokens_per_s_per_user: TokenRateLimit = _bounded(TokenRateLimit, "tokens_per_s_per_user")
    bandwidth_bound: TokenRateLimit = _bounded(TokenRateLimit, "bandwidth_bound")
    tokens_per_s_per_gpu: GpuTokenRateLimit = _bounded(GpuTokenRateLimit, "tokens_per_s_per_gpu")
    concurrency: CountLimit = _bounded(CountLimit, "concurrency")
    saturation_share: ShareLimit = _bounded(ShareLimit, "saturation_share")
    saturation_per_s: RequestRateLimit = _bounded(RequestRateLimit, "saturation_per_s")
    rate_within_slo_per_s: RequestRateLimit = _bounded(RequestRateLimit, "rate_within_slo_per_s")
    limits_chance: ShareLimit = _bounded(ShareLimit, "limits_chance")
    in_time_share: ShareLimit = _bounded(ShareLimit, "in_time_share")
    in_time_per_s: RequestRateLimit = _bounded(RequestRateLimit, "in_time_per_s")
    tokens_per_gpu_within_limits: GpuTokenRateLimit = _bounded(GpuTokenRateLimit, "tokens_per_gpu_within_limits")
    cost_within_limits: TokenPriceLimit = _bounded(TokenPriceLimit, "cost_within_limits")
    replicas_needed: CountLimit = _bounded(CountLimit, "replicas_needed")
    prefill_needed: CountLimit = _bounded(CountLimit, "prefill_needed")
    decode_needed: CountLimit = _bounded(CountLimit, "decode_needed")
    gpus_needed: CountLimit = _bounded(CountLimit, "gpus_needed")
    replicas: CountLimit = _bounded(CountLimit, "replicas")
    gpus: CountLimit = _bounded(CountLimit, "gpus")
    nodes: CountLimit = _bounded(CountLimit, "nodes")
    interference_share: ShareLimit = _bounded(ShareLimit, "interference_share")
    prefix_hit: ShareLimit = _bounded(ShareLimit, "prefix_hit")
    prefix_residency: TimeLimit = _bounded(TimeLimit, "prefix_residency")
    host_hit: ShareLimit = _bounded(ShareLimit, "host_hit")
    host_residency: TimeLimit = _bounded(TimeLimit, "host_residency")
    host_cache_tokens: CountLimit = _bounded(CountLimit, "host_cache_tokens")
    host_load_exposed: TimeLimit = _bounded(TimeLimit, "host_load_exposed")
    host_load_gain: CountLimit = _bounded(CountLimit, "host_load_gain")
    host_link_utilisation: ShareLimit = _bounded(ShareLimit, "host_link_utilisation")
    matmul: TimeLimit = _bounded(TimeLimit, "matmul")
    attention: TimeLimit = _bounded(TimeLimit, "attention")
    memory_bound: TimeLimit = _bounded(TimeLimit, "memory_bound")
    tp_exposed: TimeLimit = _bounded(TimeLimit, "tp_exposed")
    ep_exposed: TimeLimit = _bounded(TimeLimit, "ep_exposed")
    dcp_exposed: TimeLimit = _bounded(TimeLimit, "dcp_exposed")
    pp_exposed: TimeLimit = _bounded(TimeLimit, "pp_exposed")
    host_time: TimeLimit = _bounded(TimeLimit, "host_time")
    draft_time: TimeLimit = _bounded(TimeLimit, "draft_time")
    prompts_between: TimeLimit = _bounded(TimeLimit, "prompts_between")
    accepted_tokens: CountLimit = _bounded(CountLimit, "accepted_tokens")
    speculation_gain: CountLimit = _bounded(CountLimit, "speculation_gain")
    speculation_break_even: CountLimit = _bounded(CountLimit, "speculation_break_even")
    transfer_time: TimeLimit = _bounded(TimeLimit, "transfer_time")
    transfer_exposed: TimeLimit = _bounded(TimeLimit, "transfer_exposed")
    prefill_utilisation: ShareLimit = _bounded(ShareLimit, "prefill_utilisation")
    prefill_per_decode: CountLimit = _bounded(CountLimit, "prefill_per_decode")
    disaggregation_gain: CountLimit = _bounded(CountLimit, "disaggregation_gain")
    makespan: TimeLimit = _bounded(TimeLimit, "makespan")
    tail_share: ShareLimit = _bounded(ShareLimit, "tail_share")
    start_time: TimeLimit = _bounded(TimeLimit, "start_time")
    cache_pool: BytesLimit = _bounded(BytesLimit, "cache_pool")
    cache_pool_tokens: CountLimit = _bounded(CountLimit, "cache_pool_tokens")
    kv_bytes_per_token: BytesLimit = _bounded(BytesLimit, "kv_bytes_per_token")
    concurrency_worst: CountLimit = _bounded(CountLimit, "concurrency_worst")
    concurrency_steady: CountLimit = _bounded(CountLimit, "concurrency_steady")
    memory_peak: BytesLimit = _bounded(BytesLimit, "memory_peak")
    memory: ShareLimit = _bounded(ShareLimit, "memory_share")
    cost_per_minput: TokenPriceLimit = _bounded(TokenPriceLimit, "cost_per_minput")
    cost_per_moutput: TokenPriceLimit = _bounded(TokenPriceLimit, "cost_per_moutput")
    cost_per_mcached: TokenPriceLimit = _bounded(TokenPriceLimit, "cost_per_mcached")
    rent_per_month: MoneyLimit = _bounded(MoneyLimit, "rent_per_month")
    rent_needed: MoneyLimit = _bounded(MoneyLimit, "rent_needed")
    cost_of_batch: MoneyLimit = _bounded(MoneyLimit, "cost_of_batch")
    cost_per_mtoken: TokenPriceLimit = _bounded(TokenPriceLimit, "cost_per_mtoken")
    energy_per_token: EnergyLimit = _bounded(EnergyLimit, "energy_per_token")


SERVICE_LEVEL = ("ttft", "ttft_p99", "tpot", "tpot_p99", "worst_gap", "latency")  # at_most on these bounds the rate
GAPS = ("worst_gap", "tpot_p99")  # of these, what a step full of prompts makes
LEVEL_OF_USERS = ("tokens_per_s_per_user", "limits_chance", "in_time_share")  # as does at_least on these
BETWEEN_TOKENS = ("tpot", "tpot_p99", "worst_gap", "tokens_per_s_per_user")  # of answers of one token there is none


def without_gaps(limits: ServingLimits) -> ServingLimits:
    """The limits without those on the time between output tokens."""
    return limits.model_copy(update={name: type(getattr(limits, name))() for name in BETWEEN_TOKENS})
