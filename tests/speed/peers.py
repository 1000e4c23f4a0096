"""Plans a second, ours beside others', in one run: `python tests/speed/peers.py --calculon PATH --simumax PATH`.

Every program searches GPT-3 175B on 1,024 A100 and Megatron-1T on 4,096 A100 in one process, and a rate is plans
evaluated in full (time, memory and communication) over seconds of processor time, so that a busy machine distorts it
little. Candidates that a program refuses are counted apart. llm-analysis is taken if it is installed; Calculon and
SimuMax are taken from checkouts. Those that take milliseconds a plan draw plans at random for so many seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import importlib.util
import io
import itertools
import logging
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costmodel.documents.reader.load_scenario import load
from costmodel.explore.search.search import search


@dataclass(frozen=True)
class Job:
    """A model on accelerators."""

    title: str
    model: str
    ranks: int
    batch: int
    layers: int
    hidden: int
    heads: int

    @property
    def ours(self) -> list[str]:
        """The shipped scenario changed into it."""
        return [f"model={self.model}", f"cluster.nodes={self.ranks // 8}", f"workload.global_batch={self.batch}"]

    def layouts(self) -> list[tuple[int, int, int, int]]:
        """tp, pp, dp and micro-batch that multiply and divide as they should, in any order."""
        found = [
            (tp, pp, self.ranks // (tp * pp), micro_batch)
            for tp, pp, micro_batch in itertools.product((1, 2, 4, 8), divisors(self.layers), (1, 2, 4, 8, 16))
            if self.ranks % (tp * pp) == 0 and self.batch % (self.ranks // (tp * pp) * micro_batch) == 0
        ]
        random.Random(1).shuffle(found)
        return found


JOBS = (
    Job("GPT-3 175B, 1,024 A100", "gpt-3-175b", 1024, 1536, 96, 12288, 96),
    Job("Megatron-1T, 4,096 A100", "megatron-1t", 4096, 4096, 128, 25600, 160),
)
SEQUENCE, VOCAB = 2048, 51200


@dataclass(frozen=True)
class Rate:
    """What a program did."""

    candidates: int
    evaluated: int
    seconds: float

    @property
    def plans(self) -> float:
        """Evaluated in full a second."""
        return self.evaluated / self.seconds


def divisors(number: int) -> list[int]:
    return [value for value in range(1, number + 1) if number % value == 0]


def measured(work: Callable[[], tuple[int, int]]) -> Rate:
    began = time.process_time()
    candidates, evaluated = work()
    return Rate(candidates, evaluated, time.process_time() - began)


def drawn(plans: Iterator[Any], one: Callable[[Any], bool], seconds: float) -> Rate:
    """Plan after plan until the time is over; `one` says whether it was evaluated or refused."""

    def work() -> tuple[int, int]:
        began, candidates, evaluated = time.process_time(), 0, 0
        for plan in plans:
            if time.process_time() - began > seconds:
                break
            candidates, evaluated = candidates + 1, evaluated + one(plan)
        return candidates, evaluated

    return measured(work)


def ours(job: Job, *wide: str) -> Rate:
    case = load("gpt-3-175b-1024", [*job.ours, *wide])
    search(case, workers=1)

    def work() -> tuple[int, int]:
        tally = search(case, workers=1).tally
        return tally.candidates, tally.evaluated

    return measured(work)


def wide(job: Job) -> list[str]:
    """As many choices as Calculon has for one layout, and every micro-batch."""
    return [
        f"search.micro_batch={divisors(job.batch)}",
        f"search.vpp={divisors(job.layers)}",
        f"search.tp={divisors(job.heads)}",
        "search.zero=[0,1,2,3]",
        "search.recompute=[none,selective,full]",
        "search.schedule=[gpipe,1f1b,interleaved]",
        "search.sequence_parallel=[true,false]",
        "search.order=[tp-cp-dp-pp,tp-cp-pp-dp]",
    ]


def calculon(job: Job, checkout: Path, seconds: float) -> Rate:
    """Its own search, layout by layout in any order."""
    sys.path.insert(0, str(checkout))
    llm = importlib.import_module("calculon.llm")
    optimal = importlib.import_module("calculon.llm.optimal_execution").OptimalExecution
    read = importlib.import_module("calculon.io").read_json_file
    name = {"gpt-3-175b": "gpt3-175B", "megatron-1t": "megatron-1T"}[job.model]
    app = llm.Llm.Application(read(str(checkout / "models" / f"{name}.json")))
    system = llm.System(read(str(checkout / "systems" / "a100_80g.json")))
    choices = [
        (tp, pp, self_dp, chunks, recompute, sharded, exchange)
        for tp in llm.Llm.get_all_tensor_parallelisms(job.ranks, app.hidden, app.attn_heads)
        for pp in llm.Llm.get_all_pipeline_parallelisms(job.ranks, tp, app.num_blocks)
        for self_dp in [llm.Llm.get_data_parallelism(job.ranks, tp, pp)]
        for chunks in llm.Llm.get_valid_pipeline_interleavings(app.num_blocks, pp)
        for recompute in ("full", "attn_only", "none")
        for sharded in ((True, False) if self_dp > 1 else (False,))
        for exchange in ("ar", "p2p_rs_ag", "rs_ag")
        if optimal.get_batch_size(self_dp, job.batch) is not None
    ]
    random.Random(1).shuffle(choices)

    def work() -> tuple[int, int]:
        began, candidates, evaluated = time.process_time(), 0, 0
        for tp, pp, dp, chunks, recompute, sharded, exchange in choices:
            batch = optimal.get_batch_size(dp, job.batch)
            head = (False, 1, False, job.ranks, job.batch, "float16", app, system, tp, pp, dp, chunks, batch)
            found = optimal.search(*head, recompute, sharded, exchange, [True], False, True, True)
            candidates, evaluated = candidates + found[1], evaluated + found[2]
            if time.process_time() - began > seconds:
                break
        return candidates, evaluated

    return measured(work)


def llm_analysis(job: Job, seconds: float) -> Rate:
    """Its training analysis of plan after plan."""
    analysis = importlib.import_module("llm_analysis.analysis")
    config = importlib.import_module("llm_analysis.config")
    analysis.logger.setLevel(logging.CRITICAL)
    model = config.ModelConfig(job.model, job.layers, job.heads, job.hidden, VOCAB, max_seq_len=SEQUENCE)
    gpu, dtype = config.get_gpu_config_by_name("a100-sxm-80gb"), config.get_dtype_config_by_name("w16a16e16")

    def one(plan: Any) -> bool:
        (tp, pp, dp, micro_batch), recompute, zero = plan
        parallel = config.ParallelismConfig(tp_size=tp, pp_size=pp, dp_size=dp)
        asked = analysis.LLMAnalysis(model, gpu, dtype, parallel)
        try:
            asked.training(
                batch_size_per_gpu=micro_batch,
                global_batch_size=job.batch,
                seq_len=SEQUENCE,
                activation_recomputation=analysis.ActivationRecomputation(recompute),
                ds_zero=analysis.DSZeRO(zero),
            )
        except (AssertionError, ValueError, ZeroDivisionError):
            return False
        return True

    plans = itertools.product(job.layouts(), (0, 1, 2, 4), (0, 1, 2, 3))
    return drawn(itertools.cycle(plans), one, seconds)


def simumax(job: Job, checkout: Path, seconds: float) -> Rate:
    """Its estimate of plan after plan; the only A100 it ships is the PCIe one."""
    sys.path.insert(0, str(checkout))
    config = importlib.import_module("simumax.core.config")
    perf = importlib.import_module("simumax.core.perf_llm")
    strategy = checkout / "configs" / "strategy" / "tp8_pp1_dp1_mbs1.json"
    name = {"gpt-3-175b": "gpt3-175b", "megatron-1t": "megatron-1t"}[job.model]
    model = config.ModelConfig.init_from_config_file(str(checkout / "configs" / "models" / f"{name}.json"))
    system = config.SystemConfig.init_from_config_file(str(checkout / "configs" / "system" / "a100_pcie.json"))

    def one(plan: tuple[int, int, int, int]) -> bool:
        tp, pp, dp, micro_batch = plan
        written = config.StrategyConfig.init_from_config_file(str(strategy))
        changes = {"seq_len": SEQUENCE, "world_size": job.ranks, "tp_size": tp, "pp_size": pp}
        changes |= {"micro_batch_size": micro_batch, "micro_batch_num": job.batch // (dp * micro_batch)}
        for key, value in changes.items():
            setattr(written, key, value)
        asked = perf.PerfLLM()
        try:
            asked.configure(strategy_config=written, model_config=dataclasses.replace(model), system_config=system)
            asked.run_estimate()
            asked.analysis_mem()
            asked.analysis_cost()
        except (AssertionError, ValueError, ZeroDivisionError, RuntimeError):
            return False
        return True

    return drawn(itertools.cycle(job.layouts()), one, seconds)


def rates(job: Job, asked: argparse.Namespace) -> Iterator[tuple[str, Rate]]:
    yield "ours, its own space", ours(job)
    yield "ours, every layout", ours(job, *wide(job))
    if asked.calculon:
        yield "Calculon", calculon(job, asked.calculon, asked.seconds)
    if asked.simumax:
        yield "SimuMax", simumax(job, asked.simumax, asked.seconds)
    if importlib.util.find_spec("llm_analysis"):
        yield "llm-analysis", llm_analysis(job, asked.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calculon", type=Path, help="a checkout of calculon-ai/calculon")
    parser.add_argument("--simumax", type=Path, help="a checkout of MooreThreads/SimuMax")
    parser.add_argument("--seconds", type=float, default=5.0, help="of processor time for each that draws plans")
    asked = parser.parse_args()
    for job in JOBS:
        print(f"{job.title}, global batch {job.batch:,}")
        heads = ("candidates", "evaluated", "CPU s", "plans/s", "tried/s", "ours is")
        print("  {:20} {:>11} {:>10} {:>7} {:>10} {:>10} {:>10}".format("", *heads))
        heard = io.StringIO()
        with contextlib.redirect_stdout(heard):
            found = list(rates(job, asked))
        most = max(rate.plans for name, rate in found if name.startswith("ours"))
        for name, rate in found:
            ratio = f"{most / rate.plans:,.0f} ×" if rate.evaluated else "none"
            print(
                f"  {name:20} {rate.candidates:11,} {rate.evaluated:10,} {rate.seconds:7.2f} {rate.plans:10,.0f}"
                f" {rate.candidates / rate.seconds:10,.0f} {ratio:>10}"
            )


if __name__ == "__main__":
    main()
