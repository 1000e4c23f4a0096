"""Parameter counts: of published checkpoints to the digit, of headline figures to the digit they are printed with."""

from __future__ import annotations

import re
from math import prod

import pytest
from each import each, share_of

from costmodel.documents.reader.library import names, read
from costmodel.documents.schemas.model import (
    Attention,
    CompressedAttention,
    Experts,
    LatentAttention,
    Layers,
    LinearAttention,
    Mlp,
    Model,
    SelectiveScan,
    StateSpace,
    VisionTower,
)
from costmodel.equations.layers.parameters import (
    attention_parameters,
    mlp_parameters,
    norm_parameters,
    table_parameters,
)
from costmodel.estimate.model.shards import model_active_parameters, model_parameters, shard

MODELS: dict[str, Model] = {name: read("model", name) for name in names("model")}
EXACT = [name for name, model in MODELS.items() if model.published and model.published.exact]
ROUNDED = [name for name, model in MODELS.items() if model.published and not model.published.exact]
MIXED = [name for name, model in MODELS.items() if any(kind.experts for kind in model.layers)]
# Counted by hand, or from the tensors of the published checkpoint.
KNOWN = {
    "gpt-2-small": 124_439_808,
    "gpt-3-175b": 174_604_259_328,
    "llama-2-7b": 6_738_415_616,
    "llama-3-8b": 8_030_261_248,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "mixtral-8x7b": 46_702_792_704,
    "deepseek-v3": 671_026_419_200,
}
ACTIVE = {
    "mixtral-8x7b": 12_879_925_248,
    "deepseek-v3": 37_552_297_472,
}
_SCALES = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


def half_of_the_last_digit(written: str) -> float:
    """How far off a rounded figure may be: '1.7 B' is 0.05 billion."""
    match = re.fullmatch(r"(\d+)(?:\.(\d+))? ?([KMBT]?)", written)
    assert match, f"'{written}' is not a rounded figure"
    return 0.5 * 10.0 ** -len(match[2] or "") * _SCALES[match[3]]


def written(model: Model) -> str:
    """The published figure as it stands in the document."""
    place = getattr(model.published.parameters, "place", None) if model.published else None
    assert place is not None
    return str(place.text).partition(":")[2].partition("#")[0].strip()


def tensors(model: Model) -> list[tuple[float, ...]]:
    """Shapes of every tensor as a checkpoint stores them."""
    hidden, norm = model.hidden, [(model.hidden,)] * (2 if model.norm == "layernorm" else 1)
    found: list[tuple[float, ...]] = [(model.vocab, hidden), *norm]
    found += [] if model.tied else [(model.vocab, hidden)]
    found += [(model.position_rows or model.max_sequence, hidden)] if model.positions == "learned" else []
    found += norm if model.embedding_norm else []
    found += [(rows, hidden) for rows in (model.token_types, model.meta_tokens) if rows]
    found += [(hidden, hidden), (hidden,)] if model.head_transform else []  # the last normfollows it
    found += [(model.vocab,)] if model.head_bias else []
    for kind in model.layers:
        found += int(kind.count) * [*layer(kind, hidden), *int(kind.norms) * norm, *stream_tensors(model)]
    found += stream_end_tensors(model)
    found += entry_tensors(model) if model.layer_embedding else []
    return found + (vision_tensors(model.vision, hidden) if model.vision else [])


def entry_tensors(model: Model) -> list[tuple[float, ...]]:
    """An entry for each token and layer, a projection to all of them with a norm, and how each layer adds its own."""
    entry, hidden, layers = model.layer_embedding, model.hidden, sum(kind.count for kind in model.layers)
    assert entry is not None
    wide = layers * entry.width
    shared: list[tuple[float, ...]] = [(entry.rows, wide), (wide, hidden), (entry.width,)]
    return shared + int(layers) * [(entry.width, hidden), (hidden, entry.width), (hidden,)]


