"""Model shapes: a short list of layer kinds with counts; each has a mixer, a feed-forward half, or both."""

from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from costmodel.documents.schemas.base import (
    Count,
    Document,
    Elements,
    ExpertCount,
    Groups,
    Heads,
    LayerCount,
    Modules,
    Name,
    NonNegative,
    Parameters,
    Source,
    Sourced,
    Tokens,
    Vocabulary,
    as_written,
    keyed,
    off,
    optional,
)
from costmodel.documents.schemas.precision import CacheType, WeightType
from costmodel.ground.counts import LinearRule, Norm, StreamRule


class Attention(Document):
    """Multi-head or grouped-query attention."""

    heads: Heads = Field(description="Query heads")
    kv_heads: Heads = Field(description="Key and value heads; equal to heads without grouping")
    head_dim: Elements = Field(description="Width of a head")
    value_dim: Elements | None = optional("Width of a head's value; absent: as head_dim")
    biases: bool = off("Biases on the query, key and value projections")
    output_bias: bool = off("Bias on the output projection")
    qk_norm: bool = off("Queries and keys normalised head by head before the scores")
    qk_norm_whole: bool = off("Queries and keys normalised over all their heads at once")
    sinks: bool = off("A learned score for every head that no token takes")
    output_gate: bool = off("A gate as wide as the queries on the result of attention")
    keys_as_values: bool = off("Values are made from the keys' projection, not their own")
    value_norm: bool = off("Values normalised head by head too, without weights")
    shared_kv: bool = off("Reads keys and values of an earlier layer: it projects and caches none")
    bidirectional: bool = off("A query sees later tokens too, as in an encoder")
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
    overlap: bool = off("An entry reads the run before its own too, with projections of its own for it")
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
    sinks: bool = off("A learned score for every head that no token takes")

    @model_validator(mode="after")
    def _whole_groups(self) -> Self:
        """Checks that output groups divide the heads."""
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
    norms: bool = off("Steps, inputs and outputs of the state normalised before the scan")
    biases: bool = off("Biases on the projections into the mixer and out of it")


AnyMixer = Attention | LatentAttention | CompressedAttention | StateSpace | LinearAttention | SelectiveScan
ScanMixer = StateSpace | LinearAttention | SelectiveScan  # a state of fixed size in place of a cache


class Mlp(Document):
    """The feed-forward half of a layer."""

    ffn_hidden: Elements = Field(description="Inner width")
    gated: bool = Field(description="Three matrices (SwiGLU and its kin) instead of two")
    biases: bool = off("Biases on every matrix")

    @property
    def projected(self) -> tuple[Literal["gate", "up"], ...]:
        """The matrices that read its input."""
        return ("gate", "up") if self.gated else ("up",)


class Experts(Document):
    """A mixture of experts in the place of an MLP."""

    count: ExpertCount = Field(description="Routed experts")
    top_k: ExpertCount = Field(description="Routed experts a token goes to")
    ffn_hidden: Elements = Field(description="Inner width of a routed expert")
    gated: bool = Field(description="Three matrices (SwiGLU and its kin) instead of two")
    biases: bool = off("Biases on every matrix of an expert")
    router_bias: bool = off("A bias for every expert in the router")
    hashed: bool = off("Experts of a token stand in a fixed table by its number; the router weighs them")
    latent_dim: Elements | None = optional(
        "Width that routed experts read and write, two matrices lead to it and back; absent: the stream's"
    )
    module_runs: Literal["chosen", "all"] = Field(
        default="chosen", description="Experts that the model's own module in transformers runs on each token"
    )
    shared: Mlp | None = optional("Shared experts as one MLP of their whole width")
    shared_gate: bool = off("A learned gate on the shared expert")
    groups: Groups | None = optional("Equal groups of neighbouring experts; see group_limit")
    group_limit: Groups | None = optional("Most groups that the experts of a token lie in; absent: any")

    @property
    def projected(self) -> tuple[Literal["gate", "up"], ...]:
        """The matrices of an expert that read its input."""
        return ("gate", "up") if self.gated else ("up",)

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        """Checks that top_k, router bias and expert groups agree with the number of experts."""
        if (self.groups is None) != (self.group_limit is None):
            keys = {"keys": ("groups", "group_limit")}
            raise PydanticCustomError("groups", "groups and group_limit stand together or not at all", keys)
        self._sensible_groups()
        if self.hashed and self.router_bias:
            keys = {"keys": ("hashed", "router_bias")}
            raise PydanticCustomError("hashed", "hashed experts are not chosen by scores: router_bias has no use", keys)
        if self.top_k > self.count:
            words = {"top_k": f"{self.top_k:g}", "count": f"{self.count:g}", "keys": ("top_k", "count")}
            raise PydanticCustomError("top_k", "top_k {top_k} is more than the {count} experts there are", words)
        return self

    def _sensible_groups(self) -> None:
        """Checks that groups divide the experts and leave enough experts to choose from."""
        if self.groups is None or self.group_limit is None:
            return
        counts = {"groups": f"{self.groups:g}", "limit": f"{self.group_limit:g}", "count": f"{self.count:g}"}
        if self.count % self.groups:
            sentence = "{groups} groups do not divide the {count} experts"
            raise PydanticCustomError("groups", sentence, counts | {"keys": ("groups", "count")})
        if self.group_limit > self.groups:
            sentence = "group_limit {limit} is more than the {groups} groups there are"
            raise PydanticCustomError("groups", sentence, counts | {"keys": ("group_limit", "groups")})
        within = self.group_limit * self.count / self.groups
        if self.top_k > within:
            found = counts | {"top_k": f"{self.top_k:g}", "within": f"{within:g}", "keys": ("top_k", "group_limit")}
            sentence = "top_k {top_k} is more than the {within} experts of the {limit} groups a token may choose from"
            raise PydanticCustomError("groups", sentence, found)


