"""Models by their Hugging Face Hub names: the shipped model of the same shape, without reading the Hub."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel

from costmodel.documents.keys.suggestions import alike, holds
from costmodel.documents.reader.folders import SUFFIXES
from costmodel.documents.schemas.precision import STORED, STORED_EXPERTS, WeightType
from costmodel.ground.parsing import late_pattern

_ADDRESS = late_pattern(r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/|hf:(?://)?")
_NAME = late_pattern(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(?::[\w.-]+)?", re.ASCII)


class StoredWords(NamedTuple):
    """Words in a checkpoint name that state its weight type, and that type (None if costmodel has no such type).

    type: none where no type here matches them
    """

    words: str
    type: WeightType | None


# The first row of which a word stands in a name counts; words without a type here, and of formats alone, are the last.
STORED_WORDS = (
    StoredWords("unquantized bf16 fp16 f16", "bf16"),
    StoredWords("q[45]_1", None),
    StoredWords("nvfp4 fp4", "nvfp4"),
    StoredWords("mxfp4", "mxfp4"),
    StoredWords("q2(?:_\\w+)?", "q2_k"),
    StoredWords("q3_k_m", "q3_k_m"),
    StoredWords("q4_k_m", "q4_k_m"),
    StoredWords("q5_k_m", "q5_k_m"),
    StoredWords("q3(?:_\\w+)?", "q3_k"),
    StoredWords("q4(?:_\\w+)? iq4(?:_\\w+)?", "q4_k"),
    StoredWords("q5(?:_\\w+)?", "q5_k"),
    StoredWords("q6(?:_\\w+)?", "q6_k"),
    StoredWords("q8(?:_\\w+)?", "q8_0"),
    StoredWords("w4afp8", "int4-g128"),
    StoredWords("fp8[-_]block", "fp8-block"),
    StoredWords("fp8", "fp8"),
    StoredWords("w8a8 w8a16 int8 8bits?", "int8"),
    StoredWords("mlx-4bit 4bit-mlx nf4", "int4-g32"),
    StoredWords("awq gptq int4 w4a16 4bits? autoround", "int4-g128"),
    StoredWords("w4a4 [2356]bits? i?q1(?:_\\w+)? iq[23](?:_\\w+)?", None),
    StoredWords("gguf bnb quantized mlx ud ptq", None),
)
# What a name ends with that leaves the shape as it is: a release, how the weights are kept, and more about that.
_RELEASE = r"""
instruct chat base hf it pt text original deduped thinking think reasoning exp preview speciale terminus latest qat
sft paddle mixture dpo rl lora merged finetuned? ft abliterated v\d+(?:[._]\d+)? \d{4} \d{6} \d{8} \d\d-\d{4}
\d{4}-\d\d(?:-\d\d)? \d+k 1m
"""
_MORE = "128g block dynamic kv kv8 unsloth hybrid asym sym compressed tensors"
_KEPT = " ".join(row.words for row in STORED_WORDS)
_ENDING = late_pattern(rf"[-_.:](?:{'|'.join(f'{_RELEASE} {_KEPT} {_MORE}'.split())})\Z")
_AHEAD = late_pattern(r"(?:(?:meta|nvidia|c4ai)-|[a-z-]+_)(?=.)")
_OTHER_SHAPES = ("command-r-08-2024",)  # releases of another shape than the first one of that name
_CACHED = "models--"  # how the cache of the hub names the folder of a model
# What stands behind the name of a model: steps of its training, and pages of the hub.
_INSIDE = late_pattern(
    r"checkpoint-\d+|(?:global_)?step[-_]?\d+|iter_\d+|epoch[-_]?\d+|actor|huggingface|hf|final|latest|tree|main"
)
# Names on the hub, without their owner, that are not those of the documents.
_OTHERS = {
    "bloom": "bloom-176b",
    "bloom-7b1": "bloom-7.1b",
    "command-a-translate": "command-a",
    "deepseek-coder-v2": "deepseek-v2",
    "deepseek-prover-v2-671b": "deepseek-v3",
    "deepseek-r1": "deepseek-v3",
    "deepseek-r1-0528-qwen3-8b": "qwen-3-8b",
    "deepseek-r1-671b": "deepseek-v3",
    "deepseek-r1-distill-llama-70b": "llama-3.1-70b",
    "deepseek-r1-distill-llama-8b": "llama-3.1-8b",
    "deepseek-r1-distill-qwen-14b": "qwen-2.5-14b",
    "deepseek-r1-distill-qwen-32b": "qwen-2.5-32b",
    "deepseek-r1-distill-qwen-7b": "qwen-2.5-7b",
    "deepseek-r1-zero": "deepseek-v3",
    "deepseek-v2.5": "deepseek-v2",
    "deepseek-v3-671b": "deepseek-v3",
    "deepseek-v3.1": "deepseek-v3",
    "deepseek-v3.1-671b": "deepseek-v3",
    "devstral-small": "mistral-small-24b",
    "devstral-small-2-24b": "mistral-small-24b",
    "glm-4.6": "glm-4.5",
    "glm-4.7": "glm-4.5",
    "glm-5.1": "glm-5",
    "gpt-oss-safeguard-120b": "gpt-oss-120b",
    "gpt-oss-safeguard-20b": "gpt-oss-20b",
    "gpt2": "gpt-2-small",
    "granite-4.0-h-micro": "granite-4-h-micro",
    "granite-4.0-h-small": "granite-4-h-small",
    "granite-4.0-h-tiny": "granite-4-h-tiny",
    "granite-4.0-micro": "granite-4-micro",
    "hermes-3-llama-3.1-405b": "llama-3.1-405b",
    "hermes-3-llama-3.1-70b": "llama-3.1-70b",
    "hermes-3-llama-3.1-8b": "llama-3.1-8b",
    "hermes-4-14b": "qwen-3-14b",
    "hermes-4-405b": "llama-3.1-405b",
    "hermes-4-70b": "llama-3.1-70b",
    "kimi-k2.5": "kimi-k2",
    "kimi-k2.6": "kimi-k2",
    "llama-3.1-nemotron-70b": "llama-3.1-70b",
    "llama-3.1-nemotron-nano-8b": "llama-3.1-8b",
    "llama-3.1-tulu-3-70b": "llama-3.1-70b",
    "llama-3.1-tulu-3-8b": "llama-3.1-8b",
    "llama-3.3-70b": "llama-3.1-70b",
    "llama-3_3-nemotron-super-49b": "nemotron-super-49b",
    "llama-4-maverick-17b-128e": "llama-4-maverick",
    "llama-4-scout-17b-16e": "llama-4-scout",
    "magistral-small": "mistral-small-24b",
    "medgemma-27b": "gemma-3-27b",
    "minimax-m1": "minimax-text-01",
    "minimax-m2.1": "minimax-m2",
    "minimax-m2.5": "minimax-m2",
    "minimax-m2.7": "minimax-m2",
    "mistral-7b-instruct-v0.1": "mistral-7b-v0.1",
    "mistral-large": "mistral-large-2",
    "mistral-nemo": "mistral-nemo-12b",
    "mistral-small-3.1-24b": "mistral-small-24b",
    "mistral-small-3.2-24b": "mistral-small-24b",
    "olmo-2-0325-32b": "olmo-2-32b",
    "olmo-2-1124-13b": "olmo-2-13b",
    "olmo-2-1124-7b": "olmo-2-7b",
    "olmo-3-1025-7b": "olmo-3-7b",
    "olmo-3-1125-32b": "olmo-3-32b",
    "olmo-3.1-32b": "olmo-3-32b",
    "phi-4-reasoning-plus": "phi-4",
    "qwen2-0.5b": "qwen-2.5-0.5b",
    "qwen2-1.5b": "qwen-2.5-1.5b",
    "qwen2-72b": "qwen-2.5-72b",
    "qwen2-7b": "qwen-2.5-7b",
    "qwen2.5-coder-0.5b": "qwen-2.5-0.5b",
    "qwen2.5-coder-1.5b": "qwen-2.5-1.5b",
    "qwen2.5-coder-14b": "qwen-2.5-14b",
    "qwen2.5-coder-32b": "qwen-2.5-32b",
    "qwen2.5-coder-3b": "qwen-2.5-3b",
    "qwen2.5-coder-7b": "qwen-2.5-7b",
    "qwen2.5-math-1.5b": "qwen-2.5-1.5b",
    "qwen2.5-math-72b": "qwen-2.5-72b",
    "qwen2.5-math-7b": "qwen-2.5-7b",
    "qwen3-coder-30b-a3b": "qwen-3-30b-a3b",
    "qwen3-coder-next": "qwen-3-next-80b-a3b",
    "qwen3.6-27b": "qwen-3.5-27b",
    "qwen3.6-35b-a3b": "qwen-3.5-35b-a3b",
    "qwen3.8-27b": "qwen-3.5-27b",
    "qwq-32b": "qwen-2.5-32b",
}
_NEAR, _CUTOFF, _MOST_NEAR = 0.75, 0.5, 3


@functools.lru_cache(maxsize=4096)  # a table of runs compares each name with every model
def squeezed(name: str) -> str:
    """A name without the characters between its letters and digits."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


