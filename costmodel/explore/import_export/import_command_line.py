"""Recognises commands typed in place of a file: `costmodel import "vllm serve NAME"`."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

from costmodel.documents.text.files import is_text, may_look
from costmodel.exchange.detect import detected
from costmodel.ground.errors import COMMAND_LINE, CostModelError, Place, fail

# Programs that start a training or an engine, by their first word.
_PROGRAMS = {
    *("vllm", "sglang", "trtllm-serve", "torchrun", "deepspeed", "accelerate", "axolotl", "llamafactory-cli", "tune"),
    *("lmdeploy", "text-generation-launcher", "llama-server", "llama-cli", "ollama", "mlc_llm", "aphrodite"),
    *("megatron", "swift", "trl", "guidellm", "genai-perf", "aiperf"),
    *("docker", "podman", "srun", "mpirun", "mpiexec", "python", "python3", "bash", "sh"),
}
_ENVIRONMENT = re.compile(r"[A-Za-z_]\w*=")  # of a variable that is set ahead of a command


def is_typed_command(text: str) -> bool:
    """Whether an argument is a command rather than the path of a file.

    >>> is_typed_command("vllm serve org/name"), is_typed_command("serve.sh"), is_typed_command("my notes.txt")
    (True, False, False)
    """
    return bool(re.search(r"\s", text)) and not _file_exists(text) and starts_program(text)


def starts_program(text: str) -> bool:
    """Whether a text begins with a launcher, or is a file of a known format."""
    return starts_command(text.split()) or _has_format(text)


def starts_command(words: Sequence[str]) -> bool:
    """Whether words, after any environment variables, start with a launcher of training or of an engine.

    >>> starts_command(["CUDA_VISIBLE_DEVICES=0", "torchrun", "train.py"]), starts_command(["train.sh"])
    (True, False)
    """
    program = next((word for word in words if not _ENVIRONMENT.match(word)), "")
    return PurePosixPath(program).name in _PROGRAMS and ":" not in program  # as a line of /etc/passwd has


def refuse_unquoted(arguments: Sequence[str]) -> None:
    """Raises a fault for a command without quotes, whose words look like file names."""
    if len(arguments) < 2 or not starts_command(arguments) or _file_exists(arguments[0]):
        return
    hint = f"put the command in quotes: costmodel import {shlex.quote(' '.join(arguments))}"
    raise fail("C001", f"'{arguments[0]}' begins a command, and is no file", Place(COMMAND_LINE), hint)


def _file_exists(name: str) -> bool:
    return is_text(name) or (may_look(name) and os.path.exists(name))


def _has_format(text: str) -> bool:
    try:
        return bool(detected(text, COMMAND_LINE))
    except CostModelError:
        return False
