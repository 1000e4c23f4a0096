"""Fitted constants of accelerators and fabrics, each with its residual on the data it was fitted on."""

import functools
import math
from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from costmodel.documents.schemas.base import (
    Bytes,
    Document,
    FlopRate,
    Measurements,
    Name,
    NonNegative,
    Portion,
    Positive,
    Rate,
    Seconds,
    Share,
    Source,
    Sourced,
    Tokens,
    Watts,
    items,
    keyed,
    optional,
)
from costmodel.ground.parsing import late_pattern, parse


class SourcedFit(Sourced):
    """Constants with the source they were fitted on, which every fit needs."""

    source: str = Field(description="Key of the source under 'sources', or of the bibliography")


class Fitted(Document):
    """How well a fit describes what it was fitted on."""

    points: Measurements | None = optional("Measurements")
    median: Share | None = optional("Median absolute error")
    p90: NonNegative | None = optional("90th percentile of the absolute error")
    out_of: Literal["sample", "fit", "prior"] | None = optional(
        "sample: on what was held out; fit: on its own; prior: judged, not fitted"
    )
    range: str | None = optional("Sizes it was fitted on: ranks 2 to 8, bytes 512 B to 8 MB; or seq 1,024 and more")

    @property
    def bounds(self) -> Mapping[str, tuple[float, float]]:
        """The smallest and largest value of each size that the constants were fitted on."""
        return _bounds(self.range or "")


_SIZE = r"([\d.,]*\d)( ?[kMGT]?i?B)?"
_BOUNDS = late_pattern(rf"\b([a-z]+) {_SIZE} (?:to {_SIZE}|and more)")


@functools.lru_cache(maxsize=256)
def _bounds(text: str) -> Mapping[str, tuple[float, float]]:
    """The size ranges in a text that `costmodel calibrate` wrote.

    >>> dict(_bounds("ranks 2 to 4, bytes 1.02 kB to 268 MB, seq 1,024 and more"))
    {'ranks': (2.0, 4.0), 'bytes': (1020.0, 268000000.0), 'seq': (1024.0, inf)}
    """
    return {
        name: (_size(low, unit), _size(high, last) if high else math.inf)
        for name, low, unit, high, last in _BOUNDS.findall(text)
    }


def _size(digits: str, unit: str) -> float:
    plain = digits.replace(",", "")
    return parse(plain + unit, "B") if unit else float(plain)


class MatmulFit(SourcedFit):
    """t = t0 + ((FLOP / (c P))^p + (bytes / (b W))^p)^(1/p)."""

    compute_share: Portion = Field(description="c, share of the peak rate that large matmuls reach in isolation")
    backward_share: Portion = Field(description="c of both backward products, which run a little faster than forward")
    memory_share: Portion = Field(description="b, share of memory bandwidth")
    start: Seconds = Field(description="t0, fixed time of a call")
    exponent: Positive = Field(description="p, sharpness of the corner of the roofline")
    fitted: Fitted | None = optional("Residual")


class KernelFit(SourcedFit):
    """t = t0 + κ F / (a P) + S / (b W) + 2 C / W + w n m / U: one attention kernel alone, as an engine calls it.

    κ by units out of rows; C are keys and values, n the tokens that are written into pages, m = min(1, k d / 512).
    Where the units of the part are not known U is 1, and w of all of them.
    """

    forward_share: Portion = Field(description="a, share of the peak on causal FLOP, head dimension 128")
    memory_share: Portion = Field(description="b, share of memory bandwidth that queries and result reach")
    start: Seconds = Field(description="t0, fixed time of a call")
    tile: Positive = Field(description="Query rows that a multiprocessor works at together; the last ones take longest")
    write: Seconds = Field(
        default=0.0, description="w, time in which a multiprocessor writes keys and values of a token into pages"
    )
    fitted: Fitted | None = optional("Residual")


class AttentionFit(SourcedFit):
    """What fused attention kernels of one class reach, as a share of the bf16 peak on causal FLOP."""

    forward_share: Portion = Field(description="Long sequences, head dimension 128")
    backward_share: Portion = Field(description="Backward rate over forward rate")
    half_sequence: Tokens = Field(description="Sequence at which half of the rate is reached")
    narrow_heads: Portion = Field(description="Share of the rate that heads of 64 and less reach")
    wide_heads: Portion = Field(description="Share of the rate that heads over 128 reach")
    slowed: bool = Field(description="Whether power and clocks slow it down in a real step as they do matrix products")
    alone: dict[str, KernelFit] = keyed("Kernels of the class as measured alone, by name; a step does not use them")
    fitted: Fitted | None = optional("Residual")


class MemoryFit(SourcedFit):
    """Streaming kernels."""

    share: Portion = Field(description="Share of memory bandwidth that memory-bound kernels reach")
    fitted: Fitted | None = optional("Residual")


