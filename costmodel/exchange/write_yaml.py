"""Writes a document as YAML, with a comment behind every value that gives its origin."""

from __future__ import annotations

import io
import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from costmodel.documents.keys.overrides import Assignment, path_of
from costmodel.documents.keys.paths import REFERENCES, place_at
from costmodel.documents.reader.find_documents import find, is_path, said_first
from costmodel.documents.reader.hub_names import is_own_name, shape_of
from costmodel.documents.reader.library import names, read
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.model import Model
from costmodel.documents.text.files import file_text
from costmodel.documents.text.yaml_tree import parse
from costmodel.ground.errors import COMMAND_LINE, CostModelError

_COLUMN = 32  # where comments begin behind short values
_UNWRAPPED = 10_000  # no value is wrapped; comments would end up between its lines
_HUB = "https://huggingface.co/"
_WIDTH = 80  # of a line with its comment, which else stands above it


def document_text(tree: Mapping[str, Any], comments: Mapping[str, str], head: Iterable[str] = ()) -> str:
    """The YAML of a document, with comment lines at its start and a comment for each path in `comments`:
    after the value or, where the line would be too wide, above it.

    >>> print(document_text({"plan": {"tp": 8, "offload": ["optimizer"]}}, {"plan.tp": "train.sh:3"}), end="")
    plan:
      tp: 8                         # train.sh:3
      offload: [optimizer]
    """
    yaml = YAML()
    yaml.width = _UNWRAPPED
    yaml.indent(mapping=2, sequence=4, offset=2)
    stream = io.StringIO()
    yaml.dump(_mapping(tree, "", comments), stream)
    known = sorted({f" # {_one_line(words)}" for words in comments.values() if words}, key=len, reverse=True)
    lines = [each for line in stream.getvalue().splitlines() for each in _narrow(line, known)]
    text = "".join(f"{line}\n" for words in head for line in _comment(words, "")) + "".join(
        f"{line}\n" for line in lines
    )
    assert parse(text, "") == tree, "the text and the document differ"
    return text


def _mapping(tree: Mapping[str, Any], path: str, comments: Mapping[str, str]) -> CommentedMap:
    """The YAML mapping of a tree, with comments behind its values."""
    built = CommentedMap()
    for name, value in tree.items():
        inner = f"{path}.{name}" if path else str(name)
        built[str(name)] = _node(value, inner, comments)
        if comments.get(inner) and not _is_block(value):
            built.yaml_add_eol_comment(_one_line(comments[inner]), str(name), column=_COLUMN)
    return built


def _node(value: Any, path: str, comments: Mapping[str, str]) -> Any:
    """The YAML node of a value: a mapping, a list or a scalar."""
    if isinstance(value, Mapping):
        return _mapping(value, path, comments)
    if isinstance(value, list):
        items = CommentedSeq(_node(item, f"{path}.{index}", comments) for index, item in enumerate(value))
        if not _is_block(value):
            items.fa.set_flow_style()
        return items
    if isinstance(value, str) and value.startswith(("?", ":")):  # ruamel.yaml writes it bare in a list, as a key
        return DoubleQuotedScalarString(value)
    kind = next((kind for kind in (bool, int, float, str) if isinstance(value, kind)), None)
    return value if kind is None else kind(value)


def _is_block(value: Any) -> bool:
    """Whether YAML writes a value on separate lines below its key."""
    return isinstance(value, Mapping) or (isinstance(value, list) and any(isinstance(item, Mapping) for item in value))


def _narrow(line: str, comments: Iterable[str]) -> Iterator[str]:
    """A line; if it is too wide, its comment is moved above it."""
    comment = next((each for each in comments if line.endswith(each)), "") if len(line) > _WIDTH else ""
    if comment:
        line = line.removesuffix(comment).rstrip()
        yield from _comment(comment.removeprefix(" # "), line[: len(line) - len(line.lstrip())])
    yield line


