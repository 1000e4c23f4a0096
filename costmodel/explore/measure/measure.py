"""What a GPU does with the operations of a training step: the table that calibrate reads."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from costmodel.explore.measure.stopwatch import Device, copies, median_time, torch_module

ELEMENT = 2.0


@dataclass(frozen=True)
class Timing:
    """One operation: its shape as the tables of training operators have it, and its times forward and backward."""

    op: str
    b: int | None = None
    h: int | None = None
    l: int | None = None  # noqa: E741 (the column's name)
    dim: int | None = None
    m: int | None = None
    n: int | None = None
    k: int | None = None
    fwd_us: float = 0.0
    bwd_us: float | None = None
    peak_bytes: float | None = None


@dataclass(frozen=True)
class Spread:
    """The shapes to go through, and how often each is repeated."""

    tokens: tuple[int, ...]
    widths: tuple[tuple[int, int], ...]
    sequences: tuple[int, ...]
    heads: int
    head_dim: int
    blocks: tuple[tuple[int, int], ...]
    repeats: int


WHOLE = Spread(
    tokens=(1024, 4096, 16384),
    widths=((1024, 1024), (4096, 1024), (4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336), (8192, 8192)),
    sequences=(1024, 2048, 4096, 8192, 16384),
    heads=32,
    head_dim=128,
    blocks=((2048, 2048), (4096, 4096), (4096, 8192)),
    repeats=7,
)
BRIEF = Spread(
    tokens=(64, 256),
    widths=((256, 256), (512, 256)),
    sequences=(512, 1024),
    heads=2,
    head_dim=64,
    blocks=((256, 64),),
    repeats=3,
)


@dataclass(frozen=True)
class Session:
    """A device, the spread of shapes, and whom to tell how far it is."""

    device: Device
    spread: Spread
    tell: Callable[[str], None]

    def timed(self, calls: list[Callable[[], object]]) -> float:
        """Microseconds of one call."""
        return 1e6 * median_time(self.device.kind, calls, self.spread.repeats)


def measured(session: Session) -> list[dict[str, Any]]:
    """Every operation of the spread as a row of the table."""
    noted = {
        "gpu": session.device.name,
        "dtype": "bf16",
        "mp": 1,
        "kind": "processor" if session.device.is_processor else "gpu",
        "driver": session.device.driver,
        "torch": session.device.torch,
        "clock_mhz": session.device.clock_mhz,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    parts = (_products(session), _attentions(session), _streams(session), _blocks(session))
    rows = []
    for timing in itertools.chain(*parts):
        session.tell(f"{timing.op} {timing.fwd_us:,.0f} us")
        rows.append({"gpu": noted["gpu"], **asdict(timing), **noted})
    return rows


def _products(session: Session) -> Iterator[Timing]:
    """Linear layers: y = x wᵀ, and both gradients."""
    for tokens, (n, k) in itertools.product(session.spread.tokens, session.spread.widths):
        sets = [_operands(session, (tokens, k), (n, k), (tokens, n)) for _ in range(copies(ELEMENT * n * k))]
        forward = session.timed([_forward(x, w) for x, w, _ in sets])
        backward = session.timed([_gradients(x, w, dy) for x, w, dy in sets])
        yield Timing("linear1", b=1, l=tokens, dim=k, m=tokens, n=n, k=k, fwd_us=forward, bwd_us=backward)


def _operands(session: Session, *shapes: tuple[int, ...]) -> tuple[Any, ...]:
    torch = torch_module()
    return tuple(torch.randn(shape, device=session.device.kind, dtype=torch.bfloat16) for shape in shapes)


def _forward(x: Any, w: Any) -> Callable[[], object]:
    return lambda: x @ w.T


def _gradients(x: Any, w: Any, dy: Any) -> Callable[[], object]:
    return lambda: (dy @ w, dy.T @ x)


def _attentions(session: Session) -> Iterator[Timing]:
    """Fused causal attention of one sequence."""
    spread, attend = session.spread, torch_module().nn.functional.scaled_dot_product_attention
    for sequence in spread.sequences:
        shape = (1, spread.heads, sequence, spread.head_dim)
        q, k, v, dy = _operands(session, shape, shape, shape, shape)
        forward, backward = _both(lambda q, k, v: attend(q, k, v, is_causal=True), (q, k, v), dy)
        width = spread.heads * spread.head_dim
        times = (session.timed([forward]), session.timed([backward]))
        yield Timing("attention", b=1, h=spread.heads, l=sequence, dim=width, fwd_us=times[0], bwd_us=times[1])


def _both(
    function: Callable[..., Any], operands: tuple[Any, ...], dy: Any
) -> tuple[Callable[[], object], Callable[[], object]]:
    """A call forward, and one backward through a graph that is kept."""
    torch = torch_module()
    for operand in operands:
        operand.requires_grad_()
    y = function(*operands)
    return lambda: function(*operands), lambda: torch.autograd.grad(y, operands, dy, retain_graph=True)


def _streams(session: Session) -> Iterator[Timing]:
    """Operators that only move memory: a residual addition, and GELU both ways."""
    functional = torch_module().nn.functional
    dim = max(width for _, width in session.spread.widths)
    for tokens in session.spread.tokens:
        count = copies(ELEMENT * tokens * dim)
        sets = [_operands(session, (tokens, dim), (tokens, dim)) for _ in range(count)]
        added = session.timed([_addition(x, y) for x, y in sets])
        yield Timing("res_add", b=1, l=tokens, dim=dim, fwd_us=added)
        graphs = [_both(functional.gelu, (x,), dy) for x, dy in sets]
        forward = session.timed([alone for alone, _ in graphs])
        backward = session.timed([back for _, back in graphs])
        yield Timing("gelu", b=1, l=tokens, dim=dim // 4, fwd_us=forward, bwd_us=backward)


def _addition(x: Any, y: Any) -> Callable[[], object]:
    return lambda: x + y


def _blocks(session: Session) -> Iterator[Timing]:
    """A Llama-like layer, forward and backward, and the memory of the device at its fullest."""
    torch = torch_module()
    for hidden, tokens in session.spread.blocks:
        layer, weights = _layer(session, hidden)
        x, dy = _operands(session, (1, tokens, hidden), (1, tokens, hidden))
        if not session.device.is_processor:
            torch.cuda.reset_peak_memory_stats()
        forward, backward = _both(lambda x, *_, layer=layer: layer(x), (x, *weights), dy)
        times = (session.timed([forward]), session.timed([backward]))
        peak = None if session.device.is_processor else float(torch.cuda.max_memory_allocated())
        shape = {"b": 1, "h": hidden // session.spread.head_dim, "l": tokens, "dim": hidden}
        yield Timing("block", **shape, fwd_us=times[0], bwd_us=times[1], peak_bytes=peak)


def _layer(session: Session, hidden: int) -> tuple[Callable[[Any], Any], list[Any]]:
    """Norm, attention and gated MLP with residual additions, as plain functions of its weights."""
    functional = torch_module().nn.functional
    heads, head_dim, ffn_hidden = hidden // session.spread.head_dim, session.spread.head_dim, 7 * hidden // 2
    shapes = ((3 * hidden, hidden), (hidden, hidden), (2 * ffn_hidden, hidden), (hidden, ffn_hidden))
    qkv, out, up, down = weights = [weight.mul_(hidden**-0.5) for weight in _operands(session, *shapes)]

    def layer(x: Any) -> Any:
        rows = functional.rms_norm(x, (hidden,)) @ qkv.T
        q, k, v = (part.unflatten(-1, (heads, head_dim)).transpose(1, 2) for part in rows.chunk(3, -1))
        core = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + core.transpose(1, 2).flatten(2) @ out.T
        gate, rise = (functional.rms_norm(x, (hidden,)) @ up.T).chunk(2, -1)
        return x + (functional.silu(gate) * rise) @ down.T

    return layer, weights


def named(rows: list[dict[str, Any]], gpu: str | None) -> list[dict[str, Any]]:
    """The rows under a name of the user's own."""
    return [row | {"gpu": gpu} for row in rows] if gpu else rows


def briefly(session: Session) -> Session:
    """The same with few small shapes, for a first look."""
    return replace(session, spread=BRIEF)