@functools.cache
def _others_by_letters() -> dict[str, str]:
    return {squeezed(name): shape for name, shape in _OTHERS.items()}


def is_hub_name(name: str) -> bool:
    """Whether a name has the form owner/name as on the hub, and is not a local path.

    >>> is_hub_name("meta-llama/Llama-3.1-8B"), is_hub_name("./mine.yaml"), is_hub_name("llama-3.1-8b")
    (True, False, False)
    """
    plain = _ADDRESS.sub("", name, count=1)
    if not _NAME.fullmatch(plain) or (plain == name and name.endswith(SUFFIXES)):
        return False
    return plain != name or not os.path.isdir(name.split("/")[0])


def last_part(name: str) -> str:
    """The checkpoint name at the end of a hub name or path.

    >>> last_part("/models/DeepSeek-V3-0324/"), last_part("hub/models--Qwen--Qwen3-8B/snapshots/895c")
    ('DeepSeek-V3-0324', 'Qwen3-8B')
    >>> last_part("/runs/Qwen3-8B-sft/checkpoint-1200")
    'Qwen3-8B-sft'
    """
    parts = [part for part in re.split(r"[/\\]", name) if part]
    cached = [part.rpartition("--")[2] for part in parts if part.startswith(_CACHED)]
    while len(parts) > 1 and _INSIDE.fullmatch(parts[-1].lower()):
        parts.pop()
    return (cached or parts or [""])[-1].removesuffix(".gguf")


