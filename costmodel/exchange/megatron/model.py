"""The model that Megatron-LM options state, and the options that express a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from costmodel.documents.schemas.model import Attention, Experts, LatentAttention, Layers, Mlp, Model
from costmodel.exchange.import_result import Origin, OriginValue
from costmodel.exchange.megatron.options import OF_MODEL
from costmodel.exchange.megatron.stated_options import MegatronFlags
from costmodel.exchange.training.job import TrainingRemarks
from costmodel.exchange.values import layers_by_kind

_ROUNDED = 64  # what the width of a gated MLP is rounded down to where it is left out
_ROWS = 128  # what stacks of Megatron-LM pad the vocabulary to, times tp
_EXPANSION = 2  # inner width of a state-space mixer over the stream's, where its heads are left out
_PATTERN = re.compile(r"[-M*E+|]+(/[-M*E+]+)*")
_HALVES = {"M": "state space", "*": "attention", "+": "attention", "-": "mlp", "E": "experts"}


class LayerMark(NamedTuple):
    """The properties that distinguish layers: mixer and feed-forward half, and window."""

    halves: tuple[str, ...]
    windowed: bool = False


def model_of_options(flags: MegatronFlags) -> dict[str, Any]:
    """The model as nested mappings of values with origins; without a vocabulary if it is unknown."""
    marks = _hybrid_marks(flags) if _pattern(flags) else _layer_marks(flags)
    tree: dict[str, Any] = {}
    vocabulary = _vocabulary(flags)
    if vocabulary is not None:
        tree["vocab"] = vocabulary
    tree |= {
        "hidden": _required_option(flags, "hidden-size"),
        "positions": _position_kind(flags),
        "max_sequence": _required_option(flags, "max-position-embeddings"),
        "tied": flags["untie-embeddings-and-output-weights"],
        "norm": flags["normalization"],
    }
    count = _pattern(flags) or flags.first("num-layers", "encoder-num-layers")
    tree["layers"], losses = layers_by_kind(marks, lambda mark: _layer_entry(flags, mark), count.origin)
    flags.losses.extend(losses)
    depth = flags["mtp-num-layers"]
    if depth.value and marks:
        tree["prediction"] = {
            "depth": depth,
            "layer": {"count": flags.fixed(1, "one layer"), **_layer_entry(flags, marks[-1])},
        }
    return tree


def _required_option(flags: MegatronFlags, *names: str) -> OriginValue:
    """The value of an option that has no default."""
    value = flags.first(*names)
    if not value.value:
        flags.need_option(names)
        return value._replace(value=1)
    return value


def _single_option_values(flags: MegatronFlags, part: str) -> dict[str, OriginValue]:
    """The properties of a part of the layers that one option each states; without those left out, 0 or off."""
    rows = (row for row in OF_MODEL.values() if row.is_stated_alone and row.key.startswith(f"model.layers.{part}."))
    return {row.key.rpartition(".")[2]: flags[row.option] for row in rows if flags[row.option].value}


def _position_kind(flags: MegatronFlags) -> OriginValue:
    """The kind of position embedding, with faults for contradicting options."""
    kind = flags["position-embedding-type"]
    old = flags["use-rotary-position-embeddings"]
    without = flags["no-position-embedding"]  # beside rope, where it states nothing more
    if old.value:
        return old._replace(value="rotary")
    if without.value and kind.value != "rope":
        sentence = "--no-position-embedding goes with --position-embedding-type rope alone"
        flags.refuse("X005", sentence, without.place, "--position-embedding-type none means no positions")
    if kind.value == "relative":
        flags.refuse("X003", "--position-embedding-type relative: a table of distances", kind.place)
    if kind.value == "none":
        flags.lose("approximated", "a model without positions is written as a rotary one, at almost no cost")
    return kind._replace(value="learned" if kind.value == "learned_absolute" else "rotary")


# --- the vocabulary


def _vocabulary(flags: MegatronFlags) -> OriginValue | None:
    """The vocabulary size as released; padding beyond a multiple of 128 × tp is a loss."""
    padded = flags["padded-vocab-size"]
    if padded.value:
        return padded
    size = flags["vocab-size"]
    if not size.value:
        tokenizer = flags.statement.named("tokenizer-type")
        words = f"{tokenizer}, whose file is not here, states it" if tokenizer else "no option states it"
        flags.need(
            f"the vocabulary is not known: {words}", "--vocab 32000, for example, or write --vocab-size into the text"
        )
        return None
    multiple = flags.number("make-vocab-size-divisible-by", _ROWS) or _ROWS
    tp = flags.number("tensor-model-parallel-size", 1) or 1
    unpadded = flags.on("no-pad-vocab-size") or flags.on("disable-pad-vocab-size")
    rows = size.value if unpadded else _rounded_up(size.value, multiple * tp)
    ours = _rounded_up(size.value, _ROWS * tp)
    if rows != ours:
        tables = 1 if flags["untie-embeddings-and-output-weights"].value else 2
        sentence = f"the vocabulary is padded to {rows:,} rows, here to {ours:,}"
        name = "make-vocab-size-divisible-by"
        flags.lose("approximated", sentence, name, (rows - ours) * tables * flags.number("hidden-size"))
    return size


def _rounded_up(rows: int, multiple: int) -> int:
    return -(-rows // multiple) * multiple


# --- layers


def _layer_marks(flags: MegatronFlags) -> list[LayerMark]:
    """A mark for each layer of a model in which every layer has attention and an MLP or experts."""
    count = int(_required_option(flags, "num-layers", "encoder-num-layers").value)
    if count > 10_000:
        flags.refuse("X005", f"--num-layers {count:,} is more than 10,000", flags["num-layers"].place)
        count = 1
    sparse = (
        _layer_pattern(flags, "moe-layer-freq", count, every=True) if flags["num-experts"].value else [False] * count
    )
    windowed = _windowed_layers(flags, count)
    feeds = ("experts" if entry else "mlp" for entry in sparse)
    return [LayerMark(("attention", feed), window) for feed, window in zip(feeds, windowed, strict=True)]


def _windowed_layers(flags: MegatronFlags, count: int) -> list[bool]:
    if flags["window-size"].value is None:
        return [False] * count
    if flags["window-attn-skip-freq"].value is None:
        return [True] * count
    return _layer_pattern(flags, "window-attn-skip-freq", count, every=False)


def _layer_pattern(flags: MegatronFlags, name: str, count: int, every: bool) -> list[bool]:
    """A pattern of layers; a number n selects every nth layer, or all layers except every nth."""
    pattern = flags[name]
    if not isinstance(pattern.value, list):
        often = int(pattern.value or 1)
        if every:
            return [index % often == 0 for index in range(count)]
        return [(index + 1) % often != 0 for index in range(count)]
    if len(pattern.value) != count:
        sentence = f"--{name} has {len(pattern.value)} entries for {count} layers"
        flags.refuse("X005", sentence, pattern.place)
        return [bool(pattern.value[0])] * count
    return [bool(entry) for entry in pattern.value]


def _pattern(flags: MegatronFlags) -> OriginValue | None:
    """The value of --hybrid-layer-pattern, if the text has it."""
    value = flags.first("hybrid-layer-pattern", "hybrid-override-pattern")
    return value if value.value else None


def _hybrid_marks(flags: MegatronFlags) -> list[LayerMark]:
    """A mark for each letter of the hybrid pattern: a layer that is only a mixer or only a feed-forward half."""
    pattern = _pattern(flags)
    assert pattern is not None
    text = pattern.value
    if not _PATTERN.fullmatch(text) or len(text) > 10_000:
        sentence = f"--hybrid-layer-pattern {text[:80]} has layers other than M, *, +, - and E"
        flags.refuse("X003", sentence, pattern.place, "no document expresses these layers; nothing was written")
        return [LayerMark(("attention", "mlp"))]
    main, *depths = text.split("/")
    if depths or flags["mtp-num-layers"].value:
        flags.refuse("X003", "prediction modules of a hybrid model have several layers each", pattern.place)
    return [LayerMark((_HALVES[letter],)) for letter in main if letter != "|"]


def _layer_entry(flags: MegatronFlags, mark: LayerMark) -> dict[str, Any]:
    """The document of one layer from its halves: attention or a state space, MLP or experts."""
    layer: dict[str, Any] = {}
    if len(mark.halves) == 1:
        layer["norms"] = flags.fixed(1, "a norm in front of the only half")
    for half in mark.halves:
        if half == "attention":
            layer |= (
                _latent_entry(flags) if flags.on("multi-latent-attention") else _attention_entry(flags, mark.windowed)
            )
        elif half == "state space":
            layer["state_space"] = _state_space(flags)
        elif half == "mlp":
            layer["mlp"] = _mlp_entry(flags, _ffn_width(flags))
        else:
            layer["experts"] = _experts_entry(flags)
    return layer


def _attention_entry(flags: MegatronFlags, windowed: bool) -> dict[str, Any]:
    """The attention of a layer: heads, KV heads, head width, window."""
    heads = _required_option(flags, "num-attention-heads")
    hidden = flags.number("hidden-size", 1)
    width = flags["kv-channels"]
    if width.value is None:
        if hidden % heads.value and flags["hidden-size"].value:
            sentence = f"--num-attention-heads {heads.value} do not divide --hidden-size {hidden}"
            flags.refuse("X005", sentence, heads.place, "or --kv-channels sets the width of a head")
        names = ("hidden-size", "num-attention-heads")
        width = flags.derived(max(1, hidden // heads.value), "hidden size over heads", *names)
    groups = flags["num-query-groups"] if flags.on("group-query-attention") else None
    kv_heads = groups or flags.derived(heads.value, "as heads: no --group-query-attention", "num-attention-heads")
    if flags.given("num-query-groups") and groups is None:
        sentence = "--num-query-groups means nothing without --group-query-attention"
        flags.lose("ignored", sentence, "num-query-groups")
    entry = {"heads": heads, "kv_heads": kv_heads, "head_dim": width, **_attention_biases(flags)}
    entry |= _single_option_values(flags, "attention")
    if flags["softmax-type"].value == "learnable":
        entry["sinks"] = flags.derived(True, "--softmax-type learnable", "softmax-type")
    window = flags["window-size"]
    if windowed and window.value is not None and window.value[0] >= 0:
        entry["window"] = flags.derived(window.value[0] + 1, "tokens before, and the one itself", "window-size")
    return {"attention": entry}


def _has_biases(flags: MegatronFlags) -> OriginValue:
    """The flag for biases in all linear maps, on by default."""
    off = flags["disable-bias-linear"]
    return OriginValue(not off.value, off.origin)


def _attention_biases(flags: MegatronFlags) -> dict[str, OriginValue]:
    every = _has_biases(flags)
    if every.value:
        return {"biases": every, "output_bias": every}
    return {"biases": flags["add-qkv-bias"]} if flags.on("add-qkv-bias") else {}


def _latent_entry(flags: MegatronFlags) -> dict[str, Any]:
    """The latent attention (MLA) of a layer, with losses for what the document does not express."""
    if flags.on("group-query-attention"):
        sentence = "--group-query-attention and --multi-latent-attention exclude each other"
        flags.refuse("X005", sentence, flags["group-query-attention"].place)
    layers = flags.number("num-layers")
    if _has_biases(flags).value:
        sentence = "the output projection of latent attention has a bias, without --disable-bias-linear"
        flags.lose("not expressible", sentence, "multi-latent-attention", flags.number("hidden-size") * layers)
    if not flags.on("qk-layernorm"):
        sentence = "no norms on the compressed vectors, without --qk-layernorm: here they are counted"
        widths = flags.number("kv-lora-rank") + flags.number("q-lora-rank")
        flags.lose("approximated", sentence, "multi-latent-attention", -widths * layers)
    if flags.given("kv-channels"):
        flags.lose("ignored", "--kv-channels means nothing beside --multi-latent-attention", "kv-channels")
    return {
        "latent": {"heads": _required_option(flags, "num-attention-heads"), **_single_option_values(flags, "latent")}
    }


def _state_space(flags: MegatronFlags) -> dict[str, OriginValue]:
    """The Mamba-2 mixer of a layer."""
    width = flags["mamba-head-dim"]
    heads = flags["mamba-num-heads"]
    if not heads.value:
        found = _EXPANSION * flags.number("hidden-size", 1) // max(1, width.value or 1)
        heads = flags.derived(max(1, found), "twice the hidden size over the width of a head", "hidden-size")
    return {
        "heads": heads,
        **_single_option_values(flags, "state_space"),
        "conv": flags.fixed(4, "taps of the convolution in mamba_mixer.py"),
        "chunk": flags.fixed(128, "chunk size in mamba_mixer.py"),
    }


def _is_gated(flags: MegatronFlags) -> OriginValue:
    """Whether MLPs are gated; a fault if several activation functions are stated."""
    gates = [name for name in ("swiglu", "quick-geglu") if flags.on(name)]
    squared = flags.on("squared-relu")
    if len(gates) + squared > 1:
        sentence = "give at most one of --swiglu, --quick-geglu and --squared-relu"
        flags.refuse("X005", sentence, flags[gates[0]].place)
    name = gates[0] if gates else "squared-relu" if squared else "swiglu"
    return OriginValue(bool(gates), flags[name].origin)


def _ffn_width(flags: MegatronFlags) -> OriginValue:
    """The inner width of MLPs: as stated, else Megatron's default from the hidden width."""
    width = flags["ffn-hidden-size"]
    if width.value:
        return width
    hidden = flags.number("hidden-size", 1)
    if flags.on("swiglu"):
        gated_width = int((4 * hidden * 2 / 3) / _ROUNDED) * _ROUNDED
        return flags.derived(
            max(1, gated_width), "two thirds of 4 times the hidden size, down to a multiple of 64", "hidden-size"
        )
    return flags.derived(4 * hidden, "4 times the hidden size", "hidden-size")


