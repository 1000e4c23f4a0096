"""Plan of engines on the accelerators: one replica and the number of replicas; and a space of such plans."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from costmodel.documents.schemas.base import Count, Document, Quantity, Share, optional
from costmodel.documents.schemas.count_kinds import Gpus, Replicas, Stages
from costmodel.documents.schemas.serving.serving_workload import Tokens

Copies = Annotated[float, Quantity("1", 0, whole=True)]
_OF_ONE = ("tp", "pp", "ep", "dp_attention", "dcp", "replicas")
_NO_STAGES = (
    "instances for prefill and for decode have no pp: how a cache passes between pipeline stages of both is not "
    "modelled; leave pp out and state tp"
)
DRAFTS = ("eagle", "mtp", "ngram")  # any other is a model


ACCEPTED = ("acceptance", "chance", "length")


class Speculation(Document):
    """Tokens that a cheap draft proposes and one step of the model verifies."""

    tokens: Count = Field(description="Tokens drafted for each sequence and step", examples=["4"])
    acceptance: Share | None = Field(
        default=None,
        description="Accepted tokens over drafted ones, with so many drafted: the acceptance rate in the log of vLLM",
        examples=["42 %"],
    )
    chance: Share | None = optional(
        "In its place: the chance that a drafted token is accepted, given that those before it are"
    )
    length: Annotated[float, Quantity("token", 1)] | None = optional(
        "In its place: tokens that a step adds, with the model's own: the accept length in the log of "
        "SGLang, the mean acceptance length in that of vLLM"
    )
    depth: Count | None = optional("Levels of a tree of drafts, a pass of the draft for each; default: tokens, a chain")
    width: Count = Field(default=1.0, description="Tokens that a pass drafts beside each other: the topk of SGLang")
    draft: str = Field(
        description="eagle or mtp (a layer like the model's last, and its head), ngram (repeated text), or a model",
        examples=["eagle"],
    )

    @property
    def levels(self) -> float:
        """The number of draft passes: one for each level of the draft tree."""
        return self.tokens if self.depth is None else self.depth

    @property
    def tree_words(self) -> str:
        """The shape of the draft tree as written in a plan; empty for a chain."""
        depth = "" if self.depth is None else f", depth: {self.depth:g}"
        return depth if self.width == 1 else f"{depth}, width: {self.width:g}"

    @property
    def accepted_words(self) -> str:
        """The acceptance of draft tokens as written in a plan."""
        if self.length is not None:
            return f"length: {self.length:g}"
        name, share = ("chance", self.chance) if self.acceptance is None else ("acceptance", self.acceptance)
        return f"{name}: {100 * (share or 0.0):.4g} %"

    @model_validator(mode="after")
    def _accepted(self) -> Self:
        given = [name for name in ACCEPTED if getattr(self, name) is not None]
        if len(given) != 1:
            fault = f"{' and '.join(given)} are given" if given else "none is given"
            words = {"fault": fault, "keys": tuple(given)}
            sentence = "{fault}; how many drafted tokens are accepted is one of acceptance, chance and length"
            raise PydanticCustomError("accepted", sentence, words)
        if self.levels > self.tokens or self.width > self.tokens:
            sentence = "a tree of {tokens} tokens has neither more levels nor more tokens beside each other"
            words = {"tokens": f"{self.tokens:g}", "keys": ("depth", "width", "tokens")}
            raise PydanticCustomError("accepted", sentence, words)
        if self.width > 1 and self.depth is None:
            sentence = (
                "a tree that is {width} tokens wide has fewer levels than tokens: state depth, or leave width out"
            )
            raise PydanticCustomError("accepted", sentence, {"width": f"{self.width:g}", "keys": ("width",)})
        added = 1 + self.tokens * self.acceptance if self.acceptance is not None else self.length
        if added is not None and added > self.levels + 1 + 1e-9:
            key = "acceptance" if self.length is None else "length"
            words = {"most": f"{self.levels + 1:g}", "keys": (key, "depth" if self.depth else "tokens")}
            raise PydanticCustomError("accepted", "a step adds {most} tokens at most: drafted ones and its own", words)
        return self


class Instances(Document):
    """Instances that do one half of the work: prompts, or the tokens behind them."""

    tp: Gpus = Field(default=1, description="Tensor-parallel degree")
    ep: Gpus = Field(default=1, description="Expert-parallel degree")
    dp_attention: Replicas = Field(default=1, description="Groups of tp ranks that each attend to their own requests")
    dcp: Gpus = Field(default=1, description="Ranks of tp that divide the cache of a sequence by tokens")
    replicas: Replicas = Field(
        default=1, description="Instances of this kind; left out, as many of each as the accelerators hold"
    )

    node: str | None = optional(
        "Kind of node that they run on, one of those of cluster.groups, prefill on another than decode; left out, all "
        "nodes are of one kind"
    )

    @model_validator(mode="before")
    @classmethod
    def _without_stages(cls, stated: Any) -> Any:
        if isinstance(stated, dict) and "pp" in stated:
            raise PydanticCustomError("plan", _NO_STAGES, {"keys": ("pp",)})
        return stated


class ReplicaPlan(Document):
    """One replica of the engine, and how many there are; or instances for prompts and for tokens apart."""

    tp: Gpus = Field(default=1, description="Tensor-parallel degree")
    pp: Stages = Field(default=1, description="Pipeline stages")
    ep: Gpus = Field(
        default=1, description="Expert-parallel degree; divides the ranks of tp and dp_attention a second time"
    )
    dp_attention: Replicas = Field(
        default=1, description="Groups of tp ranks, each with its own requests, that share the experts"
    )
    dcp: Gpus = Field(
        default=1, description="Decode context parallelism: ranks of tp that divide the cache of a sequence by tokens"
    )
    replicas: Replicas | None = optional("Copies of the engine; default: as many as the accelerators hold")
    speculation: Speculation | None = optional("Speculative decoding; default: none")
    redundant_experts: Copies | None = optional(
        "Copies of routed experts of a layer, over all ranks of ep; default: none"
    )
    host_experts: Share | None = optional(
        "Share of the routed experts that lie in host memory and are computed by its processors; default: none"
    )
    prefill: Instances | None = optional("Instances that only compute prompts")
    decode: Instances | None = optional("Instances that only generate, from the cache sent to them")

    @model_validator(mode="after")
    def _both_halves(self) -> Self:
        if (self.prefill is None) != (self.decode is None):
            words = "state prefill and decode together: each computes what the other does not"
            raise PydanticCustomError("plan", words, {"keys": ("prefill", "decode")})
        beside = [name for name in _OF_ONE if name in self.model_fields_set]
        if self.prefill is not None and "pp" in beside:
            raise PydanticCustomError("plan", _NO_STAGES, {"keys": ("pp",)})
        if self.prefill is not None and beside:
            sentence = "{fault} is for engines that do both; prefill and decode have their own"
            raise PydanticCustomError("plan", sentence, {"fault": " and ".join(beside), "keys": tuple(beside)})
        nodes = [half.node for half in (self.prefill, self.decode) if half is not None]
        if nodes and (nodes.count(None) == 1 or (nodes[0] is not None and nodes[0] == nodes[1])):
            sentence = "prefill.node and decode.node name two kinds of nodes; leave both out where all run on one kind"
            raise PydanticCustomError("plan", sentence, {"keys": ("prefill", "decode")})
        return self


class ServingPlan(ReplicaPlan):
    """A plan of all nodes, or one of each kind of them."""

    groups: list[ReplicaPlan] | None = Field(
        default=None,
        min_length=1,
        description="Plans of the kinds of nodes in cluster.groups, in their order; left out, one plan is of all",
    )

    @model_validator(mode="after")
    def _of_groups(self) -> Self:
        beside = [name for name in ("prefill", "decode", *_OF_ONE) if name in self.model_fields_set]
        if self.groups is not None and beside:
            sentence = "{fault} is of one plan, and groups have their own plans; state it in each of groups"
            raise PydanticCustomError("plan", sentence, {"fault": " and ".join(beside), "keys": tuple(beside)})
        return self

    @classmethod
    def of_kind(cls, plan: ReplicaPlan) -> Self:
        """The plan for one kind of nodes, as a plan of all nodes."""
        values = {name: getattr(plan, name) for name in type(plan).model_fields}
        return cls.model_construct(_fields_set=set(plan.model_fields_set), **values)


class ServingSpace(Document):
    """Lists of the plan's keys; a key left out takes every value that makes sense."""

    tp: list[Gpus] | None = Field(default=None, min_length=1, description="Tensor-parallel degrees")
    pp: list[Stages] | None = Field(default=None, min_length=1, description="Pipeline stages")
    ep: list[Gpus] | None = Field(default=None, min_length=1, description="Expert-parallel degrees")
    dp_attention: list[Replicas] | None = Field(
        default=None,
        min_length=1,
        description="Groups of tp ranks with their own requests; default: 1, with latent attention all",
    )
    dcp: list[Gpus] | None = Field(
        default=None, min_length=1, description="Degrees of decode context parallelism to try; default: the plan's own"
    )
    replicas: list[Replicas] | None = Field(
        default=None, min_length=1, description="Copies of the engine to try; default: as many as the accelerators hold"
    )
    redundant_experts: list[Copies] | None = Field(
        default=None, min_length=1, description="Numbers of copies of routed experts to try; default: the plan's own"
    )
    disaggregated: bool = Field(default=False, description="Whether to also try plans with separate prefill and decode")
    budget: list[Tokens] | None = Field(
        default=None, min_length=1, description="Token budgets of a step to try; default: the engine's choice"
    )
