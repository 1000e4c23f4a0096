"""Kinds of things that are counted, and the words for them: a count of tokens is not a count of sequences.

A kind is a unit like any other, spelled by its singular: parse("4M tokens", "token") is a number, and
parse("4M tokens", "node") is a fault.
"""

from __future__ import annotations

import functools

# Each kind with the other words for it; a plural is also known.
KINDS: dict[str, tuple[str, ...]] = {
    "token": ("tok",),
    "sequence": ("seq", "sample", "example"),
    "GPU": ("accelerator", "device", "rank", "chip", "card", "way", "TPU"),
    "node": ("host", "server", "machine", "instance"),
    "layer": ("block",),
    "stage": (),
    "chunk": (),
    "step": ("iteration", "iter", "update"),
    "head": (),
    "expert": (),
    "group": (),
    "interface": ("NIC", "port", "HCA"),
    "parameter": ("param", "weight"),
    "element": ("channel", "dimension", "dim", "feature"),
    "row": ("entry", "word"),
    "micro-batch": ("microbatch", "micro_batch"),
    "operation": (),
    "communicator": (),
    "module": (),
    "core": ("SM", "CU", "multiprocessor"),
    "measurement": ("point",),
    "run": ("job",),
    "replica": (),
    "request": ("req",),
    "user": ("client",),
}


def plural(kind: str) -> str:
    """The plural of a countable thing.

    >>> plural("token"), plural("micro-batch"), plural("entry")
    ('tokens', 'micro-batches', 'entries')
    """
    if kind.endswith("ch"):
        return f"{kind}es"
    return f"{kind[:-1]}ies" if kind.endswith("ry") else f"{kind}s"


def number_of(count: float, kind: str) -> str:
    """A count with its noun, singular or plural.

    >>> number_of(1.0, "GPU"), number_of(1024.0, "GPU"), number_of(0, "row")
    ('1 GPU', '1,024 GPUs', '0 rows')
    """
    return f"{count:,.0f} {kind if count == 1 else plural(kind)}"


def words_of(kind: str) -> list[str]:
    """All words for a countable thing, singular and plural.

    >>> words_of("token")
    ['token', 'tokens', 'tok', 'toks']
    """
    return [spelling for word in (kind, *KINDS[kind]) for spelling in (word, plural(word))]


@functools.cache
def _spelled() -> dict[str, str]:
    return {spelling.casefold(): kind for kind in KINDS for spelling in words_of(kind)}


def kind_of(word: str) -> str:
    """The countable thing that a word stands for; empty if there is none.

    >>> kind_of("GPUs"), kind_of("samples"), kind_of("GB")
    ('GPU', 'sequence', '')
    """
    return _spelled().get(word.casefold(), "")


def ordinal(number: int) -> str:
    """A rank as an ordinal number.

    >>> ordinal(1), ordinal(12), ordinal(1023)
    ('1st', '12th', '1,023rd')
    """
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{suffix}"
