"""Writes the samples beside it: times of the equations with constants of our own, and noise of a fixed seed."""

from __future__ import annotations

import json
from collections.abc import Sequence
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


# A team's runs of three nights: layouts of training and of two services. In the last night its engine is a new release
# whose all-reduces take 1.8 times as long.
RELEASES = ("0.17.1", "0.18.0")
NIGHTS = ("2026-11-28", "2026-11-29", "2026-11-30")
TRAINING = {
    "8b-tp2": (8192, 32, {"tp": 2, "micro_batch": 1}),
    "8b-tp8": (8192, 16, {"tp": 8, "micro_batch": 2}),
    "8b-dp": (4096, 32, {"tp": 1, "micro_batch": 1}),
    "8b-pp4": (4096, 64, {"tp": 2, "pp": 4, "micro_batch": 1}),
}
SERVICES = {"70b": ("llama-3.1-70b", 8), "8b": ("llama-3.1-8b", 1)}
USERS, PROMPT, OUTPUT, LATE, OFF, AGAIN = (1, 4, 16, 64), 1024, 512, 1.8, 1.06, 0.01
SCENARIO = """schema: costmodel/scenario/v1
title: {title}
model: {model}
cluster: {{node: dgx-h100, nodes: {nodes}}}
workload: {workload}
stack: {stack}
plan: {plan}
"""


def team(folder: Path, noise: np.random.Generator) -> None:
    """Launch files and logs of a team, times of the equations and noise."""
    from costmodel.documents.reader.load_scenario import load
    from costmodel.estimate.training_answer.predict_training import predict
    from costmodel.evidence.validate.validate import validated
    from costmodel.explore.import_export.import_file import GivenBesideFile
    from costmodel.explore.import_export.import_log_folder import read_log_folder

    for night in NIGHTS:
        (folder / night).mkdir(parents=True, exist_ok=True)
    for name, (sequence, batch, plan) in TRAINING.items():
        workload = f"{{kind: training, sequence: {sequence}, global_batch: {batch}, precision: bf16}}"
        planned = "{" + ", ".join(f"{key}: {value}" for key, value in plan.items()) + "}"
        text = SCENARIO.format(
            title=name, model="llama-3-8b", nodes=2, workload=workload, stack="megatron-core", plan=planned
        )
        (folder / f"{name}.yaml").write_text(text, "utf-8")
        seconds = float(predict(load(str(folder / f"{name}.yaml"))).evaluation.costs.column("step_time")[0])
        for night in NIGHTS:
            again = seconds * OFF * np.exp(noise.normal(0, AGAIN))
            (folder / night / f"{name}.log").write_text(_steps(again, batch, noise), "utf-8")
    for name, (model, tp) in SERVICES.items():
        workload = f"{{kind: serving, prompt: {PROMPT}, output: {OUTPUT}, concurrency: 16}}"
        text = SCENARIO.format(title=name, model=model, nodes=1, workload=workload, stack="vllm", plan=f"{{tp: {tp}}}")
        (folder / f"serve-{name}.yaml").write_text(text, "utf-8")
        _benchmarks(folder / NIGHTS[0], name, [(1.0, 1.0)] * len(USERS), RELEASES[0])
    shown = read_log_folder(str(folder), GivenBesideFile()).nights[NIGHTS[0]]
    served = [table for table in shown if "ttft_s" in table.columns]
    tokens, firsts = (validated(served, quantity=quantity) for quantity in ("tpot", "ttft"))
    for night in NIGHTS:
        late = LATE - 1 if night == NIGHTS[-1] else 0.0
        for name, each, first in zip(SERVICES, tokens, firsts, strict=True):
            times = [
                (
                    (other.predicted or 0.0) * float(np.exp(noise.normal(0, AGAIN))),
                    (one.predicted or 0.0) * OFF * (1 + late * one.parts["tp"]) * float(np.exp(noise.normal(0, AGAIN))),
                )
                for one, other in zip(each.figures, first.figures, strict=True)
            ]
            _benchmarks(folder / night, name, times, RELEASES[late > 0])


def _steps(seconds: float, batch: int, noise: np.random.Generator) -> str:
    return "".join(
        f" iteration {step:8d}/ 100 | consumed samples: {batch * step} | elapsed time per iteration (ms): "
        f"{1e3 * seconds * float(np.exp(noise.normal(0, 0.005))):.1f} | global batch size: {batch:5d} |\n"
        for step in range(2, 22, 2)
    )


def _benchmarks(folder: Path, name: str, times: Sequence[tuple[float, float]], version: str) -> None:
    """Results of `vllm bench serve` at each number of users."""
    lines = []
    for users, (first, token) in zip(USERS, times, strict=True):
        count = 8 * users
        tree = {"backend": "vllm", "engine_version": version, "num_prompts": count, "max_concurrency": users}
        tree |= {"request_rate": "inf", "completed": count, "total_input_tokens": count * PROMPT}
        tree |= {"total_output_tokens": count * OUTPUT, "mean_ttft_ms": round(first * 1e3, 2)}
        lines.append(json.dumps(tree | {"mean_tpot_ms": round(token * 1e3, 3)}))
    (folder / f"serve-{name}.json").write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    team(HERE / "team", np.random.default_rng(3))
    (HERE / "gemm.csv").write_text(gemm(np.random.default_rng(1)), "utf-8")
    (HERE / "all_reduce_perf.txt").write_text(all_reduce(np.random.default_rng(2)), "utf-8")