def vision_tensors(tower: VisionTower, hidden: float) -> list[tuple[float, ...]]:
    """Patches, positions, layers, norms around them, and the projectors to the text model."""
    norm: list[tuple[float, ...]] = [(tower.hidden,)] * (2 if tower.norm == "layernorm" else 1)
    found: list[tuple[float, ...]] = [(tower.hidden, tower.patch), *int(tower.norms) * norm]
    found += [(tower.hidden,)] if tower.patch_bias else []
    found += [(tower.position_rows, tower.hidden)] if tower.position_rows else []
    for kind in tower.layers:
        found += int(kind.count) * [*layer(kind, tower.hidden), *int(kind.norms) * norm]
    for item in tower.projectors:
        width = item.norm_width or item.inputs
        one = {"layernorm": 2, "rmsnorm": 1, None: 0}[item.norm] * [(width,)]
        ways = [(hidden, item.inputs)] if item.inner is None else [(item.inner, item.inputs), (hidden, item.inner)]
        one += [*ways, *([(way[0],) for way in ways] if item.biases else [])]
        found += int(item.count) * one
    return found


def layer(kind: Layers, hidden: float) -> list[tuple[float, ...]]:
    """Shapes of the tensors of one layer, without its norms."""
    shapes = attention_tensors(kind.attention, hidden) if kind.attention else []
    shapes += latent_tensors(kind.latent, hidden) if kind.latent else []
    shapes += compressed_tensors(kind.compressed, hidden) if kind.compressed else []
    shapes += state_space_tensors(kind.state_space, hidden) if kind.state_space else []
    shapes += linear_tensors(kind.linear, hidden) if kind.linear else []
    shapes += scan_tensors(kind.selective_scan, hidden) if kind.selective_scan else []
    if kind.shared_output and kind.selective_scan:  # one matrix out of two, and a norm ahead of it for each
        inner = kind.selective_scan.inner
        shapes.remove((hidden, inner))
        shapes += [(inner,), (inner,)]
    shapes += [(kind.side_rank, hidden), (hidden, kind.side_rank), (hidden,)] if kind.side_rank else []
    shapes += mlp_tensors(kind.mlp, hidden) if kind.mlp else []
    return shapes + (expert_tensors(kind.experts, hidden) if kind.experts else [])


def attention_tensors(attention: Attention, hidden: float) -> list[tuple[float, ...]]:
    query, key = attention.heads * attention.head_dim, attention.kv_heads * attention.head_dim
    wide = attention.value_dim or attention.head_dim
    result, value = attention.heads * wide, attention.kv_heads * wide
    own = [] if attention.shared_kv else [key] if attention.keys_as_values else [key, value]
    shapes: list[tuple[float, ...]] = [*((width, hidden) for width in (query, *own)), (hidden, result)]
    shapes += [(result, hidden)] if attention.output_gate else []
    shapes += [(width,) for width in (query, *own)] if attention.biases else []
    shapes += [(hidden,)] if attention.output_bias else []
    shapes += (2 if own else 1) * [(attention.head_dim,)] if attention.qk_norm else []
    shapes += [(query,), (key,)] if attention.qk_norm_whole else []
    return shapes + ([(attention.heads,)] if attention.sinks else [])


def latent_tensors(latent: LatentAttention, hidden: float) -> list[tuple[float, ...]]:
    query = latent.heads * (latent.nope_dim + latent.rope_dim)
    rank, narrow = latent.query_rank, latent.kv_rank
    down: list[tuple[float, ...]] = [(query, hidden)] if rank is None else [(rank, hidden), (rank,), (query, rank)]
    down += [(narrow + latent.rope_dim, hidden), (narrow,)]
    if latent.indexer is not None:
        width = latent.indexer.head_dim
        down += [(latent.indexer.heads * width, rank or 0), (width, hidden), (width,), (width,)]
        down += [(latent.indexer.heads, hidden)]
    return [
        *down,
        (latent.heads * (latent.nope_dim + latent.value_dim), narrow),
        (hidden, latent.heads * latent.value_dim),
    ]


def compressed_tensors(own: CompressedAttention, hidden: float) -> list[tuple[float, ...]]:
    """Narrow queries, the key with its norm, results by groups, sinks; what makes entries, and their indexer's."""
    inner, narrow = own.heads * own.head_dim, own.output_groups * own.output_rank
    shapes: list[tuple[float, ...]] = [(own.query_rank, hidden), (own.query_rank,), (inner, own.query_rank)]
    shapes += [(own.head_dim, hidden), (own.head_dim,), (narrow, inner / own.output_groups), (hidden, narrow)]
    shapes += [(own.heads,)] if own.sinks else []
    if own.entries is None:
        return shapes
    indexer, series = own.entries.indexer, 2 if own.entries.overlap else 1
    for width in (own.head_dim, *([indexer.head_dim] if indexer else [])):
        shapes += [*2 * [(series * width, hidden)], (own.entries.rate, series * width), (width,)]
    if indexer is not None:
        shapes += [(indexer.heads * indexer.head_dim, own.query_rank), (indexer.heads, hidden)]
    return shapes