def _mlp_entry(flags: MegatronFlags, width: OriginValue) -> dict[str, OriginValue]:
    entry = {"ffn_hidden": width, "gated": _is_gated(flags)}
    return entry | ({"biases": _has_biases(flags)} if _has_biases(flags).value else {})


def _experts_entry(flags: MegatronFlags) -> dict[str, Any]:
    """The experts of a layer, with a fault if their number is not stated."""
    width = flags["moe-ffn-hidden-size"]
    if not width.value:
        width = _ffn_width(flags)._replace(
            origin=Origin("derived", "as --ffn-hidden-size", flags["ffn-hidden-size"].place)
        )
    count, top = flags["num-experts"], flags["moe-router-topk"]
    if not count.value:
        flags.refuse("X002", "--num-experts is needed for layers of experts", count.place, "write it into the text")
        count = count._replace(value=top.value)
    entry: dict[str, Any] = {"count": count, "top_k": top, **_mlp_entry(flags, width)}
    if flags.on("moe-router-enable-expert-bias"):
        entry["router_bias"] = flags["moe-router-enable-expert-bias"]
    elif _has_biases(flags).value:
        entry["router_bias"] = _has_biases(flags)
    if flags["moe-shared-expert-intermediate-size"].value:
        entry["shared"] = _mlp_entry(flags, flags["moe-shared-expert-intermediate-size"])
    rest = {name: value for name, value in _single_option_values(flags, "experts").items() if name not in entry}
    grouped = "group_limit" in rest and "groups" in rest and rest["groups"].value > 1
    return entry | {name: value for name, value in rest.items() if grouped or not name.startswith("group")}