AnyFeed = Mlp | Experts


class Layers(Document):
    """So many layers of one kind."""

    count: LayerCount = Field(description="How many layers")
    leading: bool = off("These come first; all other kinds are mixed evenly")
    parallel: bool = off("Both halves read the layer's input and are added in one go")
    norms: Count = Field(
        default=2.0, description="Normalisations of the stream: 1 if parallel halves share it, 4 with one behind each"
    )
    side_rank: Elements | None = optional(
        "Rank of two narrow matrices beside the mixer, whose normalised result is added (LAuReL)"
    )
    attention: Attention | None = optional("Attention half")
    latent: LatentAttention | None = optional("Latent attention in its place")
    compressed: CompressedAttention | None = optional("Attention over a window and compressed entries in its place")
    state_space: StateSpace | None = optional(
        "A state-space mixer in its place, or beside attention: their results are added"
    )
    linear: LinearAttention | None = optional("Linear attention in its place")
    selective_scan: SelectiveScan | None = optional(
        "A Mamba-1 mixer in its place, or beside attention: their results are added"
    )
    shared_output: bool = off(
        "Attention and selective_scan end in one matrix, which reads the mean of their normalised results"
    )
    mlp: Mlp | None = optional("Feed-forward half")
    experts: Experts | None = optional("Experts in its place")

    @model_validator(mode="after")
    def _halves(self) -> Self:
        """Checks that a layer has at most one mixer, or two that may be parallel, and one feed-forward half."""
        feeds = [half for key in FEED_KEYS if (half := getattr(self, key)) is not None]
        beside = self.attention is not None and (self.state_space is None) != (self.selective_scan is None)
        if len(self.mixers) > (2 if beside else 1) or len(feeds) > 1 or not (self.mixers or feeds):
            *most, last = MIXER_KEYS
            sentence = (
                "a layer has one of {mixers}, or attention with state_space or selective_scan, and one of mlp and "
                "experts; or only one of all"
            )
            raise PydanticCustomError("layer_halves", sentence, {"mixers": f"{', '.join(most)} and {last}"})
        return self

    @model_validator(mode="after")
    def _one_width(self) -> Self:
        """Checks that two parallel mixers with a shared output have results of one width."""
        if not self.shared_output:
            return self
        if self.attention is None or self.selective_scan is None:
            words = {"keys": ("shared_output",)}
            raise PydanticCustomError("shared_output", "shared_output is of attention beside selective_scan", words)
        width, inner = self.attention.heads * self.attention.value_width, self.selective_scan.inner
        if width != inner:
            found = {"width": f"{width:g}", "inner": f"{inner:g}", "keys": ("selective_scan.inner", "attention.heads")}
            sentence = "shared_output needs results of one width: attention's have {width}, selective_scan's {inner}"
            raise PydanticCustomError("shared_output", sentence, found)
        return self

    @property
    def mixers(self) -> list[AnyMixer]:
        """The mixers of the layer: none, one, or attention with a parallel state space or scan."""
        return [mixer for key in MIXER_KEYS if (mixer := getattr(self, key)) is not None]

    @property
    def heads(self) -> float | None:
        """The number of heads of the first mixer; None without a mixer."""
        return self.head_counts[0] if self.mixers else None

    @property
    def head_counts(self) -> tuple[float, ...]:
        """The head count of every mixer that tensor parallelism shards; linear attention counts key heads.

        For compressed attention it is the number of head groups, for a selective scan the number of channels.
        """
        return tuple(_sharded(mixer) for mixer in self.mixers)

    @property
    def scan_heads(self) -> tuple[float, ...]:
        """Head counts of mixers that scan the sequence; for them, ranks exchange heads for tokens under any cp_type."""
        counts = zip(self.mixers, self.head_counts, strict=True)
        return tuple(heads for mixer, heads in counts if isinstance(mixer, ScanMixer))

    @property
    def recurrent(self) -> bool:
        """Whether the layer only scans the sequence: no attention scores, and a state of fixed size."""
        return bool(self.scan_heads) and self.attention is None

    @property
    def needs_all_tokens(self) -> bool:
        """Whether a rank needs the keys of a whole sequence: an indexer picks among them, or all heads share them."""
        return self.compressed is not None or (self.latent is not None and self.latent.indexer is not None)

    @property
    def feed(self) -> AnyFeed | None:
        """The feed-forward half, if the layer has one."""
        return next((half for key in FEED_KEYS if (half := getattr(self, key)) is not None), None)

    @property
    def dense(self) -> Mlp | None:
        """The feed-forward part that every token uses: the MLP, or the shared experts."""
        feed = self.feed
        return feed.shared if isinstance(feed, Experts) else feed


