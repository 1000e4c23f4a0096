"""What every kind of mixer states about itself; the kinds are in `mixer_kinds.py`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from costmodel.documents.schemas.model import Model
from costmodel.ground.equation import Number
from costmodel.ground.record import record

Shapes = tuple[tuple[Number, Number, float], ...]  # heads, their width, and how many such tensors there are
Own = TypeVar("Own")


@record
class Matmul:
    """A weight matrix as one rank multiplies it, with n columns and inner dimension k.

    Of one that several ranks hold whole, each for a part of the tokens, the columns are split over them.
    """

    name: str
    n: Number
    k: Number
    split: Number = 1.0


@record
class Mixer:
    """A mixer (attention, Mamba …) as one rank stores it: heads, their width, parameters; `beside` is a second one.

    The parameters of a mixer with one beside it are those of both.
    """

    heads: Number
    kv_heads: Number
    head_dim: Number
    parameters: Number
    beside: Mixer | None = None


@record
class CoreSize:
    """Sizes of an attention computation or a scan: number of sequences, tokens in each, heads."""

    sequences: Number
    sequence: Number
    heads: Number


@record
class CacheWidth:
    """Bytes of an element of the KV cache, of a state, and of a 16-bit value."""

    cache: Number
    state: Number
    wide: Number


@record
class SharedKeys:
    """The keys that all heads of a layer share, so that matrix products may bound decode attention.

    Their number, their width, and the width of their rotary part.
    """

    count: Number
    width: Number
    rope_dim: Number


class MixerKind(Generic[Own]):
    """What each kind of mixer (attention, MLA, Mamba …) computes; `own` is its description in the model document.

    A plain mixer states the methods without a body; the others have the values of one.
    """

    def label(self, own: Own) -> str:
        """Name of the mixer in answers, such as `latent attention`."""
        raise NotImplementedError

    def shard(self, model: Model, own: Own, tp: Number) -> Mixer:
        """Heads, widths and parameters of the mixer on one of `tp` ranks."""
        raise NotImplementedError

    def matrices(self, hidden: Number, own: Own, part: Mixer, tp: Number) -> Iterable[Matmul]:
        """The weight matrices as one rank multiplies them."""
        raise NotImplementedError

    def flop(self, own: Own, part: Mixer, size: CoreSize, *, causal: bool) -> Number:
        """Forward FLOP of the mixer without its weight matrices: attention scores and values, or a scan."""
        raise NotImplementedError

    def traffic(
        self, model: Model, own: Own, part: Mixer, tokens: Number, element: Number, *, backward: bool
    ) -> Number:
        """Bytes through memory for this many tokens, without matrix products and attention scores."""
        raise NotImplementedError

    def activations(self, own: Own, part: Mixer, tokens: Number, element: Number, split: Number) -> Number:
        """Bytes saved for backward, without the residual stream and the attention scores."""
        raise NotImplementedError

    def cache(self, own: Own, tp: Number, tokens: Number, width: CacheWidth) -> Number:
        """Cache bytes of one sequence with this many tokens, on one of `tp` ranks, in serving."""
        raise NotImplementedError

    def all_to_all_shape(self, own: Own, part: Mixer) -> Shapes:
        """Heads, their width, and the number of such tensors that an all-to-all of heads for tokens moves."""
        raise NotImplementedError

    def cache_label(self, own: Own) -> str:
        """The name of this layer kind's cache, for tables."""
        return self.label(own)

    def token_bytes(self, own: Own, width: CacheWidth) -> Number:
        """Cache bytes that each token adds, with all heads."""
        return self.cache(own, 1.0, 1.0, width)

    def cache_read(self, own: Own, tp: Number, tokens: Number, width: CacheWidth) -> Number:
        """KV-cache bytes that one decode query reads of a sequence with this many tokens."""
        return self.cache(own, tp, tokens, width)

    def shared_keys(self, own: Own, tokens: Number) -> SharedKeys | None:
        """The keys that one decode query reads, if all heads share them.

        Else None. tokens: in the cache of the sequence
        """
        return None

    def narrow_width(self, hidden: Number, own: Own) -> Number | None:
        """Width of the narrow input that tp ranks gather, if the mixer projects its input down first; else None."""
        return None

    def picked_keys(self, own: Own) -> float:
        """Number of keys that a sparse-attention indexer selects per token; 0 without one."""
        return 0.0

    def score_heads(self, own: Own, part: Mixer) -> Number:
        """Heads whose attention scores are written to memory for one sequence if attention is not fused."""
        return part.heads

    def inner_all_reduce_width(self, own: Own) -> float:
        """Width of the tensor that tp ranks all-reduce inside the mixer; 0 if they do not."""
        return 0.0

    def all_gather_shape(self, own: Own, part: Mixer) -> Shapes:
        """Heads, width and number of the vectors per token in an all-gather of a sequence."""
        return ((part.kv_heads, part.head_dim, 2.0),)

    def gathered_widths(self, own: Own) -> tuple[Number, Number, Number] | None:
        """Widths per token that a rank needs of all tokens if heads share them; None for keys and values."""
        return None
