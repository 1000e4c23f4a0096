"""Commands that start a serving engine or its benchmark, found among those of a script, a manifest, or a line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from costmodel.exchange.imported import OriginValue
from costmodel.exchange.serving.containers import SHELLS, Environment, container_commands, image_fact, is_manifest
from costmodel.exchange.shell import Doubt, Word, read_script
from costmodel.ground.errors import Place

VLLM, SGLANG, TRT_LLM = "vllm", "sglang", "trt-llm"
BENCHMARK = "benchmark"
_DEEPEST = 3  # commands that a command holds as a text
# What a module or a program starts.
_MODULES = {
    "vllm.entrypoints.openai.api_server": VLLM,
    "vllm.entrypoints.api_server": VLLM,
    "sglang.launch_server": SGLANG,
    "dynamo.vllm": VLLM,
    "dynamo.sglang": SGLANG,
    "dynamo.trtllm": TRT_LLM,
    "sglang.bench_serving": BENCHMARK,
    "tensorrt_llm.serve.scripts.benchmark_serving": BENCHMARK,
}
_PROGRAMS = {"benchmark_serving.py": BENCHMARK, "bench_serving.py": BENCHMARK, "api_server.py": VLLM}
_IMAGES = re.compile(r"(?:^|/)vllm-openai(?:[:@]|$)")  # whose entry point is the engine


class ServeCommand(NamedTuple):
    """A command that starts an engine or benchmark: the program, its words, doubt, copies and container image."""

    starts: str
    words: tuple[Word, ...]
    place: Place
    doubt: Doubt | None = None
    copies: OriginValue | None = None
    image: OriginValue | None = None
    environment: tuple[tuple[str, Word], ...] = ()
    gpus: OriginValue | None = None


def serve_commands(text: str, file: str) -> list[ServeCommand]:
    """Every command of a text that starts an engine or a benchmark, in order."""
    found: list[ServeCommand] = []
    if is_manifest(text):
        for container in container_commands(text, file):
            started = _of_words(container.words, None, file, 0, container.environment)
            own = tuple(container.environment.items())
            found += [
                each._replace(
                    copies=container.copies,
                    image=container.image or each.image,
                    environment=(*own, *each.environment),
                    gpus=container.gpus,
                )
                for each in started
            ]
        return found
    for command in read_script(text, file).commands:
        started = _of_words(command.words, command.doubt, file, 0, {})
        found += [each._replace(environment=(*command.environment, *each.environment)) for each in started]
    return found


def _of_words(
    words: Sequence[Word], doubt: Doubt | None, file: str, depth: int, given: Environment
) -> Iterator[ServeCommand]:
    image: OriginValue | None = None
    for index, word in enumerate(words):
        behind, image = words[index + 1 :], image_fact(word.text, word.place) or image
        if PurePosixPath(word.text).name in SHELLS and depth < _DEEPEST:
            inner = _text_of_shell(behind)
            for command in read_script(inner.text, file, given).commands if inner is not None else ():
                placed = [each._replace(place=inner.place) for each in command.words] if inner is not None else []
                for each in _of_words(placed, command.doubt or doubt, file, depth + 1, given):
                    yield each._replace(environment=(*command.environment, *each.environment))
            if inner is not None:
                return
        starts, skipped = _started(word.text, [each.text for each in behind[:2]])
        if starts:
            yield ServeCommand(starts, tuple(behind[skipped:]), word.place, doubt, None, image)
            return


def _text_of_shell(behind: Sequence[Word]) -> Word | None:
    """The script that a shell receives as one word after -c."""
    for option, text in itertools.pairwise(behind[:4]):
        if re.fullmatch(r"-[a-z]*c", option.text):
            return text
    return None


def _started(word: str, behind: Sequence[str]) -> tuple[str, int]:
    """The program that a word starts, and the number of following words that belong to the program's name."""
    first, second = (*behind, "", "")[:2]
    name = PurePosixPath(word).name
    if word == "-m" and first in _MODULES:
        return _MODULES[first], 1
    if name in _PROGRAMS:
        return _PROGRAMS[name], 0
    if name == "vllm" and first == "serve":
        return VLLM, 1
    if name == "vllm" and (first, second) == ("bench", "serve"):
        return BENCHMARK, 2
    if name == "sglang" and first == "serve":
        return SGLANG, 1
    if name == "trtllm-serve":
        return TRT_LLM, int(first == "serve")
    return (VLLM, 0) if _IMAGES.search(word) else ("", 0)
