"""The data of each kernel form: its columns, and the constants that a document holds for it now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from costmodel.documents.reader.library import CachedReader, efficiency_of, names
from costmodel.documents.reader.load_scenario import load
from costmodel.documents.schemas.efficiency import Efficiency
from costmodel.documents.schemas.hardware import Accelerator, Node
from costmodel.documents.schemas.precision import RECIPES
from costmodel.equations.kernels.flop import attention_flop, matmul_flop
from costmodel.equations.kernels.memory_traffic import attention_traffic, matmul_bytes
from costmodel.equations.kernels.roofline import (
    attention_kernel_time,
    attention_rate,
    matmul_time,
    page_writing_time,
    stream_time,
    tail_slowdown,
    tiled_rows,
)
from costmodel.equations.network.collectives import Operation, blended_time, group_latency, handled_bytes, wire_bytes
from costmodel.equations.run.economics import share
from costmodel.estimate.machine.collective_time import collective_time
from costmodel.estimate.machine.process_groups import group
from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.evidence.calibrate.measured_kernels import (
    DECODE,
    EXPERTS,
    PRECISIONS,
    FitKey,
    Gathered,
    UnusedRow,
    decode_columns,
    expert_columns,
)
from costmodel.evidence.calibrate.regression import Array, Columns, Constant, FittedForm
from costmodel.ground.record import record
from costmodel.ground.units import show

MICROSECOND = 1e-6
WRITTEN = ("bf16", "fp16")  # a step's narrower types are not those of inference kernels, which quantise as they go
_RANGES = {
    "m": "1",
    "n": "1",
    "k": "1",
    "groups": "1",
    "batch": "1",
    "seq": "1",
    "heads": "1",
    "tokens": "1",
    "experts": "1",
    "tp": "1",
    "ep": "1",
    "ranks": "1",
    "nodes": "1",
    "bytes": "B",
    "nbytes": "B",
}


@record
class Sample:
    """Timings that determine the constants of one form, and the constants that a document holds now."""

    key: FitKey
    of: str
    form: FittedForm
    columns: Columns
    measured: Array
    groups: list[str]
    grouped: tuple[str, ...]  # one meaning for each of these, in order
    table: Mapping[str, Array]
    range: str
    files: Mapping[str, str]
    now: dict[str, float] | None
    path: tuple[str, ...]


@record
class KernelTimings:
    """The timings of one key: sizes as columns, measured times, and the documents of their hardware."""

    key: FitKey
    table: Mapping[str, Array]
    measured: Array
    files: Mapping[str, str]
    shelf: CachedReader

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator of the timings."""
        document: Accelerator = self.shelf.document("accelerator", self.key.of)
        return document

    @property
    def efficiency(self) -> Efficiency:
        """The fits in use for that accelerator."""
        document: Efficiency = self.shelf.document("efficiency", efficiency_of(self.accelerator))
        return document

    @property
    def range(self) -> str:
        """The minimum and maximum of every size."""
        return ", ".join(
            f"{name} {show(float(values.min()), unit)} to {show(float(values.max()), unit)}"
            for name, values in self.table.items()
            if (unit := _RANGES.get(name)) and values.min() < values.max()
        )

    def sample(
        self,
        form: FittedForm,
        columns: Columns,
        group: Sequence[str],
        now: dict[str, float] | None,
        path: tuple[str, ...] = (),
        *,
        of: str = "",
    ) -> Sample:
        """These timings for one closed form, grouped by some sizes; `now` are the constants in use."""
        rows = zip(*(self.table[name] for name in group), strict=True)
        groups = [" ".join(f"{value:g}" for value in row) for row in rows]
        return Sample(
            key=self.key,
            of=of or self.key.of,
            form=form,
            columns=columns,
            measured=self.measured,
            groups=groups,
            grouped=tuple(group),
            table=self.table,
            range=self.range,
            files=self.files,
            now=now,
            path=path,
        )


def kernels_of(key: FitKey, gathered: Gathered, shelf: CachedReader) -> KernelTimings:
    """The timings of a key as columns."""
    shapes = gathered.shapes[key]
    table = {name: np.array([shape[name] for shape in shapes]) for name in shapes[0]}
    measured = np.asarray(table.pop("time_us") * MICROSECOND)
    return KernelTimings(key, table, measured, dict(sorted(gathered.files[key].items())), shelf)


def samples_of(kernels: KernelTimings) -> list[Sample]:
    """A sample of these kernel timings for each equation that is fitted to them."""
    return _BUILDERS[kernels.key.part](kernels)


