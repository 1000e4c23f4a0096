"""Mixers: the half of a layer that lets tokens see one another."""

from typing import Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from costmodel.documents.schemas.base import Count, Document, optional
from costmodel.documents.schemas.count_kinds import Elements, Groups, Heads, Tokens
from costmodel.ground.counts import LinearRule


class Attention(Document):
    """Multi-head or grouped-query attention."""

    heads: Heads = Field(description="Query heads")
    kv_heads: Heads = Field(description="Key and value heads; equal to heads without grouping")
    head_dim: Elements = Field(description="Width of a head")
    value_dim: Elements | None = optional("Width of a head's value; absent: as head_dim")
    biases: bool = Field(default=False, description="Biases on the query, key and value projections")
    output_bias: bool = Field(default=False, description="Bias on the output projection")
    qk_norm: bool = Field(default=False, description="Queries and keys normalised head by head before the scores")
    qk_norm_whole: bool = Field(default=False, description="Queries and keys normalised over all their heads at once")
    sinks: bool = Field(default=False, description="A learned score for every head that no token takes")
    output_gate: bool = Field(default=False, description="A gate as wide as the queries on the result of attention")
    keys_as_values: bool = Field(default=False, description="Values are made from the keys' projection, not their own")
    value_norm: bool = Field(default=False, description="Values normalised head by head too, without weights")
    shared_kv: bool = Field(
        default=False, description="Reads keys and values of an earlier layer: it projects and caches none"
    )
    bidirectional: bool = Field(default=False, description="A query sees later tokens too, as in an encoder")
    window: Tokens | None = optional("Tokens a query sees, its own the last; absent: all")

    @property
    def projected(self) -> tuple[Literal["k", "v"], ...]:
        """The separate projections besides queries: keys and values, only keys, or none."""
        if self.shared_kv:
            return ()
        return ("k",) if self.keys_as_values else ("k", "v")

    @property
    def value_width(self) -> float:
        """The width of a head's value and output."""
        return self.head_dim if self.value_dim is None else self.value_dim

    @property
    def core_width(self) -> float:
        """The mean of key and value width: one product of the attention core runs over each."""
        return self.head_dim if self.value_dim is None else (self.head_dim + self.value_dim) / 2

    @model_validator(mode="after")
    def _values_of_their_own(self) -> Self:
        if self.value_dim is not None and self.keys_as_values:
            keys = {"keys": ("value_dim", "keys_as_values")}
            raise PydanticCustomError("value_dim", "values made from keys have their width: leave value_dim out", keys)
        return self

    @model_validator(mode="after")
    def _whole_groups_of_queries(self) -> Self:
        if self.heads % self.kv_heads:
            words = {"heads": f"{self.heads:g}", "kv_heads": f"{self.kv_heads:g}", "keys": ("kv_heads", "heads")}
            raise PydanticCustomError("groups", "{kv_heads} kv_heads do not divide the {heads} heads", words)
        return self


class Indexer(Document):
    """What picks the tokens, or the entries for runs of tokens, that sparse attention reads."""

    heads: Heads = Field(description="Heads of the indexer; all read one key a token")
    head_dim: Elements = Field(description="Width of its heads and of the key")
    top_k: Tokens = Field(description="Tokens, or entries, that a query reads")


class LatentAttention(Document):
    """Multi-head latent attention: keys and values grow from one narrow vector a token."""

    heads: Heads = Field(description="Heads")
    query_rank: Elements | None = optional("Width queries are compressed to; absent: they are not")
    kv_rank: Elements = Field(description="Width keys and values are compressed to")
    nope_dim: Elements = Field(description="Width of a head's query and key without positions")
    rope_dim: Elements = Field(
        description="Width of a head's query and key with rotary positions; one key for all heads"
    )
    value_dim: Elements = Field(description="Width of a head's value")
    indexer: Indexer | None = optional("Picks the tokens a query reads; absent: it reads all")

    @model_validator(mode="after")
    def _narrow_queries(self) -> Self:
        if self.indexer is not None and self.query_rank is None:
            keys = {"keys": ("query_rank", "indexer")}
            raise PydanticCustomError("indexer", "an indexer reads compressed queries: state query_rank", keys)
        return self


