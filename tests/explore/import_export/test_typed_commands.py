"""A command that is typed in quotes reads as the same text from standard input does."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

SERVED = ("--gpu", "h100", "--rate", "8", "--prompt", "2048", "--answer", "512")
TRAINED = ("--gpu", "h100", "--nodes", "1", "--partial")
COMMANDS = {
    "vllm serve meta-llama/Llama-3.1-70B-Instruct --tensor-parallel-size 4": SERVED,
    "python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct --tp 2": SERVED,
    "CUDA_VISIBLE_DEVICES=0,1 trtllm-serve meta-llama/Llama-3.1-8B-Instruct \\\n --tp_size 2": SERVED,
    "docker run --gpus all vllm/vllm-openai:v0.10.0 --model meta-llama/Llama-3.1-8B-Instruct": SERVED,
    "accelerate launch train.py --per_device_train_batch_size 2 --bf16 --output_dir out --max_steps 9 "
    "--model_name_or_path meta-llama/Llama-3.1-8B": TRAINED,
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
    "--seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64": TRAINED,
    "torchrun --nproc_per_node 8 train.py": TRAINED,  # of no format: both are refused for the same reason
    "/opt/bin/deepspeed train.py": TRAINED,
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_typed_command_reads_as_it_does_from_standard_input(command: str, run: Any) -> None:
    typed = run("import", command, *COMMANDS[command])
    piped = run("import", "-", *COMMANDS[command], stdin=command)
    assert (typed.code, unwrapped(typed.out), typed.err) == (
        piped.code,
        unwrapped(piped.out.replace("<stdin>", "command line")),
        piped.err.replace("<stdin>", "command line"),
    )


def unwrapped(text: str) -> list[str]:
    """The words of a document, whose comments have other lines where a name is longer."""
    return text.replace("#", " ").split()


def test_the_first_word_decides_unless_there_is_such_a_file(run: Any, faults: Any, tmp_path: Path) -> None:
    assert faults(run("import", "my notes.txt", cwd=tmp_path))[0].place == "my notes.txt"
    (tmp_path / "vllm serve.sh").write_text("vllm serve meta-llama/Llama-3.1-8B-Instruct", "utf-8")
    assert "vllm serve.sh:1" in run("import", "vllm serve.sh", *SERVED, cwd=tmp_path).out


def test_a_command_without_quotes_is_refused_with_the_command_in_quotes(run: Any, faults: Any) -> None:
    words = ("vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct")
    (fault,) = faults(run("import", *words))
    assert fault.code == "C001"
    advised = shlex.split(fault.help.partition(": ")[2])
    assert run(*advised[1:], *SERVED).code == 0
    unknown = run("import", *words, "--tensor-parallel-size", "4")
    assert unknown.code == 2
    assert "put the command of another tool in quotes" in unknown.err
    assert "in quotes" not in run("import", "serve.sh", "--tensor-parallel-size", "4").err