class SustainedFit(SourcedFit):
    """Power and clocks: what hours of work add to an isolated kernel."""

    factor: Positive = Field(description="Tensor-core time in a real step over that of the isolated kernel")
    narrow: Positive = Field(default=1.0, description="The factor of products in fp8 and narrower, over that one")
    variation: Share = Field(
        default=0.0, description="How far alike parts lie apart, one standard deviation; a step waits for the slowest"
    )
    power: Watts | None = optional("Sustained power of the part it was fitted on")
    peak: FlopRate | None = optional(
        "Its dense peak in 16 bits; a part slows down more with less power for its peak, less with more"
    )
    makers: list[str] = items("Makers of the parts it was fitted on; absent: its own")
    parts: list[str] = items("Accelerators of the runs it was fitted on; absent: all that share it")
    others: Share = Field(
        default=0.0, description="Scale of a Student t, of the step: how far steps lie off on any other part"
    )
    fitted: Fitted | None = optional("Residual")

    def covers(self, name: str, maker: str) -> bool:
        """Whether the fit used runs on this accelerator or on others of its maker."""
        return name in (self.parts or [name]) and maker in (self.makers or [maker])


class MeasuredMixers(SourcedFit):
    """Which mixers of layers the measured runs of training had, and how much slower others may be."""

    runs: dict[str, dict[str, Measurements]] = Field(description="By mixer, by maker of the accelerators")
    slower: Positive = Field(
        description="Of the time of a mixer without runs over its prediction: scale of the logarithm, a half-normal"
    )


class MeasuredLayers(SourcedFit):
    """Which layers the runs with measured memory had, and how far the memory of others may be off."""

    runs: dict[str, Measurements] = Field(description="By the layers of the model, in words")
    spread: Positive = Field(
        description="Standard deviation of what layers without runs save, recompute and lose in logits, relative"
    )


class MeasuredEngines(SourcedFit):
    """Which engines the fitted benchmarks of services had, and how much slower they may be on parts of other makers."""

    runs: dict[str, dict[str, Measurements]] = Field(description="By engine, by maker of the accelerators")
    parts: dict[str, Measurements] = keyed("The same runs by accelerator")
    compared: dict[str, dict[str, Measurements]] = keyed("Like runs: not fitted, held by the band of a measured engine")
    slower: Positive = Field(
        description="Of a step's time over its prediction on a maker without runs: scale of a half-normal's logarithm"
    )
    first: Positive = Field(description="Spread of first tokens on a maker without runs, where the engine's is smaller")


class UnevenRouting(SourcedFit):
    """How much longer steps of mixtures of experts take that route tokens as they come, not evenly."""

    slower: Positive = Field(
        description="Scale of a half-normal: the logarithm of a step's time over that of even routing"
    )


class CollectiveFit(SourcedFit):
    """t = α + w + c √(α w) inside a scale-up domain, α = start + hop (n − 1), w = handled bytes / bandwidth."""

    start: Seconds = Field(description="Fixed time of a call")
    hop: Seconds = Field(description="Added for each further rank")
    bandwidth: Rate = Field(description="Wire rate that large messages reach, one way per rank")
    link: Rate = Field(description="Rate of the links it was fitted on; other links scale it")
    blend: Positive = Field(description="c, how softly latency and bandwidth regimes meet")
    own: NonNegative = Field(default=0.0, description="Cost of a byte that a rank keeps over that of one it sends")
    fitted: Fitted | None = optional("Residual")


class Hops(Document):
    """Time of a step of a collective: between neighbours inside a domain, and between domains."""

    near: Seconds = Field(description="Inside the domain")
    far: Seconds = Field(description="Between domains, over InfiniBand")


class Protocol(Document):
    """How NCCL moves the data of a collective between domains: fixed times, and its share of the rate."""

    start: Seconds = Field(description="Fixed time of a call")
    share: Portion = Field(description="Share of the rate: the rest are flags that travel with the data")
    ring: Hops = Field(description="Steps of a ring")
    tree: Hops = Field(description="Steps of the chain inside each domain, and levels of the tree of domains")


class SwitchedTree(Document):
    """A tree of domains that add up in their switches, NVLS."""

    start: Seconds = Field(description="Fixed time of a call, with the switches")
    far: Seconds = Field(description="A level between domains, over InfiniBand")


class Protocols(Document):
    """NCCL's protocols between domains, the fastest of which counts."""

    ll: Protocol | None = optional("Four bytes of flags with each four of data")
    ll128: Protocol | None = optional("Eight bytes of flags with each 120 of data")
    simple: Protocol = Field(description="Whole pieces, without flags")
    nvls: SwitchedTree = Field(description="A tree of domains that add up in their switches")


class NetworkFit(SourcedFit):
    """Collectives that leave the node."""

    share: Portion = Field(description="Share of the interface rate that large collectives reach")
    added: Seconds | None = optional("What a message takes longer than over InfiniBand; left out, nothing")
    protocols: Protocols | None = optional("NCCL's protocols; left out, those of unmeasured.yaml")
    pair_share: Portion = Field(description="Share of the interface rate that one send reaches")
    serial_share: Share = Field(
        description="Share of the faster level's time that does not hide behind the slower level's"
    )
    alone: Portion | None = optional(
        "Share of the interface rate that a collective alone reaches in nccl-tests; left out, as in a step"
    )
    fitted: Fitted | None = optional("Residual")

    @property
    def latency_beyond_infiniband(self) -> float:
        """Seconds that a message takes longer than over InfiniBand."""
        return self.added or 0.0