# --- the options of a model

_WRITTEN_POSITIONS = {"rotary": "rope", "learned": "learned_absolute"}

Part = TypeVar("Part")

CANNOT = {
    "model.position_rows": "as many as --max-position-embeddings",
    "model.embedding_norm": "no model of Megatron-LM has one",
    "model.layers.parallel": "no model of Megatron-LM has parallel halves",
    "model.layers.norms": "two in every layer",
    "model.layers.state_space": "hybrid models are not written",
    "model.layers.compressed": "attention of the kind of DeepSeek-V4 is not written",
    "model.layers.side_rank": "matrices beside attention are not written",
    "model.residual_streams": "several residual streams are not written",
    "model.stream_rule": "several residual streams are not written",
    "model.layers.experts.hashed": "Megatron-LM chooses experts by scores alone",
    "model.layers.linear": "hybrid models are not written",
    "model.layers.selective_scan": "Megatron-LM has no Mamba-1",
    "model.meta_tokens": "no model of Megatron-LM has learned tokens ahead of a sequence",
    "model.layers.attention.value_dim": "--kv-channels states one width for keys and values",
    "model.token_types": "pretrain_bert.py has options of its own",
    "model.head_transform": "pretrain_bert.py has options of its own",
    "model.head_bias": "no head of a language model of Megatron-LM has one",
    "model.vision": "pretrain_vlm.py has options of its own",
    "model.layers.attention.bidirectional": "causal language models alone are written",
    "model.layer_embedding": "tables of the layers are not written",
    "model.layers.attention.keys_as_values": "Megatron-LM projects values",
    "model.layers.attention.value_norm": "Megatron-LM normalises no values",
    "model.layers.attention.shared_kv": "Megatron-LM shares no keys between layers",
    "model.layers.experts.latent_dim": "experts of another width than the stream's are not written",
    "model.layers.latent.indexer": "sparse attention is not written",
    "model.layers.attention.qk_norm_whole": "--qk-layernorm normalises head by head",
}


