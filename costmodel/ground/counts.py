"""Kinds of things that are counted, and the words for them: a count of tokens is not a count of sequences.

A kind is a unit like any other, spelled by its singular: parse("4M tokens", "token") is a number, and
parse("4M tokens", "node") is a fault.
"""

from __future__ import annotations

import functools
from typing import Literal

from costmodel.ground.record import record

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
def _kinds_by_spelling() -> dict[str, str]:
    return {spelling.casefold(): kind for kind in KINDS for spelling in words_of(kind)}


def kind_of(word: str) -> str:
    """The countable thing that a word stands for; empty if there is none.

    >>> kind_of("GPUs"), kind_of("samples"), kind_of("GB")
    ('GPU', 'sequence', '')
    """
    return _kinds_by_spelling().get(word.casefold(), "")


def ordinal(number: int) -> str:
    """A rank as an ordinal number.

    >>> ordinal(1), ordinal(12), ordinal(1023)
    ('1st', '12th', '1,023rd')
    """
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{suffix}"


# The sizes of a plan, a row for each: columns, grids, headings and words of plans are made from these rows.


@record
class PlanSize:
    """A size of a plan, such as a degree of parallelism, identified by its key.

    decides: the smallest unit whose figures depend on it: a layer on a rank, a stage, chunks, or a batch. placed:
    whether it divides the ranks of the cluster (before experts divide them a second way). counted: the axis whose
    results include its traffic, if it has no results of its own. way: the key of the choice that names its variant.
    """

    key: str
    decides: Literal["layer", "stage", "chunks", "batch"]
    placed: bool = False
    heading: str = ""
    counted: str = ""
    way: str = ""

    @property
    def head(self) -> str:
        """The column heading."""
        return self.heading or self.key


PLAN_SIZES = (
    PlanSize("dp", "stage", placed=True),
    PlanSize("tp", "layer", placed=True),
    PlanSize("pp", "stage", placed=True),
    PlanSize("vpp", "chunks"),
    PlanSize("micro_batch", "batch", heading="mb"),
    PlanSize("ep", "layer"),
    PlanSize("etp", "layer", counted="ep"),
    PlanSize("cp", "layer", placed=True, way="cp_type"),
    PlanSize("dp_replicate", "stage", placed=True, heading="rep"),
)
SIZES = tuple(size.key for size in PLAN_SIZES)
HEADS = {size.key: size.head for size in PLAN_SIZES}
ALWAYS = ("tp", "pp", "dp", "vpp", "micro_batch")  # named in every plan, in this order; others where they are over one
OF_ITSELF_ONE = tuple(size.key for size in PLAN_SIZES if size.key not in ALWAYS)
IN_ORDER = (*ALWAYS, *OF_ITSELF_ONE)  # as plans are read
PLACED = tuple(size.key for size in PLAN_SIZES if size.placed)
BEHIND_PLACES = tuple(size.key for size in PLAN_SIZES if not size.placed and size.decides in ("layer", "stage"))
WAYS = {size.key: size.way for size in PLAN_SIZES if size.way}
EXCHANGING = ("tp", "cp", "ep", "pp", "dp")  # whose traffic has a result of its own; others count to one of these


def sizes_deciding(*parts: str) -> tuple[str, ...]:
    """Keys of the plan sizes whose `decides` is one of these parts: "layer", "stage", "chunks" or "batch"."""
    return tuple(size.key for size in PLAN_SIZES if size.decides in parts)


# Names of the choices of a plan and its software, shared by documents, equations and plan batches.

Zero = Literal[0, 1, 2, 3]
Recompute = Literal["none", "selective", "full"]
Method = Literal["block", "uniform"]
Module = Literal[
    "norms",
    "attention",
    "attention-output",
    "mla-up-projection",
    "mlp-activation",
    "mlp",
    "moe-activation",
    "moe",
    "shared-experts",
]
Offloaded = Literal["optimizer", "parameters", "activations"]
Where = Literal["cpu", "nvme"]
PlainSchedule = Literal["gpipe", "1f1b", "interleaved"]
LaterSchedule = Literal["zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "dualpipe", "dualpipev", "chimera", "looped-bfs"]
Schedule = Literal[PlainSchedule, LaterSchedule]
Order = Literal["tp-cp-dp-pp", "tp-cp-pp-dp", "tp-dp-cp-pp"]
Split = Literal["even", "lighter-ends", "lighter-first", "lighter-last", "spread", "full-chunks"]
ContextParallel = Literal["p2p", "all-gather", "a2a"]
CollectiveAlgorithm = Literal["tree", "nvls", "sharp", "halving-doubling"]
AttentionKernel = Literal["unfused", "memory-efficient", "flash-1", "flash-2", "flash-3"]
LengthLaw = Literal["log-normal", "chat"]  # of the lengths of prompts and answers
StackAttention = Literal["unfused", "memory-efficient", "flash-1", "flash-2", "flash-3", "sdpa"]
StreamRule = Literal["hyper-connections", "alternating"]
LinearRule = Literal["gated-delta", "kimi-delta", "lightning"]
Norm = Literal["layernorm", "layernorm-no-bias", "rmsnorm"]
