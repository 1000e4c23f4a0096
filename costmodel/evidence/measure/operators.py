"""The operations of a training step over a spread of shapes: matrix products, attention, streams, whole layers."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import Any

from costmodel.equations.kernels.flop import attention_flop, matmul_flop
from costmodel.evidence.measure.stopwatch import Device, Stopwatch, copies, torch_module
from costmodel.ground.record import record

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
        """Microseconds of one call."""
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
    """Linear layers: y = x wᵀ, and both gradients; forward alone in fp8, where the GPU has it, and for few tokens.

    Products of few tokens take as long as their weights take to read, and show the share of the memory bandwidth.
    """
    spread, narrow = session.spread, _capability(session) >= FP8_FROM
    for tokens, (n, k) in itertools.product((*spread.few, *spread.tokens), spread.widths):
        shape = Timing("linear1", b=1, l=tokens, dim=k, m=tokens, n=n, k=k)
        work = float(matmul_flop(tokens, n, k))
        yield OperatorTrial(shape, work, functools.partial(_product, session))
        if narrow:
            yield OperatorTrial(replace(shape, dtype="fp8"), work, functools.partial(_narrow_product, session))


def _capability(session: Session) -> tuple[int, int]:
    """The compute capability of an NVIDIA GPU; None for any other device."""
    torch = torch_module()
    if session.device.is_processor or torch.version.hip:
        return (0, 0)
    major, minor = torch.cuda.get_device_capability()
    return (int(major), int(minor))


def _product(session: Session, shape: Timing) -> Timing:
    m, n, k = shape.m or 0, shape.n or 0, shape.k or 0
    sets = session.sets((m, k), (n, k), (m, n))
    forward = session.timed([_forward(x, w) for x, w, _ in sets])
    if m in session.spread.few:
        return replace(shape, fwd_us=forward)
    return replace(shape, fwd_us=forward, bwd_us=session.timed([_gradients(x, w, dy) for x, w, dy in sets]))


def _forward(x: Any, w: Any) -> Callable[[], object]:
    return lambda: x @ w.T


def _gradients(x: Any, w: Any, dy: Any) -> Callable[[], object]:
    return lambda: (dy @ w, dy.T @ x)


def _narrow_product(session: Session, shape: Timing) -> Timing:
    """A product with one scale per operand; operands are converted beforehand."""
    torch = torch_module()
    m, n, k = shape.m or 0, shape.n or 0, shape.k or 0
    sets = [tuple(each.to(torch.float8_e4m3fn) for each in pair) for pair in session.sets((m, k), (n, k))]
    one = torch.ones((), device=session.device.kind)
    return replace(shape, fwd_us=session.timed([_scaled(x, w, one) for x, w in sets]))


def _scaled(x: Any, w: Any, scale: Any) -> Callable[[], object]:
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
            yield OperatorTrial(shape, work, functools.partial(_attention, session))


def _attention(session: Session, shape: Timing) -> Timing:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    attend = functools.partial(torch_module().nn.functional.scaled_dot_product_attention, is_causal=True)
    b, h, sequence, dim = shape.b or 0, shape.h or 0, shape.l or 0, shape.dim or 0
    sizes = (b, h, sequence, dim // h)
    with sdpa_kernel(getattr(SDPBackend, KERNELS[shape.kernel])):
        calls = [_both(attend, (q, k, v), dy) for q, k, v, dy in session.sets(sizes, sizes, sizes, sizes)]
        return _timed_both(session, shape, calls)


Calls = tuple[Callable[[], object], Callable[[], object]]


def _both(function: Callable[..., Any], operands: tuple[Any, ...], dy: Any) -> Calls:
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
        yield OperatorTrial(Timing("res_add", b=1, l=tokens, dim=dim), work, functools.partial(_addition, session))
        yield OperatorTrial(Timing("gelu", b=1, l=tokens, dim=dim // 4), 2 * work, functools.partial(_gelu, session))


def _addition(session: Session, shape: Timing) -> Timing:
    size = (shape.l or 0, shape.dim or 0)
    return replace(shape, fwd_us=session.timed([_sum(x, y) for x, y in session.sets(size, size)]))


def _sum(x: Any, y: Any) -> Callable[[], object]:
    return lambda: x + y


def _gelu(session: Session, shape: Timing) -> Timing:
    """GELU at the inner width of an MLP, four times that of the layer."""
    gelu, size = torch_module().nn.functional.gelu, (shape.l or 0, 4 * (shape.dim or 0))
    return _timed_both(session, shape, [_both(gelu, (x,), dy) for x, dy in session.sets(size, size)])


def blocks(session: Session) -> Iterator[OperatorTrial]:
    """A Llama-like layer, forward and backward, and its peak memory."""
    for hidden, tokens in session.spread.blocks:
        shape = Timing("block", b=1, h=hidden // session.spread.head_dim, l=tokens, dim=hidden)
        yield OperatorTrial(shape, float(tokens * hidden * (hidden + tokens)), functools.partial(_block, session))


def _block(session: Session, shape: Timing) -> Timing:
    hidden, tokens = shape.dim or 0, shape.l or 0
    before = _allocated(session)
    layer, weights = _layer(session, hidden)
    x, dy = session.operands((1, tokens, hidden), (1, tokens, hidden))
    calls = _both(lambda x, *_: layer(x), (x, *weights), dy)
    found = _timed_both(session, shape, [calls])
    del calls
    return replace(found, peak_bytes=_peak(session, layer, (x, *weights), dy, before))


def _allocated(session: Session) -> int:
    return 0 if session.device.is_processor else int(torch_module().cuda.memory_allocated())


def _peak(
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
        rows = functional.rms_norm(x, (hidden,)) @ qkv.T
        q, k, v = (part.unflatten(-1, (heads, head_dim)).transpose(1, 2) for part in rows.chunk(3, -1))
        core = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + core.transpose(1, 2).flatten(2) @ out.T
        gate, rise = (functional.rms_norm(x, (hidden,)) @ up.T).chunk(2, -1)
        return x + (functional.silu(gate) * rise) @ down.T

    return layer, weights
