"""A scenario: model, cluster, workload, software, plan or space of plans, assumptions, limits."""

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Discriminator, Field, ModelWrapValidatorHandler, Tag, model_validator
from pydantic_core import PydanticCustomError

from costmodel.documents.keys.references import REFERENCES
from costmodel.documents.schemas.base import (
    Document,
    Multiple,
    PartIn,
    Portion,
    Positive,
    Price,
    Quantity,
    Seconds,
    Share,
    optional,
)
from costmodel.documents.schemas.compression import CompressionAssumption
from costmodel.documents.schemas.count_kinds import FromTokens, InTokens, Rent, Sequences, Tokens
from costmodel.documents.schemas.critical_batch import CriticalBatch
from costmodel.documents.schemas.hardware import Cluster
from costmodel.documents.schemas.images import TrainingImages
from costmodel.documents.schemas.model import ModelReference
from costmodel.documents.schemas.optimizer import OptimizerReference
from costmodel.documents.schemas.plan import Plan, Space
from costmodel.documents.schemas.precision import DispatchType, Precision
from costmodel.documents.schemas.stack import GradientType, StackReference
from costmodel.documents.schemas.stragglers import StragglerAssumption
from costmodel.documents.schemas.tuning import Tuning

if TYPE_CHECKING:
    from costmodel.documents.schemas.run import WholeRun
else:
    WholeRun = Annotated[Any, PartIn("run.WholeRun")]


def _trained(value: Any) -> str:
    return "full" if isinstance(value, str) else "adapters"


Trained = Annotated[
    Annotated[Literal["full"], Tag("full")] | Annotated[Tuning, Tag("adapters")], Discriminator(_trained)
]


class LearningRate(Document):
    """A learning rate that is known to be good, and the batch it is good for."""

    base: Annotated[float, Quantity("1", 1e-12, 1e3)] = Field(
        description="Learning rate that is known to be good", examples=["3e-4"]
    )
    batch: Sequences = Field(description="Batch that it is good for", examples=["256 sequences", "4M tokens"])
    rule: Literal["linear", "sqrt"] | None = optional(
        "How it grows with the batch; default: linear for SGD, else the square root"
    )


FlopConvention = Literal["model-causal", "model-full", "6n", "palm", "megatron-2021", "korthikanti"]


class Training(Document):
    """A training workload."""

    kind: Literal["training"] = Field(description="training")
    sequence: Tokens = Field(description="Tokens in a sequence")
    global_batch: Sequences = Field(description="Sequences in an optimizer step")
    tokens: Tokens | None = Field(
        default=None, examples=["15 T"], description="Tokens of the whole run; needed for days and cost"
    )
    critical_batch: CriticalBatch | None = optional(
        "Batch at which a loss takes twice the minimum number of steps, or a fit for it: kaplan 2.0 "
        "(a loss), deepseek 1e24 FLOP (work of the run); scale then counts the steps of each batch"
    )
    learning_rate: LearningRate | None = optional(
        "A learning rate with its batch; estimate then prints the one for the global batch"
    )
    precision: Precision = Field(default="bf16", description="Data type of matmul inputs, and how they are scaled")
    gradients: GradientType | None = optional(
        "Data type in which gradients are accumulated and reduced; default: the stack's"
    )
    tuning: Trained = Field(default="full", description="full trains every weight; lora and qlora train adapters")
    images: TrainingImages | None = optional(
        "Images among the tokens of a sequence, for models with a vision tower; default: none"
    )
    optimizer: OptimizerReference = Field(
        default=REFERENCES["workload.optimizer"].usual, description="Optimizer, by name or written out"
    )


class OverlapAssumption(Document):
    """Shares of a communication that can hide behind compute; left out, the stack's."""

    tp: Share | None = optional("Tensor parallelism")
    dp: Share | None = optional("Data parallelism")
    weights: Share | None = optional("All-gather of updated weights; default: as dp if the stack states nothing")
    pp: Share | None = optional("Sends between pipeline stages")
    ep: Share | None = optional("Dispatch to experts and combine")
    cp: Share | None = optional("Ring of keys and values, overlapped with attention")


class ExpertAssumption(Document):
    """How tokens spread over experts, and how they get there; left out, evenly, and as the stack does it."""

    imbalance: Multiple | None = optional("Rows of the busiest rank's experts over the mean")
    capacity: Positive | None = optional(
        "Capacity factor to which experts are padded; tokens above it are dropped; absent: dropless"
    )
    dispatch: DispatchType | None = optional("Data type in which tokens are sent to their experts")
    shared_overlap: Share | None = optional("Share of dispatch and combine that can hide behind shared experts")
    deduplicated: bool | None = optional("Send one copy of a token to a node or rank that holds several of its experts")
    host: Seconds | None = optional(
        "Host time to issue an operation of one expert, if a stack loops over experts; default: that of any operation"
    )


