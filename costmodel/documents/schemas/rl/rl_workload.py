"""Workload of reinforcement learning: prompts, lengths of answers, judges, staleness."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from costmodel.documents.keys.references import REFERENCES
from costmodel.documents.schemas.base import Document, NonNegative, Quantity, Seconds, optional
from costmodel.documents.schemas.count_kinds import Sequences, Tokens
from costmodel.documents.schemas.optimizer import OptimizerReference
from costmodel.documents.schemas.precision import Precision
from costmodel.documents.schemas.stack import GradientType

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
        "Prompts that are drawn at a time until enough are kept; left out, as many as an iteration has"
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
        response = given.get("response") if isinstance(given, dict) else None
        if response is not None and not isinstance(response, dict):
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
        if self.wave is not None and self.algorithm not in OF_GROUPS:
            return "wave", f"{self.algorithm} draws no further prompts; leave wave out"
        return self._of_dpo() if self.algorithm == "dpo" else None

    def _of_dpo(self) -> tuple[str, str] | None:
        if "samples" in self.model_fields_set and self.samples != 2:
            return "samples", "dpo trains on pairs; leave samples out"
        for key in ("staleness", "rollouts", "reward", "environment", "old_log_probabilities", "rollout_precision"):
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
