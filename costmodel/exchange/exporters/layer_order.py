"""The layers of a model one by one, for formats that state a pattern of them."""

from __future__ import annotations

from collections.abc import Sequence

from costmodel.documents.schemas.model import Layers, Model


def layers_in_order(model: Model) -> list[Layers]:
    """One entry for each layer: leading ones first, all other kinds mixed evenly, as a model document means it."""
    lead = [model.layers[0]] * round(model.layers[0].count) if model.layers[0].leading else []
    kinds = [kind for kind in model.layers if not kind.leading]
    counts = [round(kind.count) for kind in kinds]
    total, taken = sum(counts), [0] * len(kinds)
    mixed = []
    for index in range(total):
        behind = [count * (index + 1) / total - done for count, done in zip(counts, taken, strict=True)]
        chosen = max(range(len(kinds)), key=lambda kind: (behind[kind], -kind))
        taken[chosen] += 1
        mixed.append(kinds[chosen])
    return lead + mixed


def pattern(marks: Sequence[bool]) -> str:
    """Marks as the list expression that Megatron-LM reads.

    >>> pattern([False] * 3 + [True] * 5), pattern([True, False] * 4)
    ('[0]*3+[1]*5', '[1,0]*4')
    """
    bits = [int(mark) for mark in marks]
    for period in range(1, len(bits) // 2 + 1):
        if len(bits) % period == 0 and bits == bits[:period] * (len(bits) // period):
            return f"[{','.join(map(str, bits[:period]))}]*{len(bits) // period}"
    runs: list[list[int]] = []
    for bit in bits:
        if runs and runs[-1][0] == bit:
            runs[-1][1] += 1
        else:
            runs.append([bit, 1])
    return "+".join(f"[{bit}]*{often}" for bit, often in runs)
