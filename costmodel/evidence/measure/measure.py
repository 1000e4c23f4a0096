"""Times the operations, layers and collectives of a training step on GPUs, for the table that calibrate reads."""

from __future__ import annotations

import datetime
import functools
import itertools
import math
import os
import queue
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, field, replace
from typing import Any

from costmodel.documents.reader.library import accelerator_named, names, read
from costmodel.documents.reader.load_scenario import load
from costmodel.documents.schemas.hardware import Node
from costmodel.equations.kernels.flop import attention_flop, matmul_flop
from costmodel.estimate.model.shards import shard
from costmodel.estimate.shared.plan_batch import ForwardBackward
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.layer_kernels import layer_pass
from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.estimate.training_answer.predict_training import own_plan, plan_block
from costmodel.evidence.measure.stopwatch import (
    Device,
    HostIsSlower,
    MeasurementStopped,
    Stopwatch,
    clock_under_load,
    copies,
    torch_module,
)
from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.ground.record import record

# --- times the operations of a training step on a GPU, for the table that calibrate reads


# The operations of a training step over a spread of shapes: matrix products, attention, streams, whole layers.

ELEMENT = 2.0
FP8_FROM, CUDNN_FROM = (8, 9), (9, 0)  # compute capabilities; elsewhere cuDNN is another class of attention
KERNELS = {"sdpa_flash": "FLASH_ATTENTION", "sdpa_cudnn": "CUDNN_ATTENTION"}


@record
class Timing:
    """One operation: its shape as in tables of training operators, and its times forward and backward."""

    op: str
    b: int | None = None
    h: int | None = None
    l: int | None = None  # noqa: E741 (the column's name)
    dim: int | None = None
    m: int | None = None
    n: int | None = None
    k: int | None = None
    kernel: str = ""
    dtype: str = "bf16"
    fwd_us: float | None = None
    bwd_us: float | None = None
    peak_bytes: float | None = None
    skipped: str = ""


@record
class ShapeSpread:
    """The shapes to measure, and the number of repeats; `few` are the tokens of decode steps."""

    few: tuple[int, ...]
    tokens: tuple[int, ...]
    widths: tuple[tuple[int, int], ...]
    sequences: tuple[int, ...]
    batches: tuple[tuple[int, int], ...]
    longest: int
    head_dim: int
    streams: tuple[int, ...]
    blocks: tuple[tuple[int, int], ...]
    repeats: int


# Weights of 33 MB and more: those that fit in a cache five times over are not fitted.
WHOLE = ShapeSpread(
    few=(1, 16, 64, 128),
    tokens=(256, 1024, 2048, 4096, 8192, 16384),
    widths=(
        *((4096, 4096), (6144, 4096), (5120, 5120), (8192, 4096), (4096, 14336)),
        *((28672, 4096), (8192, 8192), (10240, 8192), (28672, 8192), (8192, 28672)),
    ),
    sequences=(512, 1024, 2048, 4096, 8192, 16384),
    batches=((1, 16), (1, 32), (2, 32), (1, 64), (4, 32), (8, 16)),
    longest=32768,
    head_dim=128,
    streams=(4096, 8192, 16384),
    blocks=((1024, 1024), (2048, 2048), (4096, 4096), (4096, 8192), (8192, 4096)),
    repeats=7,
)
BRIEF = ShapeSpread(
    few=(1,),
    tokens=(64, 256),
    widths=((256, 256), (512, 256)),
    sequences=(512, 1024),
    batches=((1, 2),),
    longest=32768,
    head_dim=64,
    streams=(256,),
    blocks=((256, 64),),
    repeats=3,
)