def _matmul_samples(kernels: KernelTimings) -> list[Sample]:
    """The timings of matmuls with FLOP, bytes and rates as columns."""
    key, table, accelerator = kernels.key, kernels.table, kernels.accelerator
    m, n, k = table["m"], table["n"], table["k"]
    recipe, count = RECIPES[key.entry], table.get("groups", np.ones_like(m))
    columns: dict[str, Array | float] = {
        "flop": np.asarray(count * matmul_flop(tiled_rows(m), n, k)),
        "nbytes": np.asarray(count * matmul_bytes(m, n, k, recipe.operand, 2.0)),
        "inputs": np.asarray(m * k),
        "peak": float(getattr(accelerator.peak, recipe.type)),
        "bandwidth": float(accelerator.memory.bandwidth),
    }
    entry = kernels.efficiency.matmul.get(recipe.fit)
    names = ("compute_share", "memory_share", "start", "exponent")
    now = {name: float(getattr(entry, name)) for name in names} if entry else None
    if key.detail == "backward":
        if not entry or not now:
            raise UnusedRow(f"backward matmuls on {accelerator.name}, which has no {recipe.fit} fit to stand on")
        columns |= {name: now[name] for name in names[1:]}
        return [kernels.sample(BACKWARD, columns, ("n", "k"), {"backward_share": float(entry.backward_share)})]
    path = ("matmul", key.entry) if key.entry in WRITTEN and not key.detail else ()
    samples = [kernels.sample(MATMUL, columns, ("n", "k"), now, path)]
    if key.entry not in WRITTEN and not key.detail:
        samples.append(kernels.sample(QUANTISED, columns, ("n", "k"), None))
    return samples


def _attention_samples(kernels: KernelTimings) -> list[Sample]:
    """The timings of attention with FLOP, bytes and sizes as columns."""
    key, table, accelerator = kernels.key, kernels.table, kernels.accelerator
    batch, sequence, heads, head_dim = (table[name] for name in ("batch", "seq", "heads", "head_dim"))
    precision = next((name for name in PRECISIONS.values() if name in key.detail.split()), "bf16")
    kv_heads, width = table["kv_heads"], RECIPES[precision].operand
    columns: dict[str, Array | float] = {
        "flop": np.asarray(attention_flop(batch, sequence, heads, head_dim, causal=True)),
        "nbytes": np.asarray(attention_traffic(batch, sequence, heads, 0.0, head_dim, width)),
        "cached": np.asarray(attention_traffic(batch, sequence, 0.0, kv_heads, head_dim, width)),
        "batch": batch,
        "heads": heads,
        "kv_heads": kv_heads,
        "sequence": sequence,
        "head_dim": head_dim,
        "units": float((accelerator.chip and accelerator.chip.units) or 0),
        "peak": float(getattr(accelerator.peak, RECIPES[precision].type)),
        "bandwidth": float(accelerator.memory.bandwidth),
    }
    kernel, *rest = key.detail.split()
    entry, groups = kernels.efficiency.attention.get(key.entry), ("batch", "heads", "kv_heads", "head_dim")
    alone = entry.alone.get(kernel.replace("_", "-")) if entry and not rest else None
    names = [constant.name for constant in ATTENTION.constants]
    now = {name: float(getattr(alone, name)) for name in names} if alone else None
    shares = ("forward_share", "half_sequence")
    rate = {name: float(getattr(entry, name)) for name in shares} if entry and not rest else None
    path = () if rest else ("attention", key.entry, "alone", kernel.replace("_", "-"))
    return [
        kernels.sample(ATTENTION, columns, groups, now, path),
        kernels.sample(ATTENTION_RATE, columns, groups, rate),
    ]


def _decode_samples(kernels: KernelTimings) -> list[Sample]:
    key = kernels.key
    columns = decode_columns(kernels.table, kernels.accelerator, key.entry, key.detail.split()[0])
    return [kernels.sample(DECODE, columns, ("batch", "heads", "kv_heads", "head_dim"), None)]


def _expert_samples(kernels: KernelTimings) -> list[Sample]:
    columns = expert_columns(kernels.table, kernels.accelerator, kernels.key.entry)
    return [kernels.sample(EXPERTS, columns, ("hidden", "inter", "topk", "experts", "tp", "ep"), None)]


