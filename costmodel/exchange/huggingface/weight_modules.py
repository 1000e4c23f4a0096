"""The linear maps of a layer by the names that checkpoints give them, and patterns over such names.

Lists of modules that stay in 16 bits, and groups of modules with a type of their own, name them: in full, by a part of
the name, with wildcards, or by a regular expression behind 're:'.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from fnmatch import translate
from typing import Any, NamedTuple

from costmodel.exchange.huggingface.family import Half

_ROOTS = ("model.", "model.language_model.", "language_model.model.", "backbone.", "")
_MIXERS = ("self_attn", "linear_attn", "attn", "attention", "mixer", "mamba")
_FEEDS = ("mlp", "block_sparse_moe", "feed_forward", "mixer")
_INSIDE = re.compile(r".*?(?:^|\.)(?:layers|h|blocks)\.(?=[\d*])")  # what stands before the number of a layer
_MOST_REPEATS = 3  # in a regular expression, so that none takes long
_REPEAT = re.compile(r"(?<!\\)[*+{]")
_LONGEST = 300  # letters of a pattern
_NUMBER = re.compile(r"\d+(?=\.)")  # of a layer, at the head of a pattern
_MOST = 64  # patterns with wildcards of one layer, and of all of them; regular expressions


class WeightModule(NamedTuple):
    """A linear map of a layer: its names after the layer number, its parameters, and whether it is routed."""

    names: tuple[str, ...]
    parameters: float
    routed: bool = False


def modules_of(hidden: int, layer: Half) -> list[WeightModule]:
    """The linear maps of a layer, without the router."""
    found = list[WeightModule]()
    for kind, maps in _MAPS.items():
        if kind in layer:
            sizes = {key: value.value for key, value in layer[kind].items() if hasattr(value, "value")}
            found += [_weight_module(_MIXERS, leaves, size) for leaves, size in maps(float(hidden), sizes)]
    if "mlp" in layer:
        found += _feed_modules(_FEEDS, hidden, layer["mlp"], 1)
    if experts := layer.get("experts"):
        shared = tuple(f"{feed}.{name}" for feed in _FEEDS for name in ("shared_experts", "shared_expert"))
        routed = tuple(f"{feed}.experts{number}" for feed in _FEEDS for number in (".0", ""))
        found += _feed_modules(shared, hidden, experts["shared"], 1) if "shared" in experts else []
        inner = experts["latent_dim"].value if "latent_dim" in experts else hidden
        found += _feed_modules(routed, inner, experts, experts["count"].value, routed=True)
    return found


def _weight_module(parents: Sequence[str], leaves: str, parameters: float, *, routed: bool = False) -> WeightModule:
    names = tuple(f"{parent}.{leaf}" for parent, leaf in itertools.product(parents, leaves.split()))
    return WeightModule(names, parameters, routed)


def _feed_modules(
    parents: Sequence[str], hidden: float, half: Half, count: float, *, routed: bool = False
) -> list[WeightModule]:
    each = count * hidden * half["ffn_hidden"].value
    ahead = ["gate_proj gate_up_proj w1", "up_proj gate_up_proj w3"] if half["gated"].value else ["up_proj c_fc w1"]
    return [_weight_module(parents, leaves, each, routed=routed) for leaves in (*ahead, "down_proj c_proj w2")]


Maps = Iterator[tuple[str, float]]  # names of a map and its parameters


def _attention_maps(hidden: float, of: dict[str, Any]) -> Maps:
    queries, keys = of["heads"] * of["head_dim"], of["kv_heads"] * of["head_dim"]
    yield "q_proj qkv_proj query_key_value", hidden * queries * (2 if of.get("output_gate") else 1)
    yield "k_proj qkv_proj query_key_value", hidden * keys
    yield "v_proj qkv_proj query_key_value", hidden * keys
    yield "o_proj out_proj dense", hidden * queries


def _latent_maps(hidden: float, of: dict[str, Any]) -> Maps:
    """Checkpoint name and number of weights of each matrix in latent attention (MLA)."""
    heads, queries = of["heads"], of["heads"] * (of["nope_dim"] + of["rope_dim"])
    if rank := of.get("query_rank"):
        yield "q_a_proj fused_qkv_a_proj", hidden * rank
        yield "q_b_proj", rank * queries
    else:
        yield "q_proj", hidden * queries
    yield "kv_a_proj_with_mqa fused_qkv_a_proj", hidden * (of["kv_rank"] + of["rope_dim"])
    yield "kv_b_proj", of["kv_rank"] * heads * (of["nope_dim"] + of["value_dim"])
    yield "o_proj", hidden * heads * of["value_dim"]


def _compressed_maps(hidden: float, of: dict[str, Any]) -> Maps:
    """Checkpoint name and number of weights of each matrix in compressed attention."""
    queries = of["heads"] * of["head_dim"]
    yield "wq_a q_a_proj", hidden * of["query_rank"]
    yield "wq_b q_b_proj", of["query_rank"] * queries
    yield "wkv kv_proj", hidden * of["head_dim"]
    yield "wo_a", queries / of["output_groups"] * of["output_rank"] * of["output_groups"]
    yield "wo_b", hidden * of["output_rank"] * of["output_groups"]


def _linear_maps(hidden: float, of: dict[str, Any]) -> Maps:
    values = of["heads"] * of["value_dim"]
    keys = of.get("key_heads", of["heads"]) * of.get("key_dim", of["value_dim"])
    yield "in_proj_qkv in_proj_qkvz qkv_proj q_proj", hidden * (2 * keys + values)
    yield "in_proj_z in_proj_qkvz output_gate", hidden * values
    yield "out_proj o_proj", hidden * values


def _state_space(hidden: float, of: dict[str, Any]) -> Maps:
    inner = of["heads"] * of["head_dim"]
    yield "in_proj", hidden * (2 * inner + 2 * of["groups"] * of["state"] + of["heads"])
    yield "out_proj", hidden * inner


def _scan_maps(hidden: float, of: dict[str, Any]) -> Maps:
    yield "in_proj", 2 * hidden * of["inner"]
    yield "out_proj", hidden * of["inner"]


_MAPS: dict[str, Callable[[float, dict[str, Any]], Maps]] = {
    "attention": _attention_maps, "latent": _latent_maps, "compressed": _compressed_maps, "linear": _linear_maps,
    "state_space": _state_space, "selective_scan": _scan_maps,
}  # fmt: skip


class Patterns:
    """Patterns over module names; `unread` lists the patterns that could not be read."""

    def __init__(self, patterns: Sequence[object]) -> None:
        self.unread = list[str]()
        self._parts = set[str]()  # names, and parts of names
        self._globs = dict[str, list[str]]()  # by the number of the layer that they begin with, if any
        self._expressions = list[re.Pattern[str]]()
        for pattern in dict.fromkeys(map(str, patterns)):
            self._add(pattern)
        self._wild = {
            number: re.compile("|".join(f"{translate(glob)}|{translate(f'{glob}.*')}" for glob in globs))
            for number, globs in self._globs.items()
        }

    def _add(self, text: str) -> None:
        """Adds a pattern over module names: a regular expression, a wildcard or a plain name."""
        if text.startswith("re:"):
            compiled = _safe_pattern(text.removeprefix("re:"))
            if compiled is None or len(self._expressions) == _MOST:
                self.unread.append(text[:80])
            else:
                self._expressions.append(compiled)
        elif len(text) > _LONGEST:
            self.unread.append(text[:80])
        elif "*" in text:
            inner = _INSIDE.sub("", text)
            number = _NUMBER.match(inner)
            globs = self._globs.setdefault(number.group() if number else "", [])
            (globs if len(globs) < _MOST else self.unread).append(inner)
        else:
            self._parts.add(_INSIDE.sub("", text).strip("."))

    @property
    def name_numbers(self) -> bool:
        """Whether any pattern may distinguish layers."""
        texts = [*self._parts, *itertools.chain(*self._globs.values()), *(each.pattern for each in self._expressions)]
        return any(re.search(r"\d", text) for text in texts)

    def match(self, index: int, module: WeightModule) -> bool:
        """Whether a pattern matches a linear map in a given layer."""
        return any(self._matches(index, name) for name in module.names)

    def _matches(self, index: int, name: str) -> bool:
        """Whether any pattern matches the module `name` of layer `index`."""
        words = name.split(".")
        for begin, end in itertools.combinations(range(len(words) + 1), 2):
            part = ".".join(words[begin:end])
            if part in self._parts or (begin == 0 and f"{index}.{part}" in self._parts):
                return True
        if str(index) in self._parts:
            return True
        indexed_name = f"{index}.{name}"
        for wild in (self._wild.get(str(index)), self._wild.get("")):
            if wild is not None and any(wild.match(own) for own in (indexed_name, f"model.layers.{indexed_name}")):
                return True
        return any(
            each.match(f"{root}layers.{indexed_name}") is not None for each in self._expressions for root in _ROOTS
        )


def _safe_pattern(text: str) -> re.Pattern[str] | None:
    """A regular expression that is fast on any name; None if it has nested or many repetitions."""
    if len(text) > _LONGEST or len(_REPEAT.findall(text)) > _MOST_REPEATS or re.search(r"\)[*+{]|\(\?[^:]", text):
        return None
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return None


class TypedModules(NamedTuple):
    """Parameter counts of linear maps by weight type, with routed experts apart; None stands for 16 bits."""

    others: dict[str | None, float]
    routed: dict[str | None, float]


def typed_modules(
    marks: Sequence[Hashable],
    modules: Callable[[Any], list[WeightModule]],
    type_of: Callable[[int, WeightModule], str | None],
    *,
    alike: bool,
) -> TypedModules:
    """Parameter counts by weight type over all layers; equal layers of a kind are evaluated once."""
    found = TypedModules({}, {})
    counts = {mark: marks.count(mark) for mark in dict.fromkeys(marks)}
    built = {mark: modules(mark) for mark in counts}
    layers = [(index, mark, 1) for index, mark in enumerate(marks)]
    if alike:
        layers = [(marks.index(mark), mark, count) for mark, count in counts.items()]
    for index, mark, often in layers:
        for module in built[mark]:
            kinds = found.routed if module.routed else found.others
            kind = type_of(index, module)
            kinds[kind] = kinds.get(kind, 0.0) + often * module.parameters
    return found