def _keys_of(kinds: Any) -> tuple[str, ...]:
    """The keys of a layer that have one of these documents."""
    fields = Layers.model_fields.items()
    return tuple(key for key, own in fields if {*get_args(own.annotation)} & {*get_args(kinds)})


MIXER_KEYS, FEED_KEYS = _keys_of(AnyMixer), _keys_of(AnyFeed)


def _sharded(mixer: AnyMixer) -> float:
    """The number of heads, groups or channels of a mixer that tensor parallelism shards."""
    if isinstance(mixer, SelectiveScan):
        return mixer.inner
    if isinstance(mixer, CompressedAttention):
        return mixer.output_groups
    return mixer.key_heads if isinstance(mixer, LinearAttention) else mixer.heads


class TokenPrediction(Document):
    """Multi-token prediction: modules behind the last layer that guess tokens further ahead, in training only."""

    depth: Modules = Field(description="Modules, each one token further ahead")
    layer: Layers = Field(description="Layer of a module, count 1; two norms and a projection join it")

    @model_validator(mode="after")
    def _one_layer(self) -> Self:
        if self.layer.count != 1:
            words = {"count": f"{self.layer.count:g}", "keys": ("layer.count",)}
            raise PydanticCustomError("one_layer", "a module has one layer, not {count}; set depth for more", words)
        return self


class Projector(Document):
    """What leads merged patches to the width of the text model, or several of one kind."""

    count: Count = Field(default=1.0, description="How many; more than one where inner layers have their own")
    inputs: Elements = Field(description="Width it reads: of as many patches as become one token")
    inner: Elements | None = optional("Width between two matrices; absent: one matrix")
    biases: bool = off("Biases on its matrices")
    norm: Norm | None = optional("Kind of normalisation ahead; absent: none")
    norm_width: Elements | None = optional("Width of that normalisation; absent: as inputs")


class VisionTower(Document):
    """Layers that see all patches of an image at once, ahead of the first layer of the text model."""

    hidden: Elements = Field(description="Width of a patch in the tower")
    patch: Elements = Field(description="Numbers of a patch: channels x frames x height x width")
    patch_bias: bool = off("A bias on the matrix that reads patches")
    positions: Literal["learned", "rotary"] = Field(description="Rotary, or learned alone")
    position_rows: Vocabulary | None = optional("Rows of a learned table of positions")
    norm: Norm = Field(description="Kind of normalisation")
    norms: NonNegative = Field(default=0.0, description="Normalisations before the first layer and behind the last")
    layers: list[Layers] = Field(min_length=1, description="Layer kinds with counts")
    merge: Count = Field(description="Patches that become one token of the text model")
    projectors: list[Projector] = Field(min_length=1, description="What leads merged patches to the text model")


class LayerEmbedding(Document):
    """A table of tokens for every layer, whose entry multiplies a narrow copy of the stream behind both halves."""

    rows: Vocabulary = Field(description="Rows of the tables")
    width: Elements = Field(description="Width of an entry, for each layer")


class Published(Sourced):
    """A published parameter count, to compare with costmodel's."""

    parameters: Parameters = Field(description="Exact or as rounded in the source")
    exact: bool = Field(default=True, description="Exact to the digit, or a rounded headline figure")
    active: Parameters | None = optional("Parameters a token meets, all tables included")
    active_exact: bool = Field(default=True, description="That figure exact to the digit, or rounded")