@record
class Session:
    """Options of a measurement: device, spread of shapes, seconds to spend, progress callback, cancellation check."""

    device: Device
    spread: ShapeSpread
    seconds: float
    tell: Callable[[str], None]
    stopped: Callable[[], bool]

    @functools.cached_property
    def stopwatch(self) -> Stopwatch:
        """The stopwatch of the device."""
        return Stopwatch(self.device.kind, self.stopped)

    def timed(self, calls: list[Callable[[], object]]) -> float:
        """Microseconds that one of these calls takes on the device."""
        return 1e6 * self.stopwatch.median_time(calls, self.spread.repeats)

    def operands(self, *shapes: tuple[int, ...]) -> tuple[Any, ...]:
        """Random tensors of these shapes."""
        torch = torch_module()
        return tuple(torch.randn(shape, device=self.device.kind, dtype=torch.bfloat16) for shape in shapes)

    def sets(self, *shapes: tuple[int, ...]) -> list[tuple[Any, ...]]:
        """Enough sets of operands that none is in a cache."""
        elements = sum(map(math.prod, shapes))
        return [self.operands(*shapes) for _ in range(copies(ELEMENT * elements, self.device.kind))]


@record
class OperatorTrial:
    """One operation of one shape, its amount of work, and the function that times it."""

    shape: Timing
    work: float
    timed: Callable[[Timing], Timing] = field(compare=False)


def products(session: Session) -> Iterator[OperatorTrial]:
    """Trials of linear layers: forward and both gradients; fp8 and decode sizes forward only.

    Products of few tokens take as long as their weights take to read, and show the share of the memory bandwidth.
    """
    spread, narrow = session.spread, _capability(session) >= FP8_FROM
    for tokens, (n, k) in itertools.product((*spread.few, *spread.tokens), spread.widths):
        shape = Timing("linear1", b=1, l=tokens, dim=k, m=tokens, n=n, k=k)
        work = float(matmul_flop(tokens, n, k))
        yield OperatorTrial(shape, work, functools.partial(_time_matmul, session))
        if narrow:
            yield OperatorTrial(replace(shape, dtype="fp8"), work, functools.partial(_narrow_product, session))


def _capability(session: Session) -> tuple[int, int]:
    """The compute capability of an NVIDIA GPU, such as (9, 0); zeros for other devices."""
    torch = torch_module()
    if session.device.is_processor or torch.version.hip:
        return (0, 0)
    major, minor = torch.cuda.get_device_capability()
    return (int(major), int(minor))


def _time_matmul(session: Session, shape: Timing) -> Timing:
    """The shape with the times of its forward and backward products."""
    m, n, k = shape.m or 0, shape.n or 0, shape.k or 0
    sets = session.sets((m, k), (n, k), (m, n))
    forward = session.timed([_forward_matmul(x, w) for x, w, _ in sets])
    if m in session.spread.few:
        return replace(shape, fwd_us=forward)
    return replace(shape, fwd_us=forward, bwd_us=session.timed([_gradient_matmuls(x, w, dy) for x, w, dy in sets]))


def _forward_matmul(x: Any, w: Any) -> Callable[[], object]:
    return lambda: x @ w.T


def _gradient_matmuls(x: Any, w: Any, dy: Any) -> Callable[[], object]:
    return lambda: (dy @ w, dy.T @ x)


def _narrow_product(session: Session, shape: Timing) -> Timing:
    """A product with one scale per operand; operands are converted beforehand."""
    torch = torch_module()
    m, n, k = shape.m or 0, shape.n or 0, shape.k or 0
    sets = [tuple(operand.to(torch.float8_e4m3fn) for operand in pair) for pair in session.sets((m, k), (n, k))]
    one = torch.ones((), device=session.device.kind)
    return replace(shape, fwd_us=session.timed([_scaled_matmul(x, w, one) for x, w in sets]))


def _scaled_matmul(x: Any, w: Any, scale: Any) -> Callable[[], object]:
    torch = torch_module()
    return lambda: torch._scaled_mm(x, w.T, scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16, use_fast_accum=True)