def _collective_samples(kernels: KernelTimings) -> list[Sample]:
    """The timings of collectives inside a node with message sizes and link rates as columns."""
    key, table = kernels.key, kernels.table
    link = link_of(key.of, kernels.shelf)
    if link is None:
        raise UnusedRow(f"collectives of {key.of}, whose links no node document describes")
    columns: Columns = {
        "ranks": table["ranks"],
        "wire": wire_of(table["bytes"], table["ranks"], key.entry),  # type: ignore[arg-type]
        "link": link,
    }
    entry = kernels.efficiency.collectives.get(key.entry)
    now = None
    if entry and not key.detail:
        now = {name: float(getattr(entry, name)) for name in ("start", "hop", "blend", "own")}
        now["share"] = float(share(entry.bandwidth, entry.link))
    path = ("collectives", key.entry) if not key.detail else ()
    form = ALL_REDUCE if key.entry == "all_reduce" else COLLECTIVE
    return [kernels.sample(form, columns, ("ranks", "bytes"), now, path)]


def link_of(accelerator: str, shelf: CachedReader) -> float | None:
    """The bandwidth of the links between accelerators of this kind, from the first node that has them."""
    for name in names("node"):
        node: Node = shelf.document("node", name)
        if node.accelerator == accelerator:
            return float(shelf.document("fabric", node.scale_up.fabric).bandwidth)
    return None


def _memory_samples(kernels: KernelTimings) -> list[Sample]:
    columns: Columns = {"nbytes": kernels.table["nbytes"], "bandwidth": float(kernels.accelerator.memory.bandwidth)}
    memory = kernels.efficiency.memory
    now = {"share": float(memory.share), "start": 0.0} if memory else None
    return [kernels.sample(STREAM, columns, ("nbytes",), now, ("memory",))]


def _network_samples(kernels: KernelTimings) -> list[Sample]:
    key, table = kernels.key, kernels.table
    form, fabric, now = network_form(key.of, key.entry)  # type: ignore[arg-type]
    columns: Columns = {"message": table["bytes"], "ranks": table["ranks"]}
    return [kernels.sample(form, columns, ("ranks", "bytes"), now, ("network",), of=fabric)]


_BUILDERS = {
    "matmul": _matmul_samples,
    "attention": _attention_samples,
    "decode": _decode_samples,
    "experts": _expert_samples,
    "collectives": _collective_samples,
    "memory": _memory_samples,
    "network": _network_samples,
}


_SHARE = Constant("compute_share", "1", 0.7, 0.02, 1.0)
_MATMUL = (
    _SHARE,
    Constant("memory_share", "1", 0.8, 0.02, 1.0),
    Constant("start", "s", 5e-6, 1e-8, 1e-3),
    Constant("exponent", "1", 2.0, 0.6, 12.0),
)

_ANY_HEADS = (128.0, 1.0, 1.0)  # a fit is of heads of one width


def _matmul_time(constants: Mapping[str, float], columns: Columns) -> Array:
    """Seconds of matmuls with these constants."""
    return np.asarray(
        matmul_time(
            columns["flop"],
            columns["nbytes"],
            columns["peak"],
            columns["bandwidth"],
            constants["compute_share"],
            constants["memory_share"],
            constants["start"],
            constants["exponent"],
            1.0,
        )
    )


def _quantised_time(constants: Mapping[str, float], columns: Columns) -> Array:
    nbytes = columns["inputs"] * constants["quantise"]
    return np.asarray(_matmul_time(constants, columns) + stream_time(nbytes, columns["bandwidth"], 1.0))


def _backward_time(constants: Mapping[str, float], columns: Columns) -> Array:
    """Both products of a linear layer's backward pass; only the compute share is fitted."""
    others = {name: float(np.min(columns[name])) for name in ("memory_share", "start", "exponent")}
    one = _matmul_time({**others, "compute_share": constants["backward_share"]}, columns)
    return np.asarray(2.0 * one)


def _collective_time(constants: Mapping[str, float], columns: Columns) -> Array:
    latency = group_latency(columns["ranks"], constants["start"], constants["hop"])
    handled = handled_bytes(columns["wire"], columns["ranks"], constants["own"])
    bandwidth = constants["share"] * columns["link"]
    return np.asarray(blended_time(latency, handled, bandwidth, constants["blend"]))


def _attention_time(constants: Mapping[str, float], columns: Columns) -> Array:
    """Attention as one isolated call: with start, memory part, idle multiprocessors and page writes."""
    rate = attention_rate(columns["peak"], constants["forward_share"], columns["sequence"], 0.0, *_ANY_HEADS)
    batch, heads, sequence, units = (columns[name] for name in ("batch", "heads", "sequence", "units"))
    slowdown = tail_slowdown(batch, heads, sequence, constants["tile"], units)
    bandwidth, share, start = columns["bandwidth"], constants["memory_share"], constants["start"]
    flop, nbytes, cached = columns["flop"], columns["nbytes"], columns["cached"]
    pages = page_writing_time(batch, sequence, columns["kv_heads"], columns["head_dim"], constants["write"], units)
    return np.asarray(attention_kernel_time(flop, rate, slowdown, nbytes, cached, bandwidth, share, start) + pages)