def shape_of(name: str, known: Sequence[str]) -> str:
    """The shipped model with the shape of a named checkpoint, of any owner; empty if there is none.

    >>> shape_of("Qwen/Qwen2.5-7B-Instruct", ["qwen-2.5-7b"]), shape_of("Qwen/Qwen2.5-Omni-7B", ["qwen-2.5-7b"])
    ('qwen-2.5-7b', '')
    >>> shape_of("RedHatAI/Qwen3-30B-A3B-Instruct-2507-FP8-dynamic", ["qwen-3-30b-a3b"])
    'qwen-3-30b-a3b'
    """
    last = last_part(name).lower()
    by_letters = {squeezed(model): model for model in known}
    for begin in dict.fromkeys((last, _AHEAD.sub("", last, count=1))):
        for word in _shortened_names(begin):
            if word in _OTHER_SHAPES:
                return ""
            if (other := _others_by_letters().get(squeezed(word))) in known:
                return str(other)
            if squeezed(word) in by_letters:
                return by_letters[squeezed(word)]
    return ""


def is_own_name(name: str, shape: str) -> bool:
    """Whether a hub name, or a bare one, is exactly the name of the shape, without a variant.

    >>> is_own_name("Qwen/Qwen3-8B", "qwen-3-8b"), is_own_name("Qwen/Qwen3-8B-Base", "qwen-3-8b")
    (True, False)
    """
    is_name = is_hub_name(name) or last_part(name) == name
    return is_name and squeezed(last_part(name)).removeprefix("meta") == squeezed(shape)


def is_other_name(name: str, shape: str) -> bool:
    """Whether a bare name is of another model of the same shape, and states no type of its weights.

    >>> is_other_name("llama-3.3-70b", "llama-3.1-70b"), is_other_name("llama-3.1-70b-fp8", "llama-3.1-70b")
    (True, False)
    """
    return not is_own_name(name, shape) and name_words(name, shape) == f"the shape of {name}"


def _shortened_names(name: str) -> Iterator[str]:
    """The name, and the name with one more ending removed each time."""
    before = ""
    while name != before:
        yield name
        before, name = name, _ENDING.sub("", name)


def nearest_shapes(name: str, known: Sequence[str]) -> list[str]:
    """The shipped model that a name stands for, or up to three with similar names."""
    if shape := shape_of(name, known):
        return [shape]
    last = ["", *_shortened_names(last_part(name).lower())][-1]
    if any(holds(model, last) for model in known):
        return alike(last, known, _MOST_NEAR, _CUTOFF)
    by_letters = {squeezed(model): model for model in known}
    return [by_letters[found] for found in alike(squeezed(last), by_letters, _MOST_NEAR, _NEAR)]


# The types that a checkpoint keeps its weights in, as its name on the hub or its path states them.

