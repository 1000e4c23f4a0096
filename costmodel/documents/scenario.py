"""A scenario: model, cluster, workload, software, plan or space of plans, assumptions, limits."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from costmodel.documents.base import Count, Document, Multiple, Portion, Positive, Price, Seconds, Share, as_written
from costmodel.documents.hardware import Cluster
from costmodel.documents.limits import Limits
from costmodel.documents.model import Model
from costmodel.documents.optimizer import Optimizer
from costmodel.documents.plan import Plan, Space
from costmodel.documents.precision import Precision
from costmodel.documents.references import REFERENCES
from costmodel.documents.run import WholeRun
from costmodel.documents.stack import DispatchType, GradientType, Stack
from costmodel.documents.tuning import Tuning

ModelReference = Annotated[Annotated[str, Tag("name")] | Annotated[Model, Tag("inline")], Discriminator(as_written)]
StackReference = Annotated[Annotated[str, Tag("name")] | Annotated[Stack, Tag("inline")], Discriminator(as_written)]

OptimizerReference = Annotated[
    Annotated[str, Tag("name")] | Annotated[Optimizer, Tag("inline")], Discriminator(as_written)
]


def _trained(value: Any) -> str:
    return "full" if isinstance(value, str) else "adapters"


Trained = Annotated[
    Annotated[Literal["full"], Tag("full")] | Annotated[Tuning, Tag("adapters")], Discriminator(_trained)
]

FlopConvention = Literal["model-causal", "model-full", "6n", "palm", "megatron-2021", "korthikanti"]


class Training(Document):
    """A training workload."""

    kind: Literal["training"] = Field(description="training")
    sequence: Count = Field(description="Tokens in a sequence")
    global_batch: Count = Field(description="Sequences in an optimizer step")
    tokens: Count | None = Field(
        default=None, examples=["15 T"], description="Tokens of the whole run; gives days and cost"
    )
    precision: Precision = Field(default="bf16", description="Type the matmuls read, and how they are scaled")
    gradients: GradientType | None = Field(
        default=None, description="Type gradients are accumulated and reduced in; else the stack's"
    )
    tuning: Trained = Field(default="full", description="full trains every weight; lora and qlora train adapters")
    optimizer: OptimizerReference = Field(
        default=REFERENCES["workload.optimizer"].usual, description="Optimizer, by name or written out"
    )


class OverlapAssumption(Document):
    """Shares of a communication that can hide behind compute; left out, the stack's."""

    tp: Share | None = Field(default=None, description="Tensor parallelism")
    dp: Share | None = Field(default=None, description="Data parallelism")
    weights: Share | None = Field(
        default=None, description="Updated weights on their way back to all ranks; as dp if the stack says nothing"
    )
    pp: Share | None = Field(default=None, description="Sends between pipeline stages")
    ep: Share | None = Field(default=None, description="Dispatch to experts and combine")
    cp: Share | None = Field(default=None, description="Ring of keys and values behind attention")


class ExpertAssumption(Document):
    """How tokens spread over experts, and how they get there; left out, evenly, and as the stack does it."""

    imbalance: Multiple | None = Field(default=None, description="Rows of the busiest rank's experts over the mean")
    capacity: Positive | None = Field(
        default=None, description="Capacity factor experts are padded to, tokens over it dropped; absent: dropless"
    )
    dispatch: DispatchType | None = Field(default=None, description="Type tokens are sent to their experts in")
    shared_overlap: Share | None = Field(
        default=None, description="Dispatch and combine that can hide behind shared experts, which run beside them"
    )
    deduplicated: bool | None = Field(
        default=None, description="One copy of a token to a node, or rank, that holds several of its experts"
    )
    host: Seconds | None = Field(
        default=None,
        description="Host time to issue an operation of one expert; else that of any, where a stack loops over them",
    )


class Assumptions(Document):
    """Opinions, each of which has a default that is spoken."""

    overlap: OverlapAssumption = Field(default_factory=OverlapAssumption, description="What hides behind compute")
    experts: ExpertAssumption = Field(default_factory=ExpertAssumption, description="Mixture of experts")
    fragmentation: Share | None = Field(default=None, description="What the caching allocator adds; else the stack's")
    price: Price | None = Field(default=None, description="Of one accelerator; else the node's list price")
    sustained: Positive | None = Field(
        default=None, description="Slow-down of a real step over isolated kernels, on one part; else the fit's"
    )
    variation: Share | None = Field(
        default=None, description="How far alike parts lie apart in speed, one standard deviation; else the fit's"
    )
    network_share: Portion | None = Field(
        default=None, description="Share of the interface rate that collectives reach; else the fit's"
    )
    host_share: Portion | None = Field(
        default=None, description="Share of the host link that large copies reach; else the fabric's"
    )
    mfu_peak: Literal["bf16", "fp16", "fp8", "fp4"] | None = Field(
        default=None, description="Type whose peak the MFU is a share of; else that of the matmuls"
    )
    flop_convention: FlopConvention = Field(default="model-causal", description="Which FLOP the MFU counts")


class Scenario(Document):
    """Everything one question needs."""

    schema_: Literal["costmodel/scenario/v1"] = Field(alias="schema", description="Kind and version of this document")
    title: str = Field(description="One line, shown at the head of every answer")
    model: ModelReference = Field(description="Model, by name or written out")
    cluster: Cluster = Field(description="Where it runs")
    workload: Training = Field(description="What it does")
    stack: StackReference = Field(default="megatron-core", description="Training software, by name or written out")
    plan: Plan | None = Field(default=None, description="One plan")
    search: Space | None = Field(default=None, description="The same keys with lists; left out, every legal plan")
    assume: Assumptions = Field(default_factory=Assumptions, description="Opinions")
    run: WholeRun | None = Field(
        default=None, description="The whole run: failures, checkpoints, energy; left out, steps alone"
    )
    limits: Limits = Field(default_factory=Limits, description="What a plan must keep")
    objective: Literal[
        "step_time",
        "tokens_per_s_per_gpu",
        "cost_per_mtoken",
        "goodput",
        "run_time",
        "run_cost",
        "energy",
        "emissions",
    ] = Field(default="tokens_per_s_per_gpu", description="What search orders by; goodput to emissions want run")
