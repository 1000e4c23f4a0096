"""The options of Megatron-LM that state a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from costmodel.documents.schemas.feed_forward import Experts, Mlp
from costmodel.documents.schemas.mixers import Attention, LatentAttention
from costmodel.documents.schemas.model import Layers, Model
from costmodel.exchange.exporters.job import TrainingRemarks

_POSITIONS = {"rotary": "rope", "learned": "learned_absolute"}
_NORMS = {"rmsnorm": "RMSNorm", "layernorm": "LayerNorm"}

Part = TypeVar("Part")

SAYS = {
    "model.vocab": "--vocab-size",
    "model.hidden": "--hidden-size",
    "model.positions": "--position-embedding-type",
    "model.max_sequence": "--max-position-embeddings",
    "model.tied": "--untie-embeddings-and-output-weights",
    "model.norm": "--normalization",
    "model.layers": "--num-layers, --moe-layer-freq, --window-attn-skip-freq",
    "model.layers.count": "--num-layers",
    "model.layers.leading": "--moe-layer-freq",
    "model.layers.attention": "--num-attention-heads, --num-query-groups, --kv-channels, --qk-layernorm, --window-size",
    "model.layers.latent": "--multi-latent-attention, --q-lora-rank, --kv-lora-rank",
    "model.layers.mlp": "--ffn-hidden-size, --swiglu, --disable-bias-linear",
    "model.layers.experts": "--num-experts, --moe-router-topk, --moe-ffn-hidden-size, --moe-router-score-function",
    "model.prediction": "--mtp-num-layers",
}
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
    "model.layers.attention.output_gate": "a gate on attention is not written",
    "model.layers.attention.qk_norm_whole": "--qk-layernorm normalises head by head",
}


def model_options(model: Model, remarks: TrainingRemarks) -> list[str]:
    """Options that state the model; what they cannot express is refused."""
    _check(model, remarks)
    attention = _one((kind.attention for kind in model.layers), "model.layers.attention", remarks, without="window")
    latent = _one((kind.latent for kind in model.layers), "model.layers.latent", remarks)
    mlp = _one((kind.mlp for kind in model.layers), "model.layers.mlp", remarks)
    experts = _one((kind.experts for kind in model.layers), "model.layers.experts", remarks)
    if attention is not None and latent is not None:
        remarks.refuse("model.layers.latent", "all layers have one kind of attention")
    if experts is not None:
        _router(experts, remarks)
    feed = mlp or experts
    found = [
        f"--num-layers {sum(round(kind.count) for kind in model.layers)}",
        f"--hidden-size {model.hidden:.0f}",
        f"--max-position-embeddings {model.max_sequence:.0f}",
        f"--position-embedding-type {_POSITIONS.get(model.positions, 'rope')}",
        f"--normalization {_NORMS.get(model.norm, 'LayerNorm')}",
        f"--vocab-size {model.vocab:.0f}",
        *([] if model.tied else ["--untie-embeddings-and-output-weights"]),
        *(["--swiglu"] if feed is not None and feed.gated else []),
        *_biases(attention, mlp, experts, remarks),
        *(_attention(attention) if attention is not None else []),
        *(_latent(latent) if latent is not None else []),
        *_windows(model, remarks),
        *([f"--ffn-hidden-size {mlp.ffn_hidden:.0f}"] if mlp is not None else []),
        *(_experts(experts, model) if experts is not None else []),
    ]
    return found + ([f"--mtp-num-layers {model.prediction.depth:.0f}"] if model.prediction is not None else [])


def _check(model: Model, remarks: TrainingRemarks) -> None:
    """Refuses what no option can express."""
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
        ("model.layers.attention.output_gate", any(kind.attention and kind.attention.output_gate for kind in kinds)),
        (
            "model.layers.attention.qk_norm_whole",
            any(kind.attention is not None and kind.attention.qk_norm_whole for kind in kinds),
        ),
    ):
        if there:
            remarks.refuse(key, f"cannot be written: {CANNOT[key]}")
    if model.positions not in _POSITIONS:
        remarks.refuse("model.positions", f"Megatron-LM has no {model.positions} positions")
    if model.norm not in _NORMS:
        remarks.refuse("model.norm", f"Megatron-LM has no {model.norm}")


def _one(parts: Iterable[Part | None], key: str, remarks: TrainingRemarks, *, without: str = "") -> Part | None:
    """The one part that all layers with such a part have."""
    found: list[Any] = [part for part in parts if part is not None]
    shapes = [{name: value for name, value in part.model_dump().items() if name != without} for part in found]
    if any(shape != shapes[0] for shape in shapes):
        remarks.refuse(key, "differs from layer to layer: one option states it for all")
    return found[0] if found else None


def _biases(
    attention: Attention | None, mlp: Mlp | None, experts: Experts | None, remarks: TrainingRemarks
) -> Iterator[str]:
    """Biases everywhere, on queries, keys and values alone, or nowhere."""
    inner = [part.biases for part in (mlp, experts) if part is not None]
    own = (attention.biases, attention.output_bias) if attention is not None else (False, False)
    if all((*own, *inner)) and attention is not None:
        return
    yield "--disable-bias-linear"
    if own == (True, False):
        yield "--add-qkv-bias"
    if any(inner) or own[1]:
        remarks.refuse("model.layers.attention.biases", "biases are on all linear maps, on q, k and v, or on none")


def _router(part: Experts, remarks: TrainingRemarks) -> None:
    """What the options leave open of a router, and a bias that it cannot be without."""
    if part.biases and not part.router_bias:
        remarks.refuse("model.layers.experts.router_bias", "biases on all linear maps are on the router's too")
    if part.biases:
        remarks.note("no option of its own states the router's bias: it comes with those of all linear maps")


def _attention(part: Attention) -> Iterator[str]:
    yield f"--num-attention-heads {part.heads:.0f}"
    if part.kv_heads != part.heads:
        yield "--group-query-attention"
        yield f"--num-query-groups {part.kv_heads:.0f}"
    yield f"--kv-channels {part.head_dim:.0f}"
    if part.qk_norm:
        yield "--qk-layernorm"
    if part.sinks:
        yield "--softmax-type learnable"


def _latent(part: LatentAttention) -> Iterator[str]:
    yield "--multi-latent-attention"
    yield f"--num-attention-heads {part.heads:.0f}"
    yield "--qk-layernorm"
    if part.query_rank is not None:
        yield f"--q-lora-rank {part.query_rank:.0f}"
    yield f"--kv-lora-rank {part.kv_rank:.0f}"
    yield f"--qk-head-dim {part.nope_dim:.0f}"
    yield f"--qk-pos-emb-head-dim {part.rope_dim:.0f}"
    yield f"--v-head-dim {part.value_dim:.0f}"


def _windows(model: Model, remarks: TrainingRemarks) -> Iterator[str]:
    windows = [kind.attention.window if kind.attention is not None else None for kind in layers_in_order(model)]
    widths = {window for window in windows if window is not None}
    if len(widths) > 1:
        remarks.refuse("model.layers.attention.window", "one window serves all layers that have one")
    if widths:
        yield f"--window-size {widths.pop() - 1:.0f},0"
        if None in windows:
            yield f"--window-attn-skip-freq {pattern([window is not None for window in windows])}"


def _experts(part: Experts, model: Model) -> Iterator[str]:
    yield f"--num-experts {part.count:.0f}"
    yield f"--moe-router-topk {part.top_k:.0f}"
    yield f"--moe-ffn-hidden-size {part.ffn_hidden:.0f}"
    sparse = [kind.experts is not None for kind in layers_in_order(model)]
    if not all(sparse):
        yield f"--moe-layer-freq {pattern(sparse)}"
    if part.shared is not None:
        yield f"--moe-shared-expert-intermediate-size {part.shared.ffn_hidden:.0f}"
    if part.shared_gate:
        yield "--moe-shared-expert-gate"
    if part.router_bias and not part.biases:  # with biases on all linear maps the router's linear map has one of them
        yield "--moe-router-score-function sigmoid"
        yield "--moe-router-enable-expert-bias"
    if part.groups is not None and part.group_limit is not None:
        yield f"--moe-router-num-groups {part.groups:.0f}"
        yield f"--moe-router-group-topk {part.group_limit:.0f}"


def layers_in_order(model: Model) -> list[Layers]:
    """One entry for each layer: leading ones first, all other kinds mixed evenly, as a model document means it."""
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
    """Marks as the list expression that Megatron-LM reads.

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
