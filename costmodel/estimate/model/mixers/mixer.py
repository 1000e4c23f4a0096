"""What every kind of mixer states about itself: one row of the table in `table.py`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from costmodel.documents.schemas.model import Model
from costmodel.ground.equation import Number
from costmodel.ground.record import record


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
    """A mixer on one rank: heads, head width and parameters; `beside` is a second, parallel mixer.

    The parameters of a mixer with one beside it are those of both.
    """

    heads: Number
    kv_heads: Number
    head_dim: Number
    parameters: Number
    beside: Mixer | None = None


@record
class CoreSize:
    """Sizes of an attention core or a scan: sequences, tokens of each, and heads."""

    sequences: Number
    sequence: Number
    heads: Number


@record
class CacheWidth:
    """Bytes of an element of the KV cache, of a state, and of a 16-bit value."""

    cache: Number
    state: Number
    wide: Number


class MixerKind(Protocol):
    """Interface of a mixer's module; `own` is the mixer's part of the model document."""

    def hold(self, model: Model, own: Any, tp: Number) -> Mixer:
        """The mixer as one of tp ranks stores it."""

    def matrices(self, hidden: Number, own: Any, part: Mixer, tp: Number) -> Iterable[Matmul]:
        """The weight matrices as one rank multiplies them."""

    def flop(self, own: Any, part: Mixer, size: CoreSize, *, causal: bool) -> Number:
        """Forward FLOP of the core."""

    def traffic(
        self, model: Model, own: Any, part: Mixer, tokens: Number, element: Number, *, backward: bool
    ) -> Number:
        """Memory traffic without matrix products and scores."""

    def activations(self, own: Any, part: Mixer, tokens: Number, element: Number, split: Number) -> Number:
        """Saved activations, without the residual stream and the scores."""

    def cache(self, own: Any, tp: Number, tokens: Number, width: CacheWidth) -> Number:
        """Cache bytes of a sequence with so many tokens in serving."""

    def exchanged(self, own: Any, part: Mixer) -> tuple[tuple[Number, Number, float], ...]:
        """Heads, their width, and how many such tensors an exchange of heads for tokens moves."""