def model_options(model: Model, remarks: TrainingRemarks) -> dict[str, Any]:
    """The model options that code writes; a fault for what no option can express."""
    _refuse_unwritable(model, remarks)
    attention = _common_part(
        (kind.attention for kind in model.layers), "model.layers.attention", remarks, without="window"
    )
    latent = _common_part((kind.latent for kind in model.layers), "model.layers.latent", remarks)
    mlp = _common_part((kind.mlp for kind in model.layers), "model.layers.mlp", remarks)
    experts = _common_part((kind.experts for kind in model.layers), "model.layers.experts", remarks)
    if attention is not None and latent is not None:
        remarks.refuse("model.layers.latent", "all layers have one kind of attention")
    if experts is not None:
        _router(experts, remarks)
    feed = mlp or experts
    found: dict[str, Any] = {
        "num-layers": sum(round(kind.count) for kind in model.layers),
        "position-embedding-type": _WRITTEN_POSITIONS.get(model.positions, "rope"),
        **({"swiglu": True} if feed is not None and feed.gated else {}),
        **dict.fromkeys(_written_biases(attention, mlp, experts, remarks), True),
        **(_written_attention(attention) if attention is not None else {}),
        **(_written_latent(latent) if latent is not None else {}),
        **_written_windows(model, remarks),
        **(_written_experts(experts, model) if experts is not None else {}),
    }
    return found | ({"mtp-num-layers": round(model.prediction.depth)} if model.prediction is not None else {})


