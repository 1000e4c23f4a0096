"""Writes the samples beside it: times of the equations with constants of our own, and noise of a fixed seed."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np

from costmodel.equations.kernels.flop import matmul_flop
from costmodel.equations.kernels.memory_traffic import matmul_bytes
from costmodel.equations.kernels.roofline import matmul_time, tiled_rows
from costmodel.equations.network.collectives import blended_time, group_latency, handled_bytes, wire_bytes

HERE = Path(__file__).parent
NOISE = 0.03
PEAK, BANDWIDTH, LINK = 989.4e12, 4.8e12, 450e9
MATMUL = {"compute_share": 0.70, "memory_share": 0.80, "start": 6e-6, "exponent": 2.5}
COLLECTIVE = {"start": 9e-6, "hop": 2e-6, "share": 0.75, "blend": 1.0, "own": 0.4}
HEAD = """$ ./build/all_reduce_perf -b 8K -e 2G -f 4 -g {ranks}
# nThread 1 nGpus {ranks} minBytes 8192 maxBytes 2147483648 step: 4(factor) warmup iters: 5 iters: 20 agg iters: 1 \
validation: 1 graph: 0
#
# Using devices
{devices}
#
#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       
"""
TAIL = """# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0
#
"""


def gemm(noise: np.random.Generator) -> str:
    """A table of matmuls on H200."""
    lines = ["gpu,dtype,m,n,k,time_us"]
    for m, n, k in product((1, 256, 1024, 8192), (4096, 14336, 28672), (4096, 8192, 16384)):
        flop, nbytes = matmul_flop(tiled_rows(m), n, k), matmul_bytes(m, n, k, 2.0, 2.0)
        time = matmul_time(flop, nbytes, PEAK, BANDWIDTH, *MATMUL.values(), 1.0)
        lines.append(f"h200-sxm,bfloat16,{m},{n},{k},{time * 1e6 * np.exp(noise.normal(0, NOISE)):.3f}")
    return "\n".join(lines) + "\n"


def all_reduce(noise: np.random.Generator) -> str:
    """What all_reduce_perf would print on 2, 4 and 8 of them."""
    text = ""
    for ranks in (2, 4, 8):
        devices = "\n".join(
            f"#  Rank {rank:2d} Group  0 Pid  {41000 + rank} on node01 device {rank:2d} [0x{rank:02x}] NVIDIA H200"
            for rank in range(ranks)
        )
        text += HEAD.format(ranks=ranks, devices=devices)
        for size in (8192 * 4**power for power in range(10)):
            text += _line(size, ranks, noise)
        text += TAIL
    return text


def _line(size: int, ranks: int, noise: np.random.Generator) -> str:
    handled = handled_bytes(wire_bytes(size, ranks, operation="all_reduce"), ranks, COLLECTIVE["own"])
    latency = group_latency(ranks, COLLECTIVE["start"], COLLECTIVE["hop"])
    exact = blended_time(latency, handled, COLLECTIVE["share"] * LINK, COLLECTIVE["blend"])
    columns = ""
    for _ in range(2):
        time = float(exact * np.exp(noise.normal(0, NOISE)))
        rate = size / time / 1e9
        columns += f"  {time * 1e6:7.2f}  {rate:6.2f}  {rate * 2 * (ranks - 1) / ranks:6.2f}       0"
    return f"{size:12d}  {size // 4:12d}     float     sum      -1{columns}\n"


if __name__ == "__main__":
    (HERE / "gemm.csv").write_text(gemm(np.random.default_rng(1)), "utf-8")
    (HERE / "all_reduce_perf.txt").write_text(all_reduce(np.random.default_rng(2)), "utf-8")