class AssumedMemory(Document):
    """Memory of the processors for each accelerator of a node that does not state it."""

    capacity: Bytes = Field(description="For each accelerator")
    bandwidth: Rate = Field(description="For each accelerator, read and write together")


class HostUpdateFit(SourcedFit):
    """t = max(n S / (η B), n Ψ τ / c): Adam on the host's processors."""

    share: Portion = Field(description="η, share of the bandwidth of the host's memory that the update reaches")
    core: Seconds = Field(description="τ, time in which one core updates a parameter")
    fitted: Fitted | None = optional("Residual")


class HostFit(SourcedFit):
    """Copies over links to hosts."""

    share: Portion = Field(description="Share of a link that large copies reach where its fabric does not state it")
    update: HostUpdateFit | None = optional("Optimizer step on the host")
    memory: dict[Name, AssumedMemory] = keyed("By link to the host, assumed of a node that does not state its memory")


class DecodeFit(Sourced):
    """t = t0 + S / (b W): attention of one new token for each sequence, which reads the cache."""

    start: Seconds = Field(description="t0, fixed time of a call")
    memory_share: Portion = Field(description="b, share of memory bandwidth")
    absorbed_share: Portion = Field(description="Share of the peak that absorbed latent attention computes at")
    fitted: Fitted | None = optional("Residual")


class PromptFit(Sourced):
    """t = t0 + F / (a P) + S / (b W): attention of a prompt, as an engine calls it."""

    start: Seconds = Field(description="t0, fixed time of a call")
    forward_share: Portion = Field(description="a, share of the 16-bit peak on causal FLOP")
    memory_share: Portion = Field(description="b, share of memory bandwidth of queries, keys, values and result")
    fitted: Fitted | None = optional("Residual")


class OwnReduceFit(Sourced):
    """t = a0 + a1 (n − 1) + min((n − 1) S, 2 (n − 1)/n S + S0) / B: an engine's own all-reduce of a small message."""

    start: Seconds = Field(description="a0, fixed time of a call")
    hop: Seconds = Field(description="a1, for each further rank")
    bandwidth: Rate = Field(description="B, that large messages reach")
    shot: Bytes = Field(description="S0, what the second step of the longer way costs, as bytes")
    link: Rate = Field(description="Rate of the links it was fitted on; other links scale it")
    fitted: Fitted | None = optional("Residual")


class FusedExpertsFit(Sourced):
    """t = t0 + ((F / (c P))^1.5 + (S / (b W))^1.5)^(1/1.5): all routed experts of a layer in one fused call."""

    start: Seconds = Field(description="t0, fixed time of a call")
    compute_share: Portion = Field(description="c, share of the peak of the type that is multiplied in")
    memory_share: Portion = Field(description="b, share of memory bandwidth")
    fitted: Fitted | None = optional("Residual")


class ServingFit(Document):
    """Kernels of engines: attention of decode and of prompts, their all-reduce, fused experts."""

    decode: DecodeFit = Field(description="Attention of decode")
    prompt: PromptFit = Field(description="Attention of prompts")
    all_reduce: OwnReduceFit | None = optional("Their own all-reduce; left out, NCCL's")
    experts: dict[str, FusedExpertsFit] = keyed("Fused experts by precision")


class Efficiency(Document):
    """Fitted constants of one accelerator or one fabric, each with the data it was fitted on."""

    schema_: Literal["costmodel/efficiency/v1"] = Field(alias="schema", description="Kind and version of this document")
    of: Name = Field(description="Accelerator or fabric; equals the file name")
    matmul: dict[str, MatmulFit] = keyed("By precision")
    attention: dict[str, AttentionFit] = keyed(
        "By kernel class: memory-efficient, in fp32 too; flash-1, flash-2, flash-3"
    )
    memory: MemoryFit | None = optional("Memory-bound kernels")
    sustained: SustainedFit | None = optional("Power and clocks")
    routing: UnevenRouting | None = optional("Where a scenario states no imbalance; of unmeasured.yaml alone")
    mixers: MeasuredMixers | None = optional("Layers of measured runs; of unmeasured.yaml alone")
    layers: MeasuredLayers | None = optional("Layers of runs with measured memory; of unmeasured.yaml alone")
    engines: MeasuredEngines | None = optional("Engines of measured services; of unmeasured.yaml alone")
    collectives: dict[str, CollectiveFit] = keyed("By operation, inside the scale-up domain")
    alone: dict[Literal["ring", "nvls"], CollectiveFit] = keyed(
        "Large all-reduces inside the domain by one algorithm, as nccl-tests measures them alone"
    )
    network: NetworkFit | None = optional("Between nodes")
    host: HostFit | None = optional("Between accelerator and host")
    serving: ServingFit | None = optional("Kernels of serving engines")
    sources: dict[str, Source] = keyed("Sources by key")