def stream_tensors(model: Model) -> list[tuple[float, ...]]:
    """Around both halves a matrix of all streams, biases, and a factor for reading, writing and mixing.

    Of alternating ones a router with its norm, a scale, and coefficients to predict and to correct.
    """
    streams, hidden = model.residual_streams, model.hidden
    if streams is None:
        return []
    if model.stream_rule == "alternating":
        return [(streams, hidden), (hidden,), (hidden,), (streams * streams, streams), (streams, streams)]
    return 2 * [((2 + streams) * streams, streams * hidden), ((2 + streams) * streams,), (3,)]


def stream_end_tensors(model: Model) -> list[tuple[float, ...]]:
    """The last mean of all streams; of alternating ones a matrix to each but one, and one back."""
    streams, hidden = model.residual_streams, model.hidden
    if streams is None:
        return []
    if model.stream_rule == "alternating":
        return 2 * int(streams - 1) * [(hidden, hidden)]
    return [(streams, streams * hidden), (streams,), (1,)]


def state_space_tensors(space: StateSpace, hidden: float) -> list[tuple[float, ...]]:
    """Input projection, convolution and its bias, A, D, bias of the step, norm, output projection."""
    inner, mixed = space.heads * space.head_dim, space.heads * space.head_dim + 2 * space.groups * space.state
    return [
        (inner + mixed + space.heads, hidden),
        (mixed, 1, space.conv),
        (mixed,),
        *3 * [(space.heads,)],
        *([(inner,)] if space.norm else []),
        (hidden, inner),
    ]


def scan_tensors(scan: SelectiveScan, hidden: float) -> list[tuple[float, ...]]:
    """Input projection, convolution and its bias, steps and state matrices, their norms, A, D, output projection."""
    inner, rank, state = scan.inner, scan.rank, scan.state
    steps: list[tuple[float, ...]] = [(rank + 2 * state, inner), (inner, rank), (inner,), (inner, state), (inner,)]
    steps += [(rank,), (state,), (state,)] if scan.norms else []
    biases: list[tuple[float, ...]] = [(2 * inner,), (hidden,)] if scan.biases else []
    return [(2 * inner, hidden), (inner, 1, scan.conv), (inner,), *steps, (hidden, inner), *biases]


def linear_tensors(linear: LinearAttention, hidden: float) -> list[tuple[float, ...]]:
    """Projections of queries, keys and values, and what each rule has for its gates."""
    keys, values, heads = linear.key_heads * linear.key_dim, linear.heads * linear.value_dim, linear.heads
    shapes: list[tuple[float, ...]] = [(keys, hidden), (keys, hidden), (values, hidden), (hidden, values)]
    if linear.rule == "lightning":
        return [*shapes, (values, hidden), (values,)]
    shapes += [(2 * keys + values, 1, linear.conv or 0), (heads, hidden), (heads,), (linear.value_dim,)]
    if linear.rule == "gated-delta":
        return [*shapes, (values, hidden), (heads, hidden), (heads,)]
    low = [(linear.key_dim, hidden), (keys, linear.key_dim), (linear.value_dim, hidden), (values, linear.value_dim)]
    return [*shapes, *low, (keys,)]


def mlp_tensors(mlp: Mlp, hidden: float) -> list[tuple[float, ...]]:
    into = 2 if mlp.gated else 1
    shapes: list[tuple[float, ...]] = into * [(mlp.ffn_hidden, hidden)] + [(hidden, mlp.ffn_hidden)]
    return shapes + (into * [(mlp.ffn_hidden,)] + [(hidden,)] if mlp.biases else [])


def expert_tensors(experts: Experts, hidden: float) -> list[tuple[float, ...]]:
    width = experts.latent_dim or hidden
    one = mlp_tensors(Mlp(ffn_hidden=experts.ffn_hidden, gated=experts.gated, biases=experts.biases), width)
    shapes: list[tuple[float, ...]] = int(experts.count) * one + [(experts.count, hidden)]
    shapes += [(width, hidden), (hidden, width)] if experts.latent_dim else []
    shapes += [(experts.count,)] if experts.router_bias else []
    shapes += mlp_tensors(experts.shared, hidden) if experts.shared else []
    return shapes + ([(1, hidden)] if experts.shared_gate else [])