def _attention_rate_time(constants: Mapping[str, float], columns: Columns) -> Array:
    """Attention as a step counts it: a rate that grows with the sequence, without start."""
    share, half = constants["forward_share"], constants["half_sequence"]
    rate = attention_rate(columns["peak"], share, columns["sequence"], half, *_ANY_HEADS)
    return np.asarray(columns["flop"] / rate)


def _stream_time(constants: Mapping[str, float], columns: Columns) -> Array:
    return np.asarray(constants["start"] + stream_time(columns["nbytes"], columns["bandwidth"], constants["share"]))


MATMUL = FittedForm("rounded roofline", _MATMUL, _matmul_time)
QUANTISED = FittedForm(
    "rounded roofline, inputs quantised first",
    (*_MATMUL, Constant("quantise", "B", 8.0, 0.01, 200.0)),
    _quantised_time,
)
BACKWARD = FittedForm("both products of backward", (Constant("backward_share", "1", 0.8, 0.02, 1.0),), _backward_time)
# Usual is what five accelerators with NVLink have in common. Links differ; the corner and what is kept are NCCL's,
# and stray no further than those five do.
COLLECTIVE = FittedForm(
    "latency and wire time, blended",
    (
        Constant("start", "s", 7e-6, 1e-8, 1e-2, 0.5),
        Constant("hop", "s", 1.3e-6, 1e-9, 1e-3, 0.5),
        Constant("share", "1", 0.92, 1e-4, 1.0, 0.3),
        Constant("blend", "1", 1.1, 0.01, 6.0, 0.15),
        Constant("own", "1", 0.5, 0.01, 3.0, 0.3),
    ),
    _collective_time,
)
# What the five have in common in an all-reduce, which goes round twice and adds up what it keeps: means and spreads of
# their fits, links apart. Taken from the other four, they lower what is held out of A100 and GB200 and raise nothing.
ALL_REDUCE = replace(
    COLLECTIVE,
    constants=(
        Constant("start", "s", 6.3e-6, 1e-8, 1e-2, 0.3),
        Constant("hop", "s", 2.0e-6, 1e-9, 1e-3, 0.25),
        Constant("share", "1", 0.93, 1e-4, 1.0, 0.3),
        Constant("blend", "1", 1.0, 0.01, 6.0, 0.17),
        Constant("own", "1", 0.5, 0.01, 3.0, 0.18),
    ),
)
ATTENTION = FittedForm(
    "start, work, tail, memory and pages",
    (
        Constant("forward_share", "1", 0.55, 0.02, 1.0),
        Constant("memory_share", "1", 0.5, 0.02, 1.0),
        Constant("start", "s", 1e-5, 1e-8, 1e-3),
        Constant("tile", "1", 128.0, 8.0, 512.0, 0.35),
        Constant("write", "s", 3e-7, 1e-10, 1e-4),
    ),
    _attention_time,
)
ATTENTION_RATE = FittedForm(
    "rate by sequence",
    (Constant("forward_share", "1", 0.55, 0.02, 1.0), Constant("half_sequence", "1", 256.0, 1.0, 1e5)),
    _attention_rate_time,
)
STREAM = FittedForm(
    "start and bytes",
    (Constant("share", "1", 0.8, 0.02, 1.0), Constant("start", "s", 3e-6, 1e-8, 1e-3)),
    _stream_time,
)


def network_form(node: str, operation: Operation) -> tuple[FittedForm, str, dict[str, float]]:
    """The time of a collective between nodes of this kind, its fabric, and the current constants."""
    inputs = training_inputs(load("quickstart", [f"cluster.node={node}", "cluster.nodes=2"]))
    network = inputs.network

    def time(constants: Mapping[str, float], columns: Columns) -> Array:
        """Seconds of the collective between nodes with these constants."""
        changed = network.model_copy(update={"added": constants["added"]})
        here = replace(inputs, network=changed, network_share=constants["share"])
        ranks = cast(Array, columns["ranks"])
        return np.asarray(collective_time(here, columns["message"], group(here, "dp", ranks, 1.0), operation))

    constants = (
        Constant("share", "1", network.share, 0.02, 1.0),
        Constant("added", "s", max(network.latency_beyond_infiniband, 1e-7), 1e-8, 1e-2),
    )
    now = {constant.name: float(constant.start) for constant in constants}
    return FittedForm("two levels", constants, time), inputs.case.scale_out.name, now


def wire_of(message: Array, ranks: Array, operation: Operation) -> Array:
    """Bytes that a rank sends in a collective with this message."""
    return np.asarray(wire_bytes(message, ranks, operation=operation))
