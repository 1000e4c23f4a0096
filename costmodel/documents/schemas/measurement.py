"""Published measured runs: one table per document, compared with costmodel's predictions."""

from typing import Any, Literal

from pydantic import Field, InstanceOf

from costmodel.documents.schemas.base import Bytes, Document, FlopRate, Name, Seconds, Share, Source, keyed, optional
from costmodel.documents.schemas.run import TokenRate
from costmodel.documents.schemas.serving import Tokens

# As it was read: keys and values that know where they stand, for the faults of what is made of them.
Tree = InstanceOf[dict[str, Any]]


class Cited(Document):
    """The paper or page that contains the table."""

    key: str = Field(description="Key of the source under 'sources', or of the bibliography")
    where: str = Field(description="Table, figure or page")


class Tolerance(Document):
    """How far a prediction may be from the measurement."""

    step_time: Share | None = optional("Of a step's time")
    flop_rate: Share | None = optional("Of the model FLOP rate")
    iteration_time: Share | None = optional("Of an iteration of reinforcement learning")
    memory_states: Share | None = optional("Of weights, gradients and optimizer")
    memory_allocated: Share | None = optional("Of allocated memory")
    memory_reserved: Share | None = optional("Of reserved memory")
    memory_peak: Share | None = optional("Of peak memory")
    output_tokens_per_s: Share | None = optional("Of the tokens that an engine generates a second")
    cache_pool_tokens: Share | None = optional("Of the tokens that an engine's cache holds")


class Results(Document):
    """The measured results of a run."""

    step_time: Seconds | None = optional("Time of a step")
    flop_rate: FlopRate | None = optional("Model FLOP a second of each accelerator")
    iteration_time: Seconds | None = optional("Of reinforcement learning: time of an iteration")
    memory_states: Bytes | None = optional("Memory between two steps")
    memory_allocated: Bytes | None = optional("Peak memory that tensors hold")
    memory_reserved: Bytes | None = optional("Peak memory that the caching allocator holds")
    memory_peak: Bytes | None = optional("Peak memory as the driver shows it")
    output_tokens_per_s: TokenRate | None = optional("Of serving: tokens generated per second by all replicas")
    ttft: Seconds | None = optional("Of serving: mean time to the first token")
    tpot: Seconds | None = optional("Of serving: mean time per token after the first")
    cache_pool_tokens: Tokens | None = optional("Of serving: tokens that a replica's cache holds")


class Run(Document):
    """One row of the table."""

    name: Name = Field(description="Short name of the row")
    set: Tree = keyed("What this run changes in the scenario, by path")
    measured: Results = Field(description="What was measured")


class MeasuredTable(Document):
    """One published table of measured runs."""

    schema_: Literal["costmodel/measured/v1"] = Field(alias="schema", description="Kind and version of this document")
    name: Name = Field(description="Name; equals the file name")
    title: str = Field(description="One line")
    source: Cited = Field(description="Where it was published")
    note: str | None = optional("What a reader should know")
    tolerance: Tolerance = Field(description="How far predictions may be off")
    scenario: Tree = Field(description="The scenario the runs share")
    set: Tree = keyed("What all runs change in the documents that the scenario names, by path")
    runs: list[Run] = Field(min_length=1, description="The rows")
    sources: dict[str, Source] = keyed("Sources by key")
