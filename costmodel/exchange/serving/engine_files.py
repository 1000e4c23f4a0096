"""Commands that start vLLM, SGLang or TensorRT-LLM, and files of their options, to a serving scenario."""

from __future__ import annotations

import re

from costmodel.documents.text.yaml_tree import Mapping, key_at
from costmodel.exchange.launcher_options import of_environment
from costmodel.exchange.serving import benchmark, sglang, tensorrt_llm, vllm
from costmodel.exchange.serving.command_options import OptionWords, option_words, unknown_value
from costmodel.exchange.serving.containers import (
    BENCHMARK,
    IMAGE,
    SGLANG,
    TRT_LLM,
    VLLM,
    ServeCommand,
    is_manifest,
    manifest_trees,
    serve_commands,
)
from costmodel.exchange.serving.deployments import APART, APART_HINT, keys_around
from costmodel.exchange.training.config_text import tree_of
from costmodel.exchange.training.file_facts import Layer
from costmodel.ground.errors import Place, fail

_TABLES = {
    VLLM: (vllm.TABLE, vllm.SPELLING, vllm.read_vllm),
    SGLANG: (sglang.TABLE, sglang.SPELLING, sglang.read_sglang),
    TRT_LLM: (tensorrt_llm.TABLE, tensorrt_llm.SPELLING, tensorrt_llm.read_trtllm),
}
_PROMPTS = re.compile(r"--is-prefill-worker|--disaggregation-mode[= ]prefill|\bkv_producer\b")
_LONGEST = 400_000  # letters of a script that are looked at for files it writes
_WRITTEN = re.compile(
    r"(?m)^[ \t]*(?:cat|tee)\b(?=[^\n]*<<-?[ \t]*['\"]?(?P<end>\w+))[^\n>]*?(?:<<-?[ \t]*['\"]?\w+['\"]?[ \t]*)?"
    r">{1,2}[ \t]*(?P<file>[^\s<>|]+)[^\n]*\n(?P<body>(?:[^\n]*\n)*?)[ \t]*(?P=end)[ \t]*$"
)
_HINT = "vllm serve, python -m sglang.launch_server or trtllm-serve, in a script, a manifest or a line of its own"


def read_serve_command(text: str, file: str) -> list[Layer]:
    """The engine that a text starts, and the benchmark in the text, each as a layer."""
    commands = serve_commands(text, file)
    engines = [command for command in commands if command.starts != BENCHMARK]
    if not engines and not commands:
        raise fail("X001", "the file has no command of a serving engine", Place(file), _HINT)
    found = _with_written(_engine(engines, file), engines[0].starts, text, file) if engines else []
    of_sglang = any(command.starts == SGLANG for command in engines)
    for command in (command for command in commands if command.starts == BENCHMARK):
        options = option_words(command.words, benchmark.TABLE, benchmark.SPELLING)
        layer = benchmark.read_benchmark(options.tree, file, of_sglang=of_sglang)
        layer.faults += options.faults
        layer.unless += options.unless
        layer.facts.pop("model", None)
        found.append(layer)
        break
    if is_manifest(text):
        found += [keys_around(tree, file) for tree in manifest_trees(text, file)]
    return found


def _engine(commands: list[ServeCommand], file: str) -> Layer:
    """The engine that the commands start; a fault if several commands differ."""
    first = commands[0]
    for other in commands[1:]:
        if (other.starts, [word.text for word in other.words]) != (first.starts, [word.text for word in first.words]):
            if any(_PROMPTS.search(" ".join(word.text for word in each.words)) for each in (first, other)):
                raise fail("X003", APART, other.place, APART_HINT)
            hint = f"the first is on line {first.place.line}; keep one of the two"
            raise fail("X004", "more than one engine is started", other.place, hint)
    table, spelling, read = _TABLES[first.starts]
    options = option_words(first.words, table, spelling)
    _name_model(options)
    layer = read(options.tree, file)
    layer.faults += options.faults
    layer.unless += options.unless
    layer.join(of_environment(first.environment, file))
    if first.gpus is not None:
        layer.weak["visible"] = first.gpus
    if first.copies is not None:
        layer.facts["copies"] = first.copies
    if first.image is not None:
        layer.facts[IMAGE] = first.image
    for name in ("config", "extra_llm_api_options"):
        key = next((key for key in options.tree if key == name), None)
        if key is not None and isinstance(options.tree[key], str) and options.tree[key]:
            layer.named.append((str(options.tree[key]), key.place))
    return _defaults_give_way(layer)


def _with_written(layer: Layer, engine: str, text: str, file: str) -> list[Layer]:
    """The layer, followed by the option files that the script writes before it starts the engine."""
    found, open_names = [layer], []
    here = {match.group("file").strip("'\""): match for match in _WRITTEN.finditer(text[:_LONGEST])}
    for name, place in layer.named:
        body = here.get(name) or (next(iter(here.values())) if len(here) == 1 else None)
        if body is None:
            open_names.append((name, place))
        else:
            lines = "\n" * text.count("\n", 0, body.start("body"))
            found.append(read_option_file(lines + body.group("body"), file, engine))
    layer.named = open_names
    return found


def _defaults_give_way(layer: Layer) -> Layer:
    """The layer with its defaults marked as weak, so that another layer overrides them."""
    layer.weak |= {path: value for path, value in layer.facts.items() if value.origin.kind == "default"}
    layer.facts = {path: value for path, value in layer.facts.items() if value.origin.kind != "default"}
    return layer


def _name_model(options: OptionWords) -> None:
    """Takes the first word without an option as the model, unless an option names it."""
    named = any(name in options.tree for name in ("model", "model-path"))
    if not options.plain or named:
        return
    word = options.plain[0]
    if word.doubt is not None:
        options.unless.append(unknown_value("the model", word.doubt, word.place, "model", "the model"))
    else:
        tree = Mapping({key_at("model", word.place, word.place): word.text, **options.tree})
        tree.place = word.place
        options.tree = tree


def read_option_file(text: str, file: str, engine: str) -> Layer:
    """The facts of an option file, such as one that --config names."""
    tree = tree_of(text, file)
    if engine != TRT_LLM:
        between = Mapping({key_at(key.replace("_", "-"), key.place, key.at): value for key, value in tree.items()})
        between.place = tree.place
        tree = between
    return _defaults_give_way(_TABLES[engine][2](tree, file))