class Entries(Document):
    """Entries of compressed attention: each is a weighted mean over a run of tokens, and key and value as they are."""

    rate: Tokens = Field(description="Tokens of a run, which one entry stands for")
    overlap: bool = Field(
        default=False, description="An entry reads the run before its own too, with projections of its own for it"
    )
    indexer: Indexer | None = optional("Picks the entries a query reads; absent: it reads all")

    @property
    def series(self) -> float:
        """The vectors that a token is projected to: one per compressed entry to which it contributes."""
        return 2.0 if self.overlap else 1.0


class CompressedAttention(Document):
    """Attention over a window of tokens and over compressed entries, with one vector as key and value of all heads."""

    heads: Heads = Field(description="Query heads")
    head_dim: Elements = Field(description="Width of a head, of the key of a token and of an entry")
    rope_dim: Elements = Field(description="Part of that width with rotary positions")
    query_rank: Elements = Field(description="Width queries are compressed to")
    window: Tokens = Field(description="Tokens a query sees one by one, its own the last")
    entries: Entries | None = optional("Entries for earlier tokens; absent: the window alone")
    output_groups: Groups = Field(description="Groups of heads, each with a matrix to a narrow result of its own")
    output_rank: Elements = Field(description="Width of the narrow result of a group")
    sinks: bool = Field(default=False, description="A learned score for every head that no token takes")

    @model_validator(mode="after")
    def _whole_groups(self) -> Self:
        if self.heads % self.output_groups:
            words = {"heads": f"{self.heads:g}", "groups": f"{self.output_groups:g}"}
            keys = {"keys": ("output_groups", "heads")}
            raise PydanticCustomError("groups", "{groups} output_groups do not divide the {heads} heads", words | keys)
        return self


class StateSpace(Document):
    """A Mamba-2 mixer."""

    heads: Heads = Field(description="Heads")
    head_dim: Elements = Field(description="Width of a head")
    groups: Groups = Field(description="Groups of heads that share input and output matrices of the state")
    state: Elements = Field(description="Size of a state for each channel")
    conv: Count = Field(description="Taps of the short convolution")
    chunk: Tokens = Field(description="Tokens a kernel works on at once")
    norm: bool = Field(default=True, description="Whether the gated result is normalised before the output projection")


class LinearAttention(Document):
    """Linear attention: a state for each head in place of keys and values of all tokens."""

    rule: LinearRule = Field(
        description="How a token changes the state: gated-delta (Gated DeltaNet), kimi-delta (a decay a channel) or "
        "lightning (a fixed decay)"
    )
    heads: Heads = Field(description="Heads of values, each with a state")
    value_dim: Elements = Field(description="Width of a head's value")
    key_heads: Heads = Field(description="Heads of queries and keys; they divide the heads of values")
    key_dim: Elements = Field(description="Width of a head's query and key")
    conv: Count | None = optional("Taps of the short convolution; absent: none")
    chunk: Tokens = Field(default=64.0, description="Tokens a kernel works on at once")

    @model_validator(mode="after")
    def _whole_groups(self) -> Self:
        if self.heads % self.key_heads:
            words = {"heads": f"{self.heads:g}", "key_heads": f"{self.key_heads:g}", "keys": ("key_heads", "heads")}
            raise PydanticCustomError("groups", "{key_heads} key heads do not divide the {heads} heads", words)
        return self


class SelectiveScan(Document):
    """A Mamba-1 mixer: every channel has a state of its own, which a scan in registers carries along."""

    inner: Elements = Field(description="Channels")
    state: Elements = Field(description="Size of a state for each channel")
    rank: Elements = Field(description="Width that the steps of all channels are compressed to")
    conv: Count = Field(description="Taps of the short convolution")
    norms: bool = Field(default=False, description="Steps, inputs and outputs of the state normalised before the scan")
    biases: bool = Field(default=False, description="Biases on the projections into the mixer and out of it")


AnyMixer = Attention | LatentAttention | CompressedAttention | StateSpace | LinearAttention | SelectiveScan
ScanMixer = StateSpace | LinearAttention | SelectiveScan  # a state of fixed size in place of a cache