class Model(Sourced):
    """The shape of a transformer."""

    schema_: Literal["costmodel/model/v1"] = Field(alias="schema", description="Kind and version of this document")
    name: Name = Field(description="Name; equals the file name")
    title: str = Field(description="Full name")
    vocab: Vocabulary = Field(
        description="Rows of the embedding as released, padding included; a stack may pad further"
    )
    hidden: Elements = Field(description="Width of the residual stream")
    positions: Literal["learned", "rotary", "alibi"] = Field(
        description="Learned embedding (counts parameters), rotary, or linear biases on the scores"
    )
    max_sequence: Tokens = Field(description="Longest sequence trained on; rows of a learned position embedding")
    position_rows: Vocabulary | None = optional("Rows of a learned position embedding if not as many")
    token_types: Vocabulary | None = optional(
        "Rows of a learned table of kinds of tokens, added to the embedding; absent: none"
    )
    embedding_norm: bool = off("Normalisation between the embedding and the first layer")
    meta_tokens: Tokens | None = optional("Learned tokens ahead of every sequence, which all layers see; absent: none")
    layer_embedding: LayerEmbedding | None = optional(
        "A table of tokens for every layer beside the embedding; absent: none"
    )
    residual_streams: Count | None = optional("Streams beside one another, which stream_rule mixes; absent: one alone")
    stream_rule: StreamRule = Field(
        default="hyper-connections",
        description="How: hyper-connections around each half, or alternating (AltUp: a layer works on one stream, "
        "predicts the others and corrects them)",
    )
    tied: bool = Field(description="Whether embedding and head share one matrix")
    norm: Norm = Field(description="Kind of normalisation")
    head_transform: bool = off("A square matrix and a bias between the last layer and the last normalisation")
    head_bias: bool = off("A bias for every row of the head")
    layers: list[Layers] = Field(min_length=1, description="Layer kinds with counts")
    vision: VisionTower | None = optional("A vision tower in front; absent: text alone")
    prediction: TokenPrediction | None = optional("Multi-token prediction; not in the count below")
    stored: WeightType | None = optional(
        "Type of the checkpoint's linear maps: of serving, where the workload names none"
    )
    stored_experts: WeightType | None = optional("The same of routed experts alone, where these are narrower")
    stored_wide: Parameters | None = optional(
        "Parameters of the layers' linear maps beside routed experts that stay in 16 bits; absent: none"
    )
    stored_cache: CacheType | None = optional(
        "Type of the cache that the checkpoint has scales for: of serving, where the workload names none"
    )
    published: Published | None = optional("Published parameter count")
    sources: dict[str, Source] = keyed("Sources by key")

    @model_validator(mode="after")
    def _one_leads(self) -> Self:
        """Checks that only the first kind of layers is marked as leading."""
        if any(kind.leading for kind in self.layers[1:]) or (self.layers[0].leading and len(self.layers) == 1):
            raise PydanticCustomError(
                "layer_order", "only the first of several kinds of layers may be leading, all others come behind it", {}
            )
        return self

    @model_validator(mode="after")
    def _streams_are_mixed(self) -> Self:
        """Checks that several residual streams are only combined with features that are modelled."""
        alternate = self.stream_rule == "alternating"
        if alternate and (self.residual_streams is None or self.residual_streams < 2):
            keys = {"keys": ("residual_streams", "stream_rule")}
            raise PydanticCustomError("streams", "alternating streams are two or more: state residual_streams", keys)
        if self.residual_streams is None:
            return self
        if self.layer_embedding is not None and not alternate:
            keys = {"keys": ("residual_streams", "layer_embedding")}
            raise PydanticCustomError(
                "streams", "hyper-connections and a layer_embedding are not modelled together", keys
            )
        if any(kind.parallel for kind in self.kinds):
            keys = {"keys": ("residual_streams", "layers")}
            raise PydanticCustomError("streams", "several streams are mixed around halves in turn, not parallel", keys)
        return self

    @property
    def kinds(self) -> list[Layers]:
        """All kinds of layers, including the multi-token-prediction layer."""
        return [*self.layers, *([] if self.prediction is None else [self.prediction.layer])]

    @property
    def is_encoder(self) -> bool:
        """Whether attention is bidirectional, so that the model does not generate tokens."""
        return any(kind.attention is not None and kind.attention.bidirectional for kind in self.layers)

    @property
    def cut_kinds(self) -> list[Layers]:
        """All kinds of layers that tensor parallelism shards, including those of the vision tower."""
        return [*self.kinds, *([] if self.vision is None else self.vision.layers)]

    @property
    def on_one_stage(self) -> bool:
        """Whether layers read results of other layers or tables that pipeline stages do not pass on."""
        shared = any(kind.attention is not None and kind.attention.shared_kv for kind in self.layers)
        return shared or self.layer_embedding is not None

    @property
    def has_experts(self) -> bool:
        """Whether any of the layers has experts."""
        return any(kind.experts is not None for kind in self.layers)


ModelReference = Annotated[Annotated[str, Tag("name")] | Annotated[Model, Tag("inline")], Discriminator(as_written)]
