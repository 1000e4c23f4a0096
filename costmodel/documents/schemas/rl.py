"""Scenarios of reinforcement learning, and the phases of an iteration."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from costmodel.documents.keys.paths import REFERENCES
from costmodel.documents.schemas.base import (
    Document,
    Gpus,
    Name,
    NonNegative,
    Portion,
    Positive,
    Price,
    Quantity,
    Replicas,
    Seconds,
    Sequences,
    Share,
    Source,
    Sourced,
    Tokens,
    as_written,
    keyed,
    listed,
    off,
    optional,
)
from costmodel.documents.schemas.base import as_written as _as_written
from costmodel.documents.schemas.engine import Engine
from costmodel.documents.schemas.hardware import Cluster
from costmodel.documents.schemas.limits import RlLimits
from costmodel.documents.schemas.model import ModelReference
from costmodel.documents.schemas.precision import Precision
from costmodel.documents.schemas.run import WholeRun
from costmodel.documents.schemas.scenario import OptimizerReference, Plan
from costmodel.documents.schemas.stack import GradientType, StackReference

# --- scenarios of reinforcement learning


# Plan of an iteration: the trainer's plan, and the plan of generation on the same or on separate ranks.


class RolloutPlan(Document):
    """What generates."""

    colocated: bool = Field(
        default=True, description="Whether it takes turns with the trainer on the same accelerators, or has its own"
    )
    ranks: Gpus | None = optional("Accelerators of its own: whole nodes, or some of one; the trainer has the others")
    tp: Gpus = Field(default=1, description="Tensor-parallel degree of one engine")
    ep: Gpus = Field(default=1, description="Expert-parallel degree of one engine")
    dp_attention: Replicas = Field(
        default=1, description="Groups of tp ranks of an engine that attend apart and share the experts"
    )
    memory: Portion | None = optional("Share of an accelerator's memory that an engine claims; left out, the stack's")
    offload: bool | None = optional(
        "Whether states of training are on the host while answers are generated; left out, the stack's"
    )

    @model_validator(mode="after")
    def _ranks(self) -> Self:
        """Checks that engines have their own accelerators exactly if they are not colocated."""
        if self.colocated and self.ranks is not None:
            sentence = "colocated rollouts take all accelerators; add colocated: false, or leave ranks out"
            raise PydanticCustomError("limit", sentence, {"keys": ("ranks",)})
        if not self.colocated and self.ranks is None:
            sentence = "rollouts on accelerators of their own need their number: plan.rollout.ranks=8"
            raise PydanticCustomError("limit", sentence, {"keys": ("colocated",)})
        if not self.colocated and self.offload:
            sentence = "nothing is moved away where training and generation have accelerators of their own"
            raise PydanticCustomError("limit", sentence, {"keys": ("offload",)})
        return self


class ModelRanks(Document):
    """Accelerators of the models beside the policy, which then work at the same time as the trainer."""

    critic: Gpus | None = optional("Of the critic; left out, it shares the trainer's")
    reference: Gpus | None = optional("Of the reference; left out, it shares the trainer's")
    reward: Gpus | None = optional("Of the reward model; left out, it shares the trainer's")

    @property
    def all(self) -> float:
        """All accelerators of these models."""
        return sum(float(ranks) for ranks in (self.critic, self.reference, self.reward) if ranks is not None)


class RlPlan(Plan):
    """The plan of the trainer, whose micro-batches hold sequences of mean length, and of what generates."""

    beside: ModelRanks = Field(
        default_factory=ModelRanks.model_construct, description="Accelerators of the models beside the policy"
    )
    rollout: RolloutPlan = Field(default_factory=RolloutPlan.model_construct, description="What generates")


class RlSpace(Document):
    """What a search tries; a key left out takes every value that makes sense."""

    ranks: list[Gpus] | None = listed("Accelerators that generate alone; else colocated and every split")
    rollout_tp: list[Gpus] | None = listed("Tensor-parallel degrees of engines")
    tp: list[Gpus] | None = listed("Tensor-parallel degrees of the trainer")
    cp: list[Gpus] | None = listed("Context-parallel degrees of the trainer")


# Workload of reinforcement learning: prompts, lengths of answers, judges, staleness.

Algorithm = Literal["ppo", "grpo", "dapo", "rloo", "dpo"]
OF_GROUPS = ("grpo", "dapo", "rloo")  # which compare the answers to a prompt, and have no critic
Rollouts = Literal["batch", "continuous", "partial"]
Reward = Literal["rule", "model"]
Scored = Literal["trainer", "engine"]
Prompts = Annotated[float, Quantity("request", 1, 1e12, whole=True)]
Turns = Annotated[float, Quantity("1", 1, 1e6)]
Dropped = Annotated[float, Quantity("1", 0, 0.99)]
Environments = Annotated[float, Quantity("replica", 1, 1e9, whole=True)]
Spread = Annotated[float, Quantity("1", 1e-6, 10)]  # as of requests to engines
Iterations = Annotated[float, Quantity("step", 1, 1e12, whole=True)]


class Response(Document):
    """Lengths of answers: log-normal, cut at a limit."""

    mean: Tokens = Field(description="Tokens of an answer, on average, before the limit cuts the longest")
    limit: Tokens = Field(description="Tokens at which an answer is cut")
    spread: Spread | None = optional("Standard deviation over the mean, before the cut; left out, 95 %")

    @model_validator(mode="after")
    def _within(self) -> Self:
        """Checks that the mean length of answers is within their limit."""
        if self.mean > self.limit:
            words = {"keys": ("mean", "limit")}
            raise PydanticCustomError("limit", "the mean answer is longer than the limit", words)
        return self


class Environment(Document):
    """What answers wait for outside the model: tools, a simulator, a judge."""

    time: Seconds = Field(description="Of one call, in which an answer waits and its sequence is not decoded")
    turns: Turns = Field(default=1.0, description="Calls of an answer, on average")
    parallel: Environments | None = optional("Calls that run at a time; left out, all")


class Rl(Document):
    """A workload of reinforcement learning, by iterations: generate, judge, update."""

    kind: Literal["rl"] = Field(description="rl")
    algorithm: Algorithm = Field(
        description="ppo with a critic; grpo and rloo without; dapo without a reference either, and with prompts that "
        "are dropped and replaced (filtered); dpo of pairs that are given"
    )
    prompts: Prompts = Field(description="Prompts of an iteration; of dpo pairs of answers")
    samples: Sequences = Field(default=1, description="Answers to each prompt; of dpo the two of a pair")
    prompt: Tokens = Field(description="Tokens of a prompt")
    response: Response = Field(description="Tokens of an answer: mean and limit, since the longest set the time")
    mini_batch: Sequences | None = optional("Answers of an optimizer step; left out, all of an iteration")
    filtered: Dropped | None = optional(
        "Share of the drawn prompts whose answers all have the same reward: they are dropped and replaced; "
        "left out, none is counted, and of dapo the band allows for some"
    )
    wave: Prompts | None = optional(
        "Prompts that the engines get at a time, until enough are kept; left out, as many as an iteration has"
    )
    epochs: Sequences = Field(default=1, description="Times that each answer is trained on")
    staleness: NonNegative = Field(
        default=0.0,
        description="Share of an iteration's answers that may be of older weights; over 0 neither side waits",
    )
    rollouts: Rollouts = Field(
        default="batch",
        description="batch waits for its longest answer; continuous fills up with the next prompts; partial also cuts "
        "answers at new weights and continues with them",
    )
    reference: bool | None = optional(
        "Whether a frozen copy judges every token; left out, as the algorithm was published"
    )
    old_log_probabilities: Scored | None = optional(
        "Who computes those before updates: trainer in a pass of its own, or engine; left out, as the stack does it"
    )
    reward: Reward | None = optional("rule, or a model of the policy's size; left out, a model for ppo alone")
    environment: Environment | None = optional("Tools or a simulator; left out, none")
    iterations: Iterations | None = optional(
        "Of the whole run; gives its time and cost. How many it takes follows from no law"
    )
    precision: Precision = Field(default="bf16", description="Type the matmuls read, in training and generation")
    rollout_precision: Precision | None = optional("Type the matmuls of generation read; left out, as precision")
    gradients: GradientType | None = optional("Type gradients are accumulated and reduced in; else the stack's")
    optimizer: OptimizerReference = Field(
        default=REFERENCES["workload.optimizer"].usual, description="Optimizer, by name or written out"
    )

    @model_validator(mode="before")
    @classmethod
    def _lengths(cls, given: Any) -> Any:
        """Checks that the lengths of answers are a mapping with mean and limit."""
        response = given.get("response") if isinstance(given, dict) else None
        if response is not None and not isinstance(response, dict | BaseModel):
            sentence = "a response needs mean and limit, e.g. {{mean: 4 k, limit: 16 k}}: the longest set the time"
            raise PydanticCustomError("load", sentence.replace("{{", "{").replace("}}", "}"), {"keys": ("response",)})
        return given

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if fault := self._fault():
            key, sentence = fault
            raise PydanticCustomError("limit", sentence, {"keys": (key,)})
        return self

    def _fault(self) -> tuple[str, str] | None:
        """The first key that contradicts the algorithm, and the reason."""
        if self.rollouts != "batch" and self.staleness == 0:
            return "rollouts", "continuous and partial rollouts mix answers of two weights; set staleness over 0"
        if self.algorithm in OF_GROUPS and self.samples < 2:
            return "samples", f"{self.algorithm} compares the answers to a prompt, so samples is 2 or more"
        if self.mini_batch is not None and self.mini_batch > self.answers:
            return "mini_batch", "a mini-batch is at most the answers of an iteration, prompts · samples"
        if self.filtered is not None and self.algorithm not in OF_GROUPS:
            return "filtered", f"{self.algorithm} compares no answers to a prompt, so it drops none; leave filtered out"
        return self._of_dpo() if self.algorithm == "dpo" else None

    def _of_dpo(self) -> tuple[str, str] | None:
        """The first key that DPO excludes, since it generates nothing, and the reason; None if there is none."""
        if "samples" in self.model_fields_set and self.samples != 2:
            return "samples", "dpo trains on pairs; leave samples out"
        for key in ("staleness", "rollouts", "wave", "reward", "environment", "old_log_probabilities",
                    "rollout_precision"):  # fmt: skip
            if key in self.model_fields_set:
                return key, f"dpo trains on pairs that are given and generates nothing; leave {key} out"
        return ("reference", "dpo needs its reference") if self.reference is False else None

    @property
    def generates(self) -> bool:
        """Whether the iteration generates answers."""
        return self.algorithm != "dpo"

    @property
    def answers(self) -> float:
        """The number of answers in an iteration."""
        return self.prompts * (2.0 if self.algorithm == "dpo" else self.samples)

    @property
    def kept(self) -> float:
        """The share of drawn prompts that is not filtered out."""
        return 1.0 - (self.filtered or 0.0)

    @property
    def drawn_at_once(self) -> float:
        """The number of prompts drawn at a time, if generation waits for its longest answer."""
        return self.prompts if self.wave is None else self.wave

    @property
    def refers(self) -> bool:
        """Whether a frozen reference model scores every token."""
        return self.algorithm != "dapo" if self.reference is None else self.reference

    @property
    def judged_by_model(self) -> bool:
        """Whether a reward model gives the reward."""
        return (self.algorithm == "ppo") if self.reward is None else self.reward == "model"


# Software for reinforcement learning: which trainer, which engine, and how weights and memory pass between them.

EngineReference = Annotated[Annotated[str, Tag("name")] | Annotated[Engine, Tag("inline")], Discriminator(_as_written)]
CopyRate = Annotated[float, Quantity("B/s", 1)]


class WeightSync(Sourced):
    """Rates at which all new weights reach the engines; the link between them may be slower."""

    whole: CopyRate = Field(description="Of weights that one rank of the trainer can gather matrix by matrix")
    sharded: CopyRate = Field(description="Of weights that tp, pp or ep of the trainer cut another way than engines")
    apart: CopyRate | None = optional(
        "Of sharded weights to engines on accelerators of their own; left out, as to others"
    )
    converted: bool = off(
        "Whether the trainer sends weights in the type that engines read; else engines convert what comes"
    )


class Sharing(Sourced):
    """How training and generation share an accelerator."""

    memory: Portion = Field(description="Share of the memory that an engine claims")
    sleeps: bool = Field(description="Whether engines give back weights and cache while training")
    offload: bool = Field(description="Whether states of training go to the host while answers are generated")
    balanced: bool = Field(description="Whether answers of an iteration are dealt to ranks by their length")
    reference_on_host: bool = off("Whether the weights of the reference are on the host, except for its pass")
    padded: bool = off("Whether the trainer pads the answers of a micro-batch to its longest; else it packs them")


class RolloutHost(Sourced):
    """What generation costs beyond the steps of an engine that serves."""

    token: Seconds = Field(
        description="Time of an engine's host for each token of an answer that it samples and returns with its "
        "log-probability, in which its accelerators wait"
    )
    turn: Seconds = Field(
        default=0.0, description="To put engines to sleep and to wake them, once an iteration on shared accelerators"
    )


class IterationSpread(Sourced):
    """How far real iterations lie from what their phases explain; standard deviations, relative."""

    generation: Share = Field(description="Of generation: lengths are not log-normal, and grow")
    update: Share = Field(description="Of the passes of the trainer, beyond the error of a step")
    lengths: Share = Field(description="Of the mean length of answers from iteration to iteration")


class RlStack(Document):
    """One software for reinforcement learning, as it runs by default."""

    schema_: Literal["costmodel/stack/v1"] = Field(alias="schema", description="Kind and version of this document")
    name: Name = Field(description="Name; equals the file name")
    title: str = Field(description="Full name and version")
    kind: Literal["rl"] = Field(description="rl")
    like: Name | None = optional("Stack that everything left out is taken from, section by section")
    trainer: StackReference = Field(description="What trains, by name or written out")
    rollout: EngineReference = Field(description="Engine that generates, by name or written out")
    algorithms: list[Algorithm] = Field(min_length=1, description="Algorithms it offers")
    rollouts: list[Rollouts] = Field(min_length=1, description="Ways to generate that it offers")
    scored_by_trainer: list[Rollouts] = Field(
        description="Ways to generate after which the trainer computes old log-probabilities; else engines' count"
    )
    apart: bool = Field(description="Whether engines can have accelerators of their own")
    sync: WeightSync = Field(description="How new weights reach the engines")
    sharing: Sharing = Field(description="How training and generation share an accelerator")
    host: RolloutHost = Field(description="What generation costs beyond the steps of an engine that serves")
    spread: IterationSpread = Field(description="Error beyond that of a step and of an engine")
    sources: dict[str, Source] = keyed("Sources by key")


RlStackReference = Annotated[Annotated[str, Tag("name")] | Annotated[RlStack, Tag("inline")], Discriminator(as_written)]
RlObjective = Literal["iteration_time", "run_time", "run_cost"]


class RlAssumptions(Document):
    """Assumptions; every default used is reported in the answer."""

    price: Price | None = optional("Of one accelerator; else the node's list price")
    sustained: Positive | None = optional(
        "Slowdown of real training over isolated kernels, on one part; else the fit's"
    )
    network_share: Portion | None = optional("Share of the interface rate that collectives reach; else the fit's")


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


RL: dict[str, type[BaseModel]] = {"scenario": RlScenario, "stack": RlStack}


# --- the phases of an iteration of reinforcement learning, and which results of a run it has


PHASES = (
    "generation",
    "old_log_probabilities",
    "reference_time",
    "reward_time",
    "critic_time",
    "update_time",
    "switch",
    "weight_sync",
)
TRAINER = ("old_log_probabilities", "reference_time", "reward_time", "critic_time", "update_time")
