"""What the layers of each kind keep of a sequence while a model serves."""

from __future__ import annotations

from collections.abc import Callable

from costmodel.documents.schemas.mixers import AnyMixer, Attention, CompressedAttention, LatentAttention
from costmodel.documents.schemas.model import Layers, Model
from costmodel.ground.equation import Number
from costmodel.ground.record import record

_NAMES = {"StateSpace": "state space", "LinearAttention": "linear attention", "SelectiveScan": "selective scan"}


@record
class CacheKind:
    """Layers with the same kind of cache: their name, their number, and bytes for each requested column."""

    name: str
    layers: float
    held: tuple[float, ...]


def cache_kinds(model: Model, columns: tuple[Callable[[Layers], Number], ...]) -> list[CacheKind]:
    """The kinds of layers with a cache; each column is a function of one layer, summed over the layers of a kind."""
    found: dict[str, CacheKind] = {}
    for kind in model.layers:
        if not kind.mixers:
            continue
        name = " and ".join(_named(own) for own in kind.mixers)
        before = found.get(name, CacheKind(name, 0.0, (0.0,) * len(columns)))
        each = (float(kind.count * column(kind)) for column in columns)
        held = tuple(old + new for old, new in zip(before.held, each, strict=True))
        found[name] = CacheKind(name, before.layers + float(kind.count), held)
    return list(found.values())


def _named(own: AnyMixer) -> str:
    """The name of a mixer's cache kind.

    >>> _named(Attention.model_construct(window=1024.0, shared_kv=False))
    'window of 1,024'
    """
    if isinstance(own, Attention):
        shared = ", keys shared" if own.shared_kv else ""
        return (f"window of {own.window:,.0f}" if own.window is not None else "full attention") + shared
    if isinstance(own, LatentAttention):
        return "latent attention" + (" with indexer" if own.indexer is not None else "")
    if isinstance(own, CompressedAttention):
        indexed = own.entries is not None and own.entries.indexer is not None
        return "compressed attention" + (" with indexer" if indexed else "")
    return _NAMES[type(own).__name__]