_ROWS = tuple(
    (late_pattern(rf"(?:^|[-_.:])({'|'.join(row.words.split())})(?=$|[-_.:])"), row.type) for row in STORED_WORDS
)
_SCALED = late_pattern(r"\Anvidia/.*|.*-kv\Z")  # of checkpoints with scales for the cache
_OF_ATTENTION = 126 * 2 * 16384 * (16384 + 1024)  # parameters of Llama 3.1 405B
_KIMI = {"stored": "bf16", "stored_experts": "int4-g32"}
_LLAMA_405B = {"stored": "fp8", "stored_wide": _OF_ATTENTION + 2 * 3 * 16384 * 53248}
# Checkpoints whose own files state more than their names, in small letters; of a path, the last part counts.
_PUBLISHED: dict[str, dict[str, Any]] = {
    "moonshotai/kimi-k2-thinking": _KIMI,
    "moonshotai/kimi-k2.5": _KIMI,
    "moonshotai/kimi-k2.6": _KIMI,
    # attention, and the first and last MLP, stay in 16 bits
    "meta-llama/llama-3.1-405b-fp8": _LLAMA_405B,
    "meta-llama/llama-3.1-405b-instruct-fp8": _LLAMA_405B,
    "meta-llama/llama-4-maverick-17b-128e-instruct-fp8": {"stored": "bf16", "stored_experts": "fp8"},
    **{f"mistralai/ministral-3-{size}-instruct-2512": {"stored": "fp8"} for size in ("3b", "8b", "14b")},
    "mistralai/devstral-small-2-24b-instruct-2512": {"stored": "fp8"},
}


def types_by_name(name: str, shape: str) -> Mapping[str, Any]:
    """The document keys for stored weight types that the name of a checkpoint implies.

    >>> types_by_name("RedHatAI/Llama-3.1-8B-Instruct-FP8-dynamic", "llama-3.1-8b"), types_by_name("qwen-3-8b", "")
    ({'stored': 'fp8'}, {})
    >>> types_by_name("/models/Kimi-K2.5", "kimi-k2")
    {'stored': 'bf16', 'stored_experts': 'int4-g32'}
    """
    last = last_part(name).lower()
    plain = re.sub(r"\A(.*/)?meta-(?=llama)", r"\1", name.lower())
    published = _PUBLISHED.get(plain) if is_hub_name(name) else None
    if published is None and not is_hub_name(name):
        published = next((keys for own, keys in _PUBLISHED.items() if last_part(own) == last), None)
    if published is not None:
        return published
    kind, _ = _weight_type_in_name(name)
    if kind is None:
        return {}
    if kind == "bf16":
        narrow = {"stored": STORED.get(shape), "stored_experts": STORED_EXPERTS.get(shape)}
        return {key: kind for key, held in narrow.items() if held}
    types = {"stored": kind} | ({"stored_experts": kind} if shape in STORED_EXPERTS else {})
    scaled = kind in ("fp8", "nvfp4") and _SCALED.match(name.lower())
    return types | ({"stored_cache": "fp8"} if scaled else {})


def _weight_type_in_name(name: str) -> tuple[WeightType | None, str]:
    """The weight type in a checkpoint name, and the matched word; empty if the name states none."""
    last = last_part(name).lower() + ".gguf" * name.lower().endswith(".gguf")
    found = ((kind, pattern.search(last)) for pattern, kind in _ROWS)
    return next(((kind, match.group(1)) for kind, match in found if match is not None), (None, ""))


def name_words(name: str, shape: str) -> str:
    """A sentence on how costmodel interprets the name of a checkpoint.

    >>> name_words("/models/Qwen3-8B-AWQ", "qwen-3-8b")
    'the shape of Qwen3-8B-AWQ, by the last part of the path; weights in int4-g128, by its name'
    """
    path = f"{last_part(name)}, by the last part of the path" if re.search(r"[/\\]", name) else name
    of = f"{name} on the hub" if is_hub_name(name) else path
    types = types_by_name(name, shape)
    kinds = [types[key] + (" of experts" if key == "stored_experts" else "") for key in types if key in _NAMED]
    if kinds:
        most = "most " * any(kind.endswith("_k") for kind in kinds)  # GGUF keeps some maps in wider types
        return f"the shape of {of}; {most}weights in {' and '.join(kinds)}, by its name"
    kind, word = _weight_type_in_name(name)
    if kind is not None or not word:
        return f"the shape of {of}"
    kept = STORED.get(shape) or STORED_EXPERTS.get(shape)
    counted = f"counted as the published checkpoint, in {kept}" if kept else "counted in 16 bits"
    return f"the shape of {of}; no type here matches {word.upper()}: {counted}; workload.weights states another"


_NAMED = ("stored", "stored_experts")


# Parts of documents that are made from checked values, without checking them again.

M = TypeVar("M", bound=BaseModel)


def filled(schema: type[M], /, **values: Any) -> M:
    """A schema object with these values and defaults for the other fields, without validation.

    Faster than `model_construct`, which inspects every default's factory each time; here the defaults of a schema are
    made once and shared, since documents are never changed in place.
    """
    plain: M = _with_defaults(schema)
    return plain.model_copy(update=values)


@functools.cache
def _with_defaults(schema: type[BaseModel]) -> Any:
    return schema.model_construct(_fields_set=set())
