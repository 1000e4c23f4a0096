"""What people type leads somewhere: to an answer, or to one error that names the command or the key to type."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from conftest import Run

from costmodel.commands.command_table import COMMANDS
from costmodel.commands.help_text import _OTHER_NAMES

TRAINING, SERVICE = "llama-3-70b-512", "serve-llama-3.1-70b"
ANSWERS = {
    "help": "Usage: costmodel",
    "help search": "Usage: costmodel search",
    "list prices": "USD/GPU/h",
    "list offers": "USD/GPU/h",
    "list gpu h100": "NVIDIA H100 SXM5 80 GB",
    "list models qwen3": "qwen-3-8b",
    f"solve {TRAINING} --over cluster.nodes=32..128*2 --for 'step_time < 20s'": "step_time ≤ 20",
    f"export {SERVICE} --to helm": "kind: Deployment",
    f"export {SERVICE} --to k8s": "kind: Deployment",
    f"estimate {SERVICE} --set plan.speculation={{draft:ngram,tokens:2,chance:70%}}": "drafts",
    "explain torchtitan": "costmodel show fsdp2",
    "explain async": "workload.staleness",
    "explain selective": "selective recompute",
    f"explain {TRAINING} plan": "75 % to fit; ",
    "validate torchtitan-performance": "llama3-70b-64",
    "memory --model llama-3.1-8b --gpu a6000 --gpus 1 --set 'workload.tuning={method: qlora}'": "transformers-ddp",
    "memory --model llama-3.1-8b --gpu h100 --gpus 64 --stack torchtitan --dtype fp8": "· fp8-cs ·",
    "memory --model llama-3.1-8b --gpu h100 --gpus 64 --stack megatron-core --dtype fp8": "· fp8 ·",
    f"sweep {TRAINING} --over batch=512,1024": "2 points",
    "estimate --model llama-3.1-8b --gpu h100 --gpus 64": "its usual node, ib-ndr between nodes",
    "collective all-reduce 1GB --gpu h100 --gpus 64": "ib-ndr between the domains takes longest, held back by nvlink4",
}
ERRORS = {
    f"estimate {TRAINING} --fsdp": "--set stack=fsdp2",
    f"estimate {TRAINING} --framework fsdp2": "--stack fsdp2",
    f"memory {TRAINING} --qlora": "--set 'workload.tuning={method: qlora}'",
    f"check {TRAINING} --tolerance 2%": "--within 2%",
    f"diagnose {TRAINING} --measured 18s": "--step 18s",
    "buy --model llama-3.1-70b --tokens 15T --days 90": "--deadline 90d",
    "search ep=8,tp=2": "--set plan.ep=8 --set plan.tp=2",
    f"estimate {TRAINING} --tp-comm": "--set assume.overlap.tp=SHARE",
    f"check {TRAINING} --set limits.memory.at_most=50GiB": "limits.memory_peak",
    f"check {TRAINING} --set limits.memory_chance.at_least=90%": "did you mean 'fit_chance'?",
    f"check {TRAINING} --set limits.fits.at_least=90%": "did you mean 'fit_chance'?",
    f"check {SERVICE} --set limits.fits.at_least=90%": "did you mean 'memory'?",
    "serve": "costmodel search --model llama-3.1-70b --rate 5",
    "train": "costmodel search --model",
    "allreduce": "costmodel collective all-reduce",
    "all-to-all": "costmodel collective all-to-all",
    "cost": "costmodel buy --model",
    "compare": "costmodel diff",
    f"export {TRAINING} --to k8s": "kubernetes serves, and this scenario is for training",
    f"export {TRAINING} --to torchrun": "torchrun starts what another format writes",
    "estimate --model 70b --gpu h100 --gpus 64": "'llama-3.1-70b'",
    "estimate --model 30B --gpu h100 --gpus 64": "--model dense-",
    "estimate --model llama-3.1-8b --gpu 8xH100": "--gpu h100-sxm --gpus 8",
    "estimate --model llama-3.1-8b --gpu h100x8": "--gpu h100-sxm --gpus 8",
    "estimate --model llama-3.1-8b --gpu h100:8": "--gpu h100-sxm --gpus 8",
    "estimate --model llama-3.1-8b --gpu p5.48xlarge": "--node p5",
    "estimate --model llama-3.1-8b --gpu h100 --gpus 8xH100": "as in --gpu h100 --gpus 64",
    "estimate --model llama-3.1-8b --gpu h100 -n 8": "--gpus 8",
    "estimate --model llama-3.1-8b --gpu h100 --gpus 8 --bf16": "--dtype bf16",
    f"estimate {SERVICE} --quant fp8": "--dtype fp8",
    f"estimate {SERVICE} --kv-cache-dtype fp8": "--set workload.cache=fp8",
    f"estimate {SERVICE} --enable-chunked-prefill": "stack.budget",
    f"estimate {TRAINING} --tp 8": "--set plan.tp=8",
    f"estimate {TRAINING} --seq-len 4096": "--sequence 4096",
    f"estimate {TRAINING} --gradient-accumulation-steps 8": "it follows: --batch",
    f"estimate {TRAINING} --recompute-activations": "--set plan.recompute=selective",
    f"estimate {TRAINING} --gradient-checkpointing": "--set plan.recompute=full",
    f"diagnose {TRAINING} --step-time 18s": "--step 18s",
    f"scale {TRAINING} --gpus 64..1024": "--ranks",
    "buy --model llama-3-70b --tokens 1T --days 30": "--deadline 30d",
    "bench": "costmodel measure",
    "version": "costmodel --version",
    TRAINING: f"costmodel estimate {TRAINING}",
    "--model llama-3.1-8b --gpu h100": "name a command first",
    "list models zzz": "costmodel list models",
    "estimate mine.yaml": "costmodel init > mine.yaml",
    f"estimate {TRAINING} tuning=lora": "--set workload.tuning=lora",
    f"estimate {TRAINING} tp=4 micro_batch=2": "--set plan.tp=4 --set plan.micro_batch=2",
    f"solve {TRAINING} --for mfu>=0.4": "--over cluster.nodes",
    f"check {TRAINING} --limit mfu>=0.5": "--set limits.mfu.at_least=0.45",
    "diff '--model llama-3.1-8b --gpu h100' x": "outside quotes",
    "diff --model llama-3.1-8b --gpu h100 --gpus 8": "add what changes B",
    f"estimate {TRAINING} --set tuning=lora": "write workload.tuning",
    f"estimate {TRAINING} --price 2.5": "write '2.5 USD/GPU/h'",
    f"estimate {TRAINING} --set workload.global_batch=*0.9": "costmodel sensitivity",
    f"estimate {TRAINING} --set workload.tokens=-10%": "costmodel sensitivity",
    f"sweep {TRAINING} --over assume.price=+10%": "costmodel sensitivity",
    f"estimate {TRAINING} --set workload.global_batch={{tokens:4Mi}}": "write e.g. '4Mi tokens'",
    f"estimate {TRAINING} --set cluster.node={{name:x,link:y}}": "link",
    "estimate --model llama-3.1-8b --gpu h100 --gpus 64 --batch 4M": "--batch 4M-tokens is 977 sequences",
    f"sweep {TRAINING} --over workload.sequence=4k..64k": "--over 'workload.sequence=4k..64k*2'",
    f"sweep {TRAINING} --over workload.sequence=4k..64k*1": "from 4 k to 64 k",
}
DIVIDED = [("8k", 64), ("6000", 48), ("10000", 72), ("4096", 96), ("3000", 1024)]  # lengths, GPUs


@pytest.mark.parametrize("line", ANSWERS)
def test_it_answers(line: str, run: Run) -> None:
    ran = run(*shlex.split(line))
    assert (ran.code, ran.err) == (0, ""), ran.err
    assert ANSWERS[line] in ran.out


@pytest.mark.parametrize("line", ERRORS)
def test_one_error_names_what_to_type(line: str, run: Run) -> None:
    ran = run(*shlex.split(line))
    assert (ran.code, ran.out) == (2, "")
    assert len(re.findall(r"(?m)^error", ran.err)) == 1
    assert ERRORS[line] in ran.err
    assert "Did you mean" not in ran.err


@pytest.mark.parametrize(("length", "gpus"), DIVIDED)
def test_the_default_batch_divides_over_every_gpu_and_in_halves(length: str, gpus: int, run: Run) -> None:
    """Whatever the length: 4Mi tokens over 8,000 are 524 = 4 × 131 sequences, which few plans divide."""
    machine = ("--node", "dgx-h100") if gpus % 8 == 0 and gpus != 72 else ("--node", "gb200-nvl72")
    asked = ("--model", "llama-3.1-8b", *machine, "--gpus", str(gpus), "--sequence", length)
    found = json.loads(run("estimate", *asked, "--json").out)["plans"][0]
    batch, tokens = int(found["global_batch"]), int(found["global_batch"]) * int(found["sequence"])
    assert batch % (2 * gpus) == 0 or gpus == 1024  # whose half a batch of one sequence each would be 2Mi tokens
    assert batch % (gpus // (gpus & -gpus) * 64) == 0
    assert 2**21.5 <= tokens <= 2**22.5


def test_a_batch_in_tokens_or_by_its_key_may_be_of_any_size(run: Run) -> None:
    asked = ("estimate", "--model", "llama-3.1-8b", "--gpus", "64")
    for size in (("--batch", "300M-tokens"), ("--set", "workload.global_batch=4M")):
        assert "unusual batch" in run(*asked, *size).out


def test_other_names_are_no_commands_and_lead_to_one() -> None:
    names = [name for names in _OTHER_NAMES for name in names.split()]
    assert len(names) == len(set(names))
    assert not set(names) & set(COMMANDS)
    assert {line.split()[0] for line in _OTHER_NAMES.values()} <= set(COMMANDS)


def test_the_collectives_that_are_named_run(run: Run) -> None:
    for line in _OTHER_NAMES.values():
        if line.startswith("collective"):
            assert run(*shlex.split(line)).code == 0