def attentions(session: Session) -> Iterator[OperatorTrial]:
    """Fused causal attention, with each kernel that PyTorch has for this device."""
    spread = session.spread
    kernels = list(KERNELS) if _capability(session) >= CUDNN_FROM else ["sdpa_flash"]
    for kernel, sequence, (b, heads) in itertools.product(kernels, spread.sequences, spread.batches):
        if b * sequence <= spread.longest:
            shape = Timing("attention", b=b, h=heads, l=sequence, dim=heads * spread.head_dim, kernel=kernel)
            work = float(attention_flop(b, sequence, heads, spread.head_dim, causal=True))
            yield OperatorTrial(shape, work, functools.partial(_time_attention, session))


def _time_attention(session: Session, shape: Timing) -> Timing:
    """The shape with the times of attention forward and backward, by one kernel."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    attend = functools.partial(torch_module().nn.functional.scaled_dot_product_attention, is_causal=True)
    b, h, sequence, dim = shape.b or 0, shape.h or 0, shape.l or 0, shape.dim or 0
    sizes = (b, h, sequence, dim // h)
    with sdpa_kernel(getattr(SDPBackend, KERNELS[shape.kernel])):
        calls = [_both_passes(attend, (q, k, v), dy) for q, k, v, dy in session.sets(sizes, sizes, sizes, sizes)]
        return _timed_both(session, shape, calls)


Calls = tuple[Callable[[], object], Callable[[], object]]


def _both_passes(function: Callable[..., Any], operands: tuple[Any, ...], dy: Any) -> Calls:
    """A forward call, and a backward call through a retained graph."""
    torch = torch_module()
    for operand in operands:
        operand.requires_grad_()
    y = function(*operands)
    return lambda: function(*operands), lambda: torch.autograd.grad(y, operands, dy, retain_graph=True)


def _timed_both(session: Session, shape: Timing, calls: list[Calls]) -> Timing:
    forward = session.timed([forward for forward, _ in calls])
    return replace(shape, fwd_us=forward, bwd_us=session.timed([backward for _, backward in calls]))


def streams(session: Session) -> Iterator[OperatorTrial]:
    """Memory-bound operators: a residual addition, and GELU forward and backward."""
    for tokens, dim in itertools.product(session.spread.tokens, session.spread.streams):
        work = float(tokens * dim)
        yield OperatorTrial(Timing("res_add", b=1, l=tokens, dim=dim), work, functools.partial(_time_addition, session))
        yield OperatorTrial(Timing("gelu", b=1, l=tokens, dim=dim // 4), 2 * work, functools.partial(_gelu, session))


def _time_addition(session: Session, shape: Timing) -> Timing:
    size = (shape.l or 0, shape.dim or 0)
    return replace(shape, fwd_us=session.timed([_add_tensors(x, y) for x, y in session.sets(size, size)]))


def _add_tensors(x: Any, y: Any) -> Callable[[], object]:
    return lambda: x + y


def _gelu(session: Session, shape: Timing) -> Timing:
    """GELU at the inner width of an MLP, four times that of the layer."""
    gelu, size = torch_module().nn.functional.gelu, (shape.l or 0, 4 * (shape.dim or 0))
    return _timed_both(session, shape, [_both_passes(gelu, (x,), dy) for x, dy in session.sets(size, size)])


def blocks(session: Session) -> Iterator[OperatorTrial]:
    """A Llama-like layer, forward and backward, and its peak memory."""
    for hidden, tokens in session.spread.blocks:
        shape = Timing("block", b=1, h=hidden // session.spread.head_dim, l=tokens, dim=hidden)
        yield OperatorTrial(shape, float(tokens * hidden * (hidden + tokens)), functools.partial(_time_block, session))


def _time_block(session: Session, shape: Timing) -> Timing:
    """The shape with the times and the peak memory of a whole layer."""
    hidden, tokens = shape.dim or 0, shape.l or 0
    before = _memory_allocated(session)
    layer, weights = _layer(session, hidden)
    x, dy = session.operands((1, tokens, hidden), (1, tokens, hidden))
    calls = _both_passes(lambda x, *_: layer(x), (x, *weights), dy)
    timing = _timed_both(session, shape, [calls])
    del calls
    return replace(timing, peak_bytes=_peak_bytes(session, layer, (x, *weights), dy, before))


def _memory_allocated(session: Session) -> int:
    return 0 if session.device.is_processor else int(torch_module().cuda.memory_allocated())


def _peak_bytes(
    session: Session, layer: Callable[[Any], Any], operands: tuple[Any, ...], dy: Any, before: int
) -> float | None:
    """Peak bytes on the device while the layer runs once in both directions, including weights and gradients."""
    torch = torch_module()
    if session.device.is_processor:
        return None
    torch.cuda.reset_peak_memory_stats()
    torch.autograd.grad(layer(operands[0]), operands, dy)
    return float(torch.cuda.max_memory_allocated() - before)


def _layer(session: Session, hidden: int) -> tuple[Callable[[Any], Any], list[Any]]:
    """Norm, attention and gated MLP with residual additions, as plain functions of its weights."""
    functional = torch_module().nn.functional
    heads, head_dim, ffn_hidden = hidden // session.spread.head_dim, session.spread.head_dim, 7 * hidden // 2
    shapes = ((3 * hidden, hidden), (hidden, hidden), (2 * ffn_hidden, hidden), (hidden, ffn_hidden))
    qkv, out, up, down = weights = [weight.mul_(hidden**-0.5) for weight in session.operands(*shapes)]

    def layer(x: Any) -> Any:
        """The output of the layer for an input."""
        rows = functional.rms_norm(x, (hidden,)) @ qkv.T
        q, k, v = (part.unflatten(-1, (heads, head_dim)).transpose(1, 2) for part in rows.chunk(3, -1))
        core = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + core.transpose(1, 2).flatten(2) @ out.T
        gate, rise = (functional.rms_norm(x, (hidden,)) @ up.T).chunk(2, -1)
        return x + (functional.silu(gate) * rise) @ down.T

    return layer, weights


# What is measured, and the share of the time that may be over behind it.
PARTS: tuple[tuple[Callable[[Session], Iterator[OperatorTrial]], float], ...] = (
    (products, 0.45),
    (attentions, 0.7),
    (streams, 0.8),
    (blocks, 1.0),
)
LACKED_TIME = "would take"


@record
class MeasuredKernels:
    """Rows of the table, and whether the user stopped before the last."""

    rows: list[dict[str, Any]]
    stopped: bool


def measured(session: Session) -> MeasuredKernels:
    """Every operation of the spread as a row of the table; skipped ones with the reason."""
    device, rows = session.device, []
    noted = {
        "mp": 1,
        "kind": "processor" if device.is_processor else "gpu",
        "driver": device.driver,
        "torch": device.torch,
        "clock_mhz": clock_under_load(device.kind),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    began = time.monotonic()
    try:
        for part, share in PARTS:
            for timing in _time_trials(part(session), began + share * session.seconds):
                session.tell(f"{timing.op} {timing.skipped or f'{timing.fwd_us:,.0f} us'}")
                rows.append({"gpu": device.name, **asdict(timing), **noted})
    except MeasurementStopped:
        return MeasuredKernels(rows, stopped=True)
    return MeasuredKernels(rows, stopped=False)


def _time_trials(trials: Iterator[OperatorTrial], until: float) -> Iterator[Timing]:
    """The trials of a part, smallest first; those that would exceed the remaining time are skipped."""
    pace = 0.0
    for trial in sorted(trials, key=lambda trial: trial.work):
        began = time.monotonic()
        expected = pace * trial.work
        if expected > max(until - began, 0.0):
            yield replace(trial.shape, skipped=f"{LACKED_TIME} {expected:.1f} s, longer than is left")
            continue
        timing = _time_or_reason(trial)
        if not timing.skipped:
            pace = (time.monotonic() - began) / trial.work
        yield timing


def _time_or_reason(trial: OperatorTrial) -> Timing:
    """The times of a trial, or the reason why PyTorch does not run it."""
    torch = torch_module()
    try:
        return trial.timed(trial.shape)
    except torch.cuda.OutOfMemoryError:
        reason = "out of memory"
    except HostIsSlower:
        reason = "the GPU is done before the host can issue the next call"
    except RuntimeError as error:
        reason = f"PyTorch: {(str(error).splitlines() or [''])[0]}"
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return replace(trial.shape, skipped=reason)


def named(rows: list[dict[str, Any]], gpu: str | None) -> list[dict[str, Any]]:
    """The rows with the user's name for the accelerator."""
    return [row | {"gpu": gpu} for row in rows] if gpu else rows


