"""A dense decoder on H100 out of equations alone: the steps that the worked figures of serving stand on.

The constants are of an H100 in 16 bits, from the kernel tables of aiconfigurator 0.12: products, attention, passes over
memory, the engine's all-reduce.
"""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.equations.kernels.flop import attention_flop, matmul_flop
from costmodel.equations.kernels.memory_traffic import matmul_bytes
from costmodel.equations.kernels.roofline import matmul_time, stream_time
from costmodel.equations.memory.kv_cache import attention_cache_bytes
from costmodel.equations.network.collectives import activation_message
from costmodel.equations.parallelism.counts import kv_heads_per_rank
from costmodel.equations.serving.engine_step import engine_all_reduce_time
from costmodel.ground.equation import Number

PEAK, BANDWIDTH = 989.4e12, 3.35e12


@dataclass(frozen=True)
class Decoder:
    """Shape of a model, and the ranks it is cut over."""

    layers: float
    hidden: float
    ffn_hidden: float
    heads: float
    kv_heads: float
    vocab: float
    tp: float
    head_dim: float = 128.0

    @property
    def own_heads(self) -> float:
        """Query heads of a rank."""
        return self.heads / self.tp

    @property
    def own_kv_heads(self) -> float:
        """Key heads of a rank."""
        return float(kv_heads_per_rank(self.kv_heads, self.tp))

    def prefill(self, prompt: float) -> Number:
        """A step that is one prompt."""
        work = attention_flop(1.0, prompt, self.own_heads, self.head_dim, causal=True)
        moved = 2 * attention_cache_bytes(prompt, self.own_heads + self.own_kv_heads, self.head_dim, 1.0)
        core = 13.7e-6 + work / (0.652 * PEAK) + stream_time(moved, BANDWIDTH, 0.379)
        return self.layers * (self._layer(prompt) + core) + self._head(1.0)

    def decode(self, sequences: float, context: float) -> Number:
        """A step of so many sequences."""
        cache = attention_cache_bytes(sequences * context, self.own_kv_heads, self.head_dim, 2.0)
        queries = 4 * sequences * self.own_heads * self.head_dim
        core = 12.3e-6 + stream_time(cache + queries, BANDWIDTH, 0.854)
        return self.layers * (self._layer(sequences) + core) + self._head(sequences)

    def _layer(self, tokens: float) -> Number:
        tp, width = self.tp, self.heads * self.head_dim
        products = (
            (self.hidden, (width + 2 * self.kv_heads * self.head_dim) / tp),
            (width / tp, self.hidden),
            (self.hidden, 2 * self.ffn_hidden / tp),
            (self.ffn_hidden / tp, self.hidden),
        )
        norms = 2 * (2.5e-6 + stream_time(8 * tokens * self.hidden, BANDWIDTH, 0.7))
        gate = 2.5e-6 + stream_time(6 * tokens * self.ffn_hidden / tp, BANDWIDTH, 0.7)
        message = activation_message(tokens, self.hidden, 2.0)
        reduced = engine_all_reduce_time(message, tp, 4.15e-6, 0.11e-6, 263e9, 0.32e6)
        return sum(_product(tokens, n, k) for k, n in products) + norms + gate + 2 * reduced

    def _head(self, rows: float) -> Number:
        return _product(rows, self.vocab / self.tp, self.hidden)


def _product(m: float, n: float, k: float) -> Number:
    moved = matmul_bytes(m, n, k, 2.0, 2.0)
    return matmul_time(matmul_flop(m, n, k), moved, PEAK, BANDWIDTH, 0.776, 0.845, 4.24e-6, 3.73, 1.0)


LLAMA_70B = Decoder(80, 8192, 28_672, 64, 8, 128_256, tp=8)
LLAMA_8B = Decoder(32, 4096, 14_336, 32, 8, 128_256, tp=1)
QWEN_32B = Decoder(64, 5120, 25_600, 64, 8, 151_936, tp=4)