class Assumptions(Document):
    """Assumptions; every default used is reported in the answer."""

    overlap: OverlapAssumption = Field(
        default_factory=cache(OverlapAssumption.model_construct),
        description="Shares of communication that overlap with compute",
    )
    experts: ExpertAssumption = Field(
        default_factory=cache(ExpertAssumption.model_construct), description="Mixture of experts"
    )
    compression: CompressionAssumption = Field(
        default_factory=cache(CompressionAssumption.model_construct), description="Compressed gradients"
    )
    stragglers: StragglerAssumption = Field(
        default_factory=cache(StragglerAssumption.model_construct), description="Slow ranks that others wait for"
    )
    fragmentation: Share | None = optional("Share that the caching allocator adds; default: the stack's")
    price: Price | None = optional("Price of one accelerator of this node only; default: the node's list price")
    server_price: Rent | None = optional(
        "Price of a server machine of plan.sync: parameter-server; default: not counted"
    )
    sustained: Positive | None = optional(
        "Slowdown of a real step relative to isolated kernels; default: the fitted value"
    )
    variation: Share | None = optional(
        "Variation in speed between equal accelerators, one standard deviation; default: the fitted value"
    )
    network_share: Portion | None = optional(
        "Share of the interface rate that collectives reach; default: the fitted value"
    )
    host_update: Portion | None = optional(
        "Share of the host memory bandwidth that an optimizer step on the host reaches"
    )
    host_share: Portion | None = optional("Share of the host link rate that large copies reach; default: the fabric's")
    mfu_peak: Literal["bf16", "fp16", "fp8", "fp4"] | None = optional(
        "Data type whose peak the MFU refers to; default: that of the matmuls"
    )
    flop_convention: FlopConvention = Field(default="model-causal", description="Which FLOP the MFU counts")


class Scenario(Document):
    """Everything one question needs."""

    schema_: Literal["costmodel/scenario/v1"] = Field(alias="schema", description="Kind and version of this document")
    title: str = Field(description="One line for the reader of the file; answers print what was computed")
    model: ModelReference = Field(description="Model, by name or written out")
    cluster: Cluster = Field(description="Where it runs")
    workload: Training = Field(description="What it does")
    stack: StackReference = Field(default="megatron-core", description="Training software, by name or written out")
    plan: Plan | None = optional("One plan")
    search: Space | None = optional("Values to try, as lists under the keys of plan; default: every valid plan")
    assume: Assumptions = Field(default_factory=cache(Assumptions.model_construct), description="Assumptions")
    run: WholeRun | None = optional("The whole run: failures, checkpoints, energy; default: only the steps")
    limits: Annotated[Document, PartIn("limits.Limits")] = Field(
        default_factory=cache(Document.model_construct), description="Limits that a plan must meet"
    )
    objective: Literal[
        "step_time",
        "tokens_per_s_per_gpu",
        "cost_per_mtoken",
        "goodput",
        "run_time",
        "run_cost",
        "energy",
        "emissions",
    ] = Field(
        default="tokens_per_s_per_gpu", description="Objective of the search; goodput, energy and emissions need run"
    )

    @property
    def from_tokens(self) -> list[tuple[str, FromTokens]]:
        """Every batch size that was written in tokens, with its key."""
        batches = [("workload.global_batch", self.workload.global_batch)]
        batches += [] if self.plan is None else [("plan.micro_batch", self.plan.micro_batch)]
        batches += (
            [] if self.search is None else [("search.micro_batch", item) for item in self.search.micro_batch or ()]
        )
        return [(path, batch) for path, batch in batches if isinstance(batch, FromTokens)]

    @model_validator(mode="wrap")
    @classmethod
    def _in_sequences(cls, value: Any, read: "ModelWrapValidatorHandler[Scenario]") -> "Scenario":
        """Converts batch sizes in tokens to sequences of the workload's length."""
        scenario = read(value)
        workload, plan, search = scenario.workload, scenario.plan, scenario.search
        changed: dict[str, Any] = {}
        if isinstance(workload.global_batch, InTokens):
            batch = _sequences(workload.global_batch, workload.sequence, "workload.global_batch")
            changed["workload"] = workload.model_copy(update={"global_batch": batch})
        if plan is not None and isinstance(plan.micro_batch, InTokens):
            batch = _sequences(plan.micro_batch, workload.sequence, "plan.micro_batch")
            changed["plan"] = plan.model_copy(update={"micro_batch": batch})
        if search is not None and search.micro_batch is not None:
            batches = [
                _sequences(batch, workload.sequence, f"search.micro_batch.{index}")
                for index, batch in enumerate(search.micro_batch)
            ]
            changed["search"] = search.model_copy(update={"micro_batch": batches})
        return scenario.model_copy(update=changed) if changed else scenario


def _sequences(batch: float, sequence: float, path: str) -> float:
    """A batch size in sequences; a fault for a batch in tokens that is smaller than one sequence."""
    if not isinstance(batch, InTokens):
        return batch
    if batch < sequence:
        sentence = "{tokens} tokens are less than a sequence of {sequence}; write e.g. '1 sequence'"
        words = {"tokens": f"{batch:,.0f}", "sequence": f"{sequence:,.0f}", "keys": (path,)}
        raise PydanticCustomError("quantity_unit", sentence, words)
    return FromTokens(batch, sequence)
