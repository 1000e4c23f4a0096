"""Record of the answers to all questions about the shipped scenarios, to compare before and after a change.

python tests/record.py write FOLDER      write every answer into a folder
python tests/record.py compare FOLDER    give them again, and print the commands whose answers differ
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from conftest import ROOT, run_here

TRAINING = (
    "llama-3-70b-512",
    "ddp-llama-3.2-1b-32",
    "deepseek-v3-2048",
    "gpt-3-175b-1024",
    "lora-llama-3-70b-8",
    "mixed-llama-3-8b-96",
    "offload-llama-2-13b-8",
    "diloco-llama-3.1-8b-64",
    "quickstart",
)
SERVING, RL = "serve-llama-3.1-70b", "grpo-qwen-2.5-7b-64"
FORMATS = ("table", "table --verbose", "json", "csv", "markdown", "html")
TIMED = re.compile(
    r"(?m)\d[\d.,]* s$|\"elapsed_s\": [\d.e-]+|elapsed [\d.]+ s|[\d,.]+ ?k? ?plans/s|[\d.]+ s(?= of search)"
)
_LINES = 12  # of a difference


def questions() -> Iterator[str]:
    """Every question that a workload has, about its shipped scenarios."""
    for name in (*TRAINING, SERVING, RL):
        yield from (f"{verb} {name}" for verb in ("estimate", "memory", "comm", "check", "sensitivity"))
        yield f"search {name} --top 5"
        yield f"diff {name} {name} --set cluster.nodes=128"
    for name in TRAINING:
        yield from (f"pipeline {name}", f"run {name}", f"explain {name} step_time")
        yield f"solve {name} --over cluster.fabric.bandwidth --for mfu>=40%"
        yield f"scale {name} --ranks 64..1024"
        yield f"sweep {name} --over cluster.nodes=16,64,128 --over workload.sequence=2048,8192"
    yield from (
        "scale llama-3-70b-512 --ranks 256..1024 --weak --best",
        "search llama-3-70b-512 --pareto step_time,memory_peak",
    )
    yield from (
        "search llama-3-70b-512 --over cluster.node=dgx-h100,dgx-h200",
        "sweep quickstart --over plan.tp=1,2,4 --best",
    )
    yield f"scale {SERVING} --rate 2..32"
    yield f"sweep {SERVING} --over workload.rate=2,8 --over plan.tp=4,8 --show tpot,ttft_p99"
    yield f"sweep {SERVING} --over cluster.nodes=2,4 --best"
    yield f"solve {SERVING} --over workload.rate --for tpot<=30ms"
    yield f"solve {SERVING} --over cluster.nodes --for ttft_p99<=2s --best"
    yield f"search {SERVING} --pareto rate_within_slo_per_s,gpus"
    yield f"search {SERVING} --over cluster.node=dgx-h100,dgx-h200 --top 5"
    yield from (f"explain {SERVING} tpot", f"explain {RL} iteration_time", f"run {RL}")
    yield from (f"scale {RL} --ranks 32..128", f"sweep {RL} --over workload.samples=8,16")
    yield from (f"estimate {SERVING} --set model={model}" for model in ("mixtral-8x7b", "deepseek-v3", "qwen-3-0.6b"))
    yield from (f"estimate quickstart --set model={model}" for model in ("mixtral-8x7b", "gpt-oss-20b"))
    yield from (
        "collective all_reduce 1GB --gpu h100 --gpus 64",
        "list models",
        "list gpus",
        "list keys",
        "explain N054",
    )


def commands() -> Iterator[str]:
    """Each question in each format, at two widths of the terminal."""
    for question in questions():
        yield from (f"{question} --format {form}" for form in FORMATS)
        yield f"COLUMNS=80 {question}"


def answer(command: str) -> str:
    """What a command prints, without times that it took."""
    words = command.split()
    env = {"COLUMNS": words.pop(0).partition("=")[2]} if words[0].startswith("COLUMNS") else {"COLUMNS": "120"}
    ran = run_here(*words, env=env, cwd=ROOT)
    return TIMED.sub("TIME", f"exit {ran.code}\n{ran.out}\n{ran.err}")


def main(verb: str, folder: Path, word: str = "") -> int:
    """Write, or compare; 1 where answers differ. Only commands with a word, if it is given."""
    folder.mkdir(parents=True, exist_ok=True)
    differ = 0
    for command in (each for each in commands() if word in each):
        kept, now = folder / re.sub(r"[^\w.=-]+", "_", command), answer(command)
        if verb == "write":
            kept.write_text(now, "utf-8")
        elif (then := kept.read_text("utf-8")) != now:
            differ += 1
            changed = list(difflib.unified_diff(then.splitlines(), now.splitlines(), lineterm="", n=0))
            print(f"$ costmodel {command}", *(line[:200] for line in changed[2 : _LINES + 2]), sep="\n")
    print(f"{differ} differ")
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]))