def test_there_is_something_to_hold_against() -> None:
    assert len(EXACT) >= 8
    assert len(ROUNDED) >= 8
    assert set(KNOWN) <= set(MODELS)


@each("name", EXACT)
def test_exact_counts_are_exact(name: str) -> None:
    published = MODELS[name].published
    assert published is not None
    assert model_parameters(MODELS[name]) == published.parameters


@each("name", ROUNDED)
def test_rounded_counts_round_to_what_was_printed(name: str) -> None:
    published = MODELS[name].published
    assert published is not None
    allowed = half_of_the_last_digit(written(MODELS[name]))
    assert abs(float(model_parameters(MODELS[name])) - published.parameters) <= allowed


@pytest.mark.parametrize("name", ACTIVE)
def test_active_parameters_known_by_heart(name: str) -> None:
    assert model_active_parameters(MODELS[name]) == ACTIVE[name]


@each("name", [name for name in MODELS if name not in MIXED])
def test_every_parameter_of_a_dense_model_is_active(name: str) -> None:
    assert model_active_parameters(MODELS[name]) == model_parameters(MODELS[name])


@pytest.mark.parametrize("name", [name for name in MIXED if (shown := MODELS[name].published) and shown.active])
def test_active_parameters_round_to_what_was_printed(name: str) -> None:
    published = MODELS[name].published
    assert published is not None
    assert published.active is not None
    place = getattr(published.active, "place", None)
    figure = str(place.text).partition(":")[2].partition("#")[0].strip() if place else ""
    allowed = 0.0 if published.active_exact else half_of_the_last_digit(figure)
    assert abs(float(model_active_parameters(MODELS[name])) - published.active) <= allowed


def test_latent_attention_of_deepseek_v3() -> None:
    part = shard(MODELS["deepseek-v3"], MODELS["deepseek-v3"].layers[0], 1.0).mixer
    assert part is not None
    assert part.parameters == 187_107_328


def test_the_count_is_the_sum_of_the_tensors() -> None:
    """Of a share of the models, unless --whole asks for all."""
    for name in share_of(MODELS, 3):
        assert model_parameters(MODELS[name]) == sum(map(prod, tensors(MODELS[name]))), name


@pytest.mark.parametrize("name", KNOWN)
def test_counts_known_by_heart(name: str) -> None:
    assert model_parameters(MODELS[name]) == KNOWN[name]


@pytest.mark.parametrize(("layers", "hidden", "vocab", "rows"), [(12, 768, 50257, 1024), (96, 12288, 50257, 2048)])
def test_gpt_closed_form(layers: float, hidden: float, vocab: float, rows: float) -> None:
    heads = hidden / 64
    item = attention_parameters(hidden, heads, heads, 64.0, biases=True, output_bias=True)
    item = item + mlp_parameters(hidden, 4 * hidden, gated=False, biases=True)
    item = item + 2 * norm_parameters(hidden, norm="layernorm")
    ends = table_parameters(vocab, hidden) + table_parameters(rows, hidden) + norm_parameters(hidden, norm="layernorm")
    assert item == 12 * hidden**2 + 13 * hidden
    assert layers * item + ends == layers * (12 * hidden**2 + 13 * hidden) + (vocab + rows + 2) * hidden


def test_twelve_h_squared_holds_for_gpt_alone() -> None:
    """12 L h² ignores grouped heads and f ≠ 4 h: for Llama 3 70B it says 64.4 billion, the layers hold 68.5."""
    model = MODELS["llama-3-70b"]
    layers = sum(kind.count * sum(map(prod, layer(kind, model.hidden))) for kind in model.layers)
    assert 12 * 80 * model.hidden**2 == pytest.approx(64.4e9, rel=1e-3)
    assert layers == pytest.approx(68.5e9, rel=1e-3)


@pytest.mark.parametrize(
    ("figure", "allowed"), [("1.7 B", 0.05e9), ("22 B", 0.5e9), ("1008.0 B", 0.05e9), ("530", 0.5)]
)
def test_rounding_is_read_from_the_figure(figure: str, allowed: float) -> None:
    assert half_of_the_last_digit(figure) == pytest.approx(allowed)
