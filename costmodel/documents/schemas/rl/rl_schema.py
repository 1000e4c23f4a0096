"""A scenario of reinforcement learning: model, cluster, workload, software, plan, assumptions, limits."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from costmodel.documents.schemas.base import Document, Portion, Positive, Price, as_written, optional
from costmodel.documents.schemas.hardware import Cluster
from costmodel.documents.schemas.limits import MoneyLimit, ShareLimit, TimeLimit
from costmodel.documents.schemas.model import ModelReference
from costmodel.documents.schemas.results import RL_RESULTS
from costmodel.documents.schemas.rl.rl_plan import RlPlan, RlSpace
from costmodel.documents.schemas.rl.rl_stack import RlStack
from costmodel.documents.schemas.rl.rl_workload import Rl
from costmodel.documents.schemas.run import WholeRun

RlStackReference = Annotated[Annotated[str, Tag("name")] | Annotated[RlStack, Tag("inline")], Discriminator(as_written)]
RlObjective = Literal["iteration_time", "run_time", "run_cost"]


class RlAssumptions(Document):
    """Assumptions; every default used is reported in the answer."""

    price: Price | None = optional("Of one accelerator; else the node's list price")
    sustained: Positive | None = optional(
        "Slowdown of real training over isolated kernels, on one part; else the fit's"
    )
    network_share: Portion | None = optional("Share of the interface rate that collectives reach; else the fit's")


def _meaning(name: str) -> str:
    meaning = RL_RESULTS[name].meaning
    return meaning[0].upper() + meaning[1:]


class RlLimits(Document):
    """What a plan must keep."""

    iteration_time: TimeLimit = Field(default_factory=TimeLimit.model_construct, description=_meaning("iteration_time"))
    memory: ShareLimit = Field(default_factory=ShareLimit.model_construct, description=_meaning("memory_share"))
    fit_chance: ShareLimit = Field(default_factory=ShareLimit.model_construct, description=_meaning("fit_chance"))
    run_time: TimeLimit = Field(default_factory=TimeLimit.model_construct, description=_meaning("run_time"))
    run_cost: MoneyLimit = Field(default_factory=MoneyLimit.model_construct, description=_meaning("run_cost"))


class RlScenario(Document):
    """Everything one question about reinforcement learning needs."""

    schema_: Literal["costmodel/scenario/v1"] = Field(alias="schema", description="Kind and version of this document")
    title: str = Field(description="One line for the reader of the file; answers print what was computed")
    model: ModelReference = Field(description="Policy, by name or written out; critic and judges are as large")
    cluster: Cluster = Field(description="Where it runs")
    workload: Rl = Field(description="What an iteration is")
    stack: RlStackReference = Field(default="verl", description="Software, by name or written out")
    plan: RlPlan | None = optional("One plan")
    search: RlSpace | None = optional("What search tries; by default every valid plan")
    assume: RlAssumptions = Field(default_factory=RlAssumptions.model_construct, description="Assumptions")
    run: WholeRun | None = optional("The whole run: failures and checkpoints; left out, iterations alone")
    limits: RlLimits = Field(default_factory=RlLimits.model_construct, description="What a plan must keep")
    objective: RlObjective = Field(default="iteration_time", description="What search orders by")