def _comment(words: str, indent: str) -> list[str]:
    begins = f"{indent}# "
    return textwrap.wrap(
        _one_line(words), _WIDTH, initial_indent=begins, subsequent_indent=begins, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


# The model of the library that has the same shape as another model.

_BESIDE = {
    *("schema_", "name", "title", "source", "sources", "check", "note", "published"),
    *("stored", "stored_experts", "stored_wide", "stored_cache"),  # of a checkpoint, not the shape
}


def library_twin(model: Model) -> str:
    """The name of a library model of the same shape, preferably with the same longest sequence; else empty."""
    alike = {name: read("model", name).max_sequence for name in library_twins(model)}
    return next((name for name, longest in alike.items() if longest == model.max_sequence), next(iter(alike), ""))


def library_twins(model: Model) -> tuple[str, ...]:
    """The names of all library models of the same shape, whatever their longest sequence."""
    return tuple(_models_of_shape(model))


def _models_of_shape(model: Model) -> Iterator[str]:
    """Names of the model documents with the same shape as a model."""
    for name in names("model"):
        try:
            text = file_text(str(find("model", name)))
            widths = said_first(text, "hidden"), said_first(text, "vocab")
            if _sizes_in_order(widths) == (model.hidden, model.vocab) and model_shape(
                read("model", name)
            ) == model_shape(model):
                yield name
        except CostModelError:  # a broken document of the working folder is no twin
            continue


def _sizes_in_order(written: tuple[str, str]) -> tuple[float, ...]:
    heads = (text.split("#")[0].strip().replace("_", "") for text in written)
    return tuple(float(text) for text in heads if text.isdigit())


def model_shape(model: Model) -> dict[str, Any]:
    """The properties of a model that affect cost; without names, sources and the order of layer kinds."""
    found = model.model_dump(exclude=_BESIDE if model.positions == "learned" else {*_BESIDE, "max_sequence"})
    found["layers"] = sorted(map(repr, found["layers"]))
    return found


# Checkpoints of models whose documents name none, or another one than is usually run; and of names that are no model's.
CHECKPOINTS = {
    "deepseek-r1": "deepseek-ai/DeepSeek-R1",
    "deepseek-v2": "deepseek-ai/DeepSeek-V2",
    "deepseek-v3": "deepseek-ai/DeepSeek-V3",
    "gemma-2-27b": "google/gemma-2-27b-it",
    "gemma-2-9b": "google/gemma-2-9b-it",
    "gemma-3-12b": "google/gemma-3-12b-it",
    "gemma-3-27b": "google/gemma-3-27b-it",
    "gemma-3-4b": "google/gemma-3-4b-it",
    "gpt-oss-120b": "openai/gpt-oss-120b",
    "gpt-oss-20b": "openai/gpt-oss-20b",
    "kimi-k2": "moonshotai/Kimi-K2-Instruct",
    "llama-2-13b": "meta-llama/Llama-2-13b-hf",
    "llama-2-70b": "meta-llama/Llama-2-70b-hf",
    "llama-2-7b": "meta-llama/Llama-2-7b-hf",
    "llama-3-8b": "meta-llama/Meta-Llama-3-8B",
    "llama-3.1-405b": "meta-llama/Llama-3.1-405B-Instruct",
    "llama-3.1-70b": "meta-llama/Llama-3.1-70B-Instruct",
    "llama-3.1-8b": "meta-llama/Llama-3.1-8B-Instruct",
    "llama-3.2-1b": "meta-llama/Llama-3.2-1B-Instruct",
    "llama-3.2-3b": "meta-llama/Llama-3.2-3B-Instruct",
    "llama-3.3-70b": "meta-llama/Llama-3.3-70B-Instruct",
    "llama-4-maverick": "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
    "llama-4-scout": "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "mistral-7b": "mistralai/Mistral-7B-Instruct-v0.3",
    "mistral-7b-v0.1": "mistralai/Mistral-7B-Instruct-v0.1",
    "mixtral-8x7b": "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "nemotron-h-56b": "nvidia/Nemotron-H-56B-Base-8K",
    "nemotron-h-8b": "nvidia/Nemotron-H-8B-Base-8K",
    "qwen-2.5-0.5b": "Qwen/Qwen2.5-0.5B-Instruct",
    "qwen-2.5-1.5b": "Qwen/Qwen2.5-1.5B-Instruct",
    "qwen-2.5-14b": "Qwen/Qwen2.5-14B-Instruct",
    "qwen-2.5-32b": "Qwen/Qwen2.5-32B-Instruct",
    "qwen-2.5-3b": "Qwen/Qwen2.5-3B-Instruct",
    "qwen-2.5-72b": "Qwen/Qwen2.5-72B-Instruct",
    "qwen-2.5-7b": "Qwen/Qwen2.5-7B-Instruct",
    "qwen-3-0.6b": "Qwen/Qwen3-0.6B",
    "qwen-3-1.7b": "Qwen/Qwen3-1.7B",
    "qwen-3-14b": "Qwen/Qwen3-14B",
    "qwen-3-32b": "Qwen/Qwen3-32B",
    "qwen-3-4b": "Qwen/Qwen3-4B",
    "qwen-3-8b": "Qwen/Qwen3-8B",
}


def checkpoint_name(shipped: str, named: Sequence[str]) -> str:
    """The checkpoint of a model: the scenario's name on the hub, else the published one; may be empty.

    >>> checkpoint_name("qwen-3-8b", []), checkpoint_name("qwen-3-8b", ["me/Qwen3-8B-FP8"]), checkpoint_name("own", [])
    ('Qwen/Qwen3-8B', 'me/Qwen3-8B-FP8', '')
    >>> checkpoint_name("phi-4", []), checkpoint_name("llama-3.1-70b", ["llama-3.3-70b"])
    ('microsoft/phi-4', 'meta-llama/Llama-3.3-70B-Instruct')
    """
    stated = named[0] if named else shipped
    if "/" in stated:
        return stated
    own = shipped if is_own_name(stated, shipped) else stated
    return CHECKPOINTS.get(own, "") or _checkpoint_of_sources(own)


def _checkpoint_of_sources(name: str) -> str:
    """The checkpoint of this shape that the document of a shipped model has as a source; empty without one."""
    if name not in names("model"):
        return ""
    links = (source.url or "" for source in read("model", name).sources.values())
    found = (link.removeprefix(_HUB) for link in links if link.startswith(_HUB))
    return next((each for each in found if shape_of(each, [name])), "")


# The scenario of a case as YAML, with the flag or default behind every value that is from one.

_FIRST = ("schema", "title", "model", "cluster", "workload", "stack", "plan")


def scenario_text(case: LoadedScenario, path: Path, title: str) -> str:
    """The scenario as YAML for a file at `path`; paths of documents are made relative to its folder."""
    tree = {key: case.tree[key] for key in dict.fromkeys((*_FIRST, *case.tree)) if key in case.tree}
    tree["title"] = title
    for name, reference in REFERENCES.items():
        _make_relative(tree, name.split("."), case, path, reference.kind)
    return document_text(tree, dict(_origin_comments(case)), ["Written by costmodel: --write"])


def _make_relative(tree: dict[str, Any], parts: list[str], case: LoadedScenario, path: Path, kind: str) -> None:
    """Rewrites a document path so that it is relative to the folder of the new file."""
    here, above = tree, list[str]()
    for part in parts[:-1]:
        inner = here.get(part)
        if not isinstance(inner, dict):
            return
        here[part] = dict(inner)  # the case keeps its own
        here, above = here[part], [*above, part]
    named = here.get(parts[-1])
    if isinstance(named, str) and is_path(named) and kind:
        place = place_at(case.tree, ".".join((*above, parts[-1])))
        begins = Path(place.file).parent if place is not None and place.line else Path()
        moved = os.path.relpath(begins / named, path.parent)
        here[parts[-1]] = moved if os.sep in moved else f".{os.sep}{moved}"


def _origin_comments(case: LoadedScenario) -> Iterator[tuple[str, str]]:
    """The comment for each path: the option that set it, or the reason for its default."""
    for change in case.changes:
        if isinstance(change, Assignment):
            yield change.path, change.place.text
        else:
            yield path_of(change), f"--set {change}"
    for item in case.asked.assumed:
        yield item.path, item.origin
    plan = next((item.origin for item in case.asked.assumed if item.path == "plan"), "")
    for key in case.tree.get("plan") or () if plan else ():
        place = place_at(case.tree, f"plan.{key}")
        if place is not None and place.file == COMMAND_LINE:
            yield f"plan.{key}", plan