def _refuse_unwritable(model: Model, remarks: TrainingRemarks) -> None:
    """Records a fault for each model property that no option can express."""
    kinds = model.layers
    for key, there in (
        ("model.position_rows", model.position_rows not in (None, model.max_sequence)),
        ("model.embedding_norm", model.embedding_norm),
        ("model.layers.parallel", any(kind.parallel for kind in kinds)),
        ("model.layers.norms", any(kind.norms != 2 for kind in kinds)),
        ("model.layers.state_space", any(kind.state_space is not None for kind in kinds)),
        ("model.layers.compressed", any(kind.compressed is not None for kind in kinds)),
        ("model.layers.side_rank", any(kind.side_rank for kind in kinds)),
        ("model.residual_streams", model.residual_streams is not None),
        ("model.layers.experts.hashed", any(kind.experts and kind.experts.hashed for kind in kinds)),
        ("model.layers.linear", any(kind.linear is not None for kind in kinds)),
        ("model.layers.selective_scan", any(kind.selective_scan is not None for kind in kinds)),
        ("model.meta_tokens", model.meta_tokens is not None),
        ("model.layer_embedding", model.layer_embedding is not None),
        ("model.vision", model.vision is not None),
        ("model.token_types", model.token_types is not None),
        ("model.head_transform", model.head_transform),
        ("model.head_bias", model.head_bias),
        *(
            (f"model.layers.attention.{key}", any(kind.attention and getattr(kind.attention, key) for kind in kinds))
            for key in ("keys_as_values", "value_norm", "value_dim", "shared_kv", "bidirectional")
        ),
        ("model.layers.experts.latent_dim", any(kind.experts and kind.experts.latent_dim for kind in kinds)),
        ("model.layers.latent.indexer", any(kind.latent is not None and kind.latent.indexer for kind in kinds)),
        (
            "model.layers.attention.qk_norm_whole",
            any(kind.attention is not None and kind.attention.qk_norm_whole for kind in kinds),
        ),
    ):
        if there:
            remarks.refuse(key, f"cannot be written: {CANNOT[key]}")
    if model.positions not in _WRITTEN_POSITIONS:
        remarks.refuse("model.positions", f"Megatron-LM has no {model.positions} positions")


def _common_part(parts: Iterable[Part | None], key: str, remarks: TrainingRemarks, *, without: str = "") -> Part | None:
    """The part that all layers have in common; a fault if it differs between layers."""
    found: list[Any] = [part for part in parts if part is not None]
    shapes = [{name: value for name, value in part.model_dump().items() if name != without} for part in found]
    if any(shape != shapes[0] for shape in shapes):
        remarks.refuse(key, "differs from layer to layer: one option states it for all")
    return found[0] if found else None