def misnamed(device: Device, gpu: str | None) -> str:
    """A warning if the driver knows the device as another accelerator than the user; empty otherwise."""
    if gpu is None or device.is_processor:
        return ""
    stated, found = accelerator_named(gpu), accelerator_named(device.name)
    if not stated or not found or stated == found:
        return ""
    return f"the driver calls this device {device.name}, which is {found}; its rows are named {gpu}"


# --- compares whole layers with the sum of their parts, to check the fits of calibrate


STACK = "ddp"  # kernels of PyTorch one by one


def with_predictions(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, with predictions for layers where a node with the accelerator is known."""
    nodes = {name: _node_of(name) for name in {row["gpu"] for row in rows if row["op"] == "block"}}
    return [
        row | _predicted_time(row, node)
        if row["op"] == "block" and row["kind"] == "gpu" and (node := nodes[row["gpu"]])
        else row
        for row in rows
    ]


def _node_of(gpu: str) -> str:
    """A node with the accelerator of that name; empty when there is none."""
    accelerator = gpu if gpu in names("accelerator") else accelerator_named(gpu)
    nodes: dict[str, Node] = {name: read("node", name) for name in names("node")}
    return next((name for name, node in nodes.items() if node.accelerator == accelerator), "")


def _predicted_time(row: dict[str, Any], node: str) -> dict[str, float]:
    """Microseconds in both directions; None for an accelerator without a rate for this type."""
    try:
        both = _layer_from_kernels(node, row["dim"], row["h"], row["l"])
    except CostModelError:
        return {}
    times = {"predicted_fwd_us": both.forward.device, "predicted_bwd_us": both.backward.device}
    return {name: number(1e6 * seconds) for name, seconds in times.items()}


def _layer_from_kernels(node: str, hidden: int, heads: int, tokens: int) -> ForwardBackward:
    """A layer as measured: alone, without rotary embedding, gradients written once in the weight type."""
    layer = "model.layers.0"
    changes = {
        "cluster.node": node,
        "cluster.nodes": 1,
        "stack": STACK,
        "plan.tp": 1,
        "workload.sequence": tokens,
        "model.positions": "alibi",
        "model.hidden": hidden,
        f"{layer}.attention.heads": heads,
        f"{layer}.attention.kv_heads": heads,
        f"{layer}.mlp.ffn_hidden": 7 * hidden // 2,
        "assume.sustained": 1,
        "assume.variation": 0,
    }
    adding = training_inputs(load("quickstart", [f"{path}={value}" for path, value in changes.items()]))
    widths = adding.widths
    written = float(widths.element / 2.0)  # half of what is read and written
    inputs = replace(adding, widths=replace(widths, gradient=written))
    block, _ = plan_block(inputs, own_plan(inputs))
    return layer_pass(inputs, shard(inputs.model, inputs.model.layers[0], block.tp, block.ep, block.etp), block)


# --- times collectives between the GPUs of one machine, one process per rank, for the table that calibrate reads


SMALLEST, LARGEST, FACTOR = 1 << 10, 1 << 29, 4
LARGEST_OF_A_PROCESSOR = 1 << 20
REPEATS, CALLS = 7, 20
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")
BF16_BYTES = 2
LOOKED_AFTER, LEAVE = 0.5, 20.0


def measured_collectives(device: Device, ranks: int | None, stopped: Callable[[], bool]) -> MeasuredKernels:
    """Time of every operation at every size and number of ranks; sizes in the convention of nccl-tests."""
    torch = torch_module()
    ranks = ranks or (torch.cuda.device_count() if not device.is_processor else 2)
    if ranks < 2 or (not device.is_processor and ranks > torch.cuda.device_count()):
        raise fail("C009", f"collectives between {ranks} ranks cannot be measured here", Place("command line"))
    context = torch.multiprocessing.get_context("spawn")
    answers = context.Queue()
    port = _free_port()
    workers = [context.Process(target=_rank, args=(rank, ranks, port, device.kind, answers)) for rank in range(ranks)]
    for worker in workers:
        worker.start()
    try:
        times = list(_rank_messages(answers, workers, stopped))
    finally:
        _wait_for_ranks(workers, at_once=stopped())
    noted = {"torch": device.torch, "driver": device.driver}
    noted |= {"date": datetime.datetime.now(datetime.UTC).date().isoformat()}
    shape = {"gpu": device.name, "n_gpus": ranks, "dtype": "bf16"}
    rows = [shape | {"op": operation, "bytes": size, "time_us": time} | noted for operation, size, time in times]
    return MeasuredKernels(rows, stopped=stopped())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _rank_messages(answers: Any, workers: list[Any], stopped: Callable[[], bool]) -> Iterator[tuple[str, int, float]]:
    """The messages of the first rank until it ends or the user stops; a fault if a rank fails."""
    while not stopped():
        try:
            answer = answers.get(timeout=LOOKED_AFTER)
        except queue.Empty:
            if any(worker.exitcode for worker in workers):
                sentence = "a rank of the collectives failed; its output is above"
                raise fail("C009", sentence, Place("command line")) from None
            continue
        if answer is None:
            return
        yield answer


def _wait_for_ranks(workers: list[Any], *, at_once: bool) -> None:
    """Wait until every rank has ended; terminate ranks after a failure or a stop."""
    for worker in workers:
        if not at_once and not any(other.exitcode for other in workers):
            worker.join(LEAVE)
        worker.kill()
        worker.join()


def _rank(rank: int, ranks: int, port: int, kind: str, answers: Any) -> None:
    """One process: joins the group and runs every collective; the first rank reports the times."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch = torch_module()
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    if kind == "cuda":
        torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl" if kind == "cuda" else "gloo", rank=rank, world_size=ranks)
    for timed in _timed_messages(torch, kind, ranks):
        if rank == 0:
            answers.put(timed)
    if rank == 0:
        answers.put(None)
    torch.distributed.destroy_process_group()


def _timed_messages(torch: Any, kind: str, ranks: int) -> Iterator[tuple[str, int, float]]:
    """Operation, bytes and microseconds of each collective on this rank, with growing messages."""
    size, stopwatch = SMALLEST, Stopwatch(kind)
    while size <= (LARGEST if kind == "cuda" else LARGEST_OF_A_PROCESSOR):
        whole = torch.ones(size // BF16_BYTES // ranks * ranks, dtype=torch.bfloat16, device=kind)
        for operation in OPERATIONS:
            call = _collective_call(torch.distributed, operation, whole, whole.chunk(ranks))
            yield operation, size, 1e6 * stopwatch.median_time([call] * CALLS, REPEATS)
        size *= FACTOR


def _collective_call(distributed: Any, operation: str, whole: Any, parts: Any) -> Callable[[], object]:
    """A call that runs the collective on a buffer of the total size."""
    piece, back = parts[0].clone(), whole.clone()
    if operation == "all_reduce":
        return lambda: distributed.all_reduce(whole)
    if operation == "all_gather":
        return lambda: distributed.all_gather_into_tensor(back, piece)
    if operation == "reduce_scatter":
        return lambda: distributed.reduce_scatter_tensor(piece, whole)
    return lambda: distributed.all_to_all_single(back, whole)
