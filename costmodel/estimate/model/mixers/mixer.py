"""What every kind of mixer states about itself: one row of the table in `table.py`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from costmodel.documents.schemas.model import Model
from costmodel.ground.equation import Number
from costmodel.ground.record import record


@record
class Matmul:
    """A weight matrix as one rank multiplies it: so many columns n, inner dimension k.

    Of one that several ranks hold whole, each for a part of the tokens, the columns are split over them.
    """

    name: str
    n: Number
    k: Number
    split: Number = 1.0


@record
class Mixer:
    """Heads of a rank, the width that its core works in, and its parameters; beside it a second mixer, if any.

    The parameters of a mixer with one beside it are those of both.
    """

    heads: Number
    kv_heads: Number
    head_dim: Number
    parameters: Number
    beside: Mixer | None = None


@record
class CoreSize:
    """What a core runs over: sequences, tokens of each, and heads."""

    sequences: Number
    sequence: Number
    heads: Number


@record
class CacheWidth:
    """Bytes of an element of a cache, of a state, and of what stays in 16 bits."""

    cache: Number
    state: Number
    wide: Number


class MixerKind(Protocol):
    """Functions of one kind of mixer; `own` is its part of the model document, a module implements them all."""

    def hold(self, model: Model, own: Any, tp: Number) -> Mixer:
        """The mixer cut over tp ranks."""

    def matrices(self, hidden: Number, own: Any, part: Mixer, tp: Number) -> Iterable[Matmul]:
        """Its weight matrices as one rank multiplies them."""

    def flop(self, own: Any, part: Mixer, size: CoreSize, *, causal: bool) -> Number:
        """Work of its core, forward."""

    def traffic(
        self, model: Model, own: Any, part: Mixer, tokens: Number, element: Number, *, backward: bool
    ) -> Number:
        """Bytes through memory beside its products and scores."""

    def activations(self, own: Any, part: Mixer, tokens: Number, element: Number, split: Number) -> Number:
        """Bytes it keeps for backward beside the stream and the scores."""

    def cache(self, own: Any, tp: Number, tokens: Number, width: CacheWidth) -> Number:
        """Bytes it keeps of a sequence of so many tokens while it serves."""

    def exchanged(self, own: Any, part: Mixer) -> tuple[tuple[Number, Number, float], ...]:
        """Heads, their width, and how often an exchange of heads for tokens moves them."""