def _written_biases(
    attention: Attention | None, mlp: Mlp | None, experts: Experts | None, remarks: TrainingRemarks
) -> Iterator[str]:
    """The bias options: all linear maps, only queries, keys and values, or none."""
    inner = [part.biases for part in (mlp, experts) if part is not None]
    own = (attention.biases, attention.output_bias) if attention is not None else (False, False)
    if all((*own, *inner)) and attention is not None:
        return
    yield "disable-bias-linear"
    if own == (True, False):
        yield "add-qkv-bias"
    if any(inner) or own[1]:
        remarks.refuse("model.layers.attention.biases", "biases are on all linear maps, on q, k and v, or on none")


def _router(part: Experts, remarks: TrainingRemarks) -> None:
    """Checks the router: records a fault for missing router biases and a note on biases."""
    if part.biases and not part.router_bias:
        remarks.refuse("model.layers.experts.router_bias", "biases on all linear maps are on the router's too")
    if part.biases:
        remarks.note("no option of its own states the router's bias: it comes with those of all linear maps")


def _written_attention(part: Attention) -> dict[str, Any]:
    found: dict[str, Any] = {"num-attention-heads": round(part.heads)}
    if part.kv_heads != part.heads:
        found |= {"group-query-attention": True, "num-query-groups": round(part.kv_heads)}
    if part.sinks:
        found["softmax-type"] = "learnable"
    return found


def _written_latent(part: LatentAttention) -> dict[str, Any]:
    return {"multi-latent-attention": True, "num-attention-heads": round(part.heads), "qk-layernorm": True}


def _written_windows(model: Model, remarks: TrainingRemarks) -> dict[str, Any]:
    """Megatron options for sliding windows; a refusal if layers have different windows."""
    windows = [kind.attention.window if kind.attention is not None else None for kind in layers_in_order(model)]
    widths = {window for window in windows if window is not None}
    if len(widths) > 1:
        remarks.refuse("model.layers.attention.window", "one window serves all layers that have one")
    if not widths:
        return {}
    found: dict[str, Any] = {"window-size": f"{widths.pop() - 1:.0f},0"}
    if None in windows:
        found["window-attn-skip-freq"] = pattern([window is not None for window in windows])
    return found


def _written_experts(part: Experts, model: Model) -> dict[str, Any]:
    """Megatron options for routed and shared experts that no row states."""
    found: dict[str, Any] = {}
    sparse = [kind.experts is not None for kind in layers_in_order(model)]
    if not all(sparse):
        found["moe-layer-freq"] = pattern(sparse)
    if part.shared is not None:
        found["moe-shared-expert-intermediate-size"] = round(part.shared.ffn_hidden)
    if part.router_bias and not part.biases:  # with biases on all linear maps the router's linear map has one of them
        found |= {"moe-router-score-function": "sigmoid", "moe-router-enable-expert-bias": True}
    return found


def layers_in_order(model: Model) -> list[Layers]:
    """The layers in their order: leading layers first, all other kinds mixed evenly."""
    lead = [model.layers[0]] * round(model.layers[0].count) if model.layers[0].leading else []
    kinds = [kind for kind in model.layers if not kind.leading]
    counts = [round(kind.count) for kind in kinds]
    total, taken = sum(counts), [0] * len(kinds)
    mixed = []
    for index in range(total):
        behind = [count * (index + 1) / total - done for count, done in zip(counts, taken, strict=True)]
        chosen = max(range(len(kinds)), key=lambda kind: (behind[kind], -kind))
        taken[chosen] += 1
        mixed.append(kinds[chosen])
    return lead + mixed


def pattern(marks: Sequence[bool]) -> str:
    """A list of marks as the list expression that Megatron-LM reads.

    >>> pattern([False] * 3 + [True] * 5), pattern([True, False] * 4)
    ('[0]*3+[1]*5', '[1,0]*4')
    """
    bits = [int(mark) for mark in marks]
    for period in range(1, len(bits) // 2 + 1):
        if len(bits) % period == 0 and bits == bits[:period] * (len(bits) // period):
            return f"[{','.join(map(str, bits[:period]))}]*{len(bits) // period}"
    runs: list[list[int]] = []
    for bit in bits:
        if runs and runs[-1][0] == bit:
            runs[-1][1] += 1
        else:
            runs.append([bit, 1])
    return "+".join(f"[{bit}]*{often}" for bit, often in runs)
