"""Parameter counts: of published checkpoints to the digit, of headline figures to the digit they are printed with."""

from __future__ import annotations

import re
from math import prod

import pytest

from costmodel.documents.library import names, read
from costmodel.documents.model import Layers, Model
from costmodel.equations.parameters import attention_parameters, mlp_parameters, norm_parameters, table_parameters
from costmodel.estimate.work import model_parameters

MODELS: dict[str, Model] = {name: read("model", name) for name in names("model")}
EXACT = [name for name, model in MODELS.items() if model.published and model.published.exact]
ROUNDED = [name for name, model in MODELS.items() if model.published and not model.published.exact]
# Counted by hand, or from the tensors of the published checkpoint.
KNOWN = {
    "gpt-2-small": 124_439_808,
    "gpt-3-175b": 174_604_259_328,
    "llama-2-7b": 6_738_415_616,
    "llama-3-8b": 8_030_261_248,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
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
    for kind in model.layers:
        found += int(kind.count) * [*layer(kind, hidden), *int(kind.norms) * norm]
        found += int(kind.count) * 2 * [(kind.attention.head_dim,)] if kind.attention.qk_norm else []
    return found


def layer(kind: Layers, hidden: float) -> list[tuple[float, ...]]:
    """Shapes of the tensors of one layer, without its norms."""
    attention, mlp = kind.attention, kind.mlp
    query, key = attention.heads * attention.head_dim, attention.kv_heads * attention.head_dim
    shapes: list[tuple[float, ...]] = [(query, hidden), (key, hidden), (key, hidden), (hidden, query)]
    shapes += [(query,), (key,), (key,)] if attention.biases else []
    shapes += [(hidden,)] if attention.output_bias else []
    into = 2 if mlp.gated else 1
    shapes += into * [(mlp.ffn_hidden, hidden)] + [(hidden, mlp.ffn_hidden)]
    return shapes + (into * [(mlp.ffn_hidden,)] + [(hidden,)] if mlp.biases else [])


def test_there_is_something_to_hold_against() -> None:
    assert len(EXACT) >= 8
    assert len(ROUNDED) >= 8
    assert set(KNOWN) <= set(MODELS)


@pytest.mark.parametrize("name", EXACT)
def test_exact_counts_are_exact(name: str) -> None:
    published = MODELS[name].published
    assert published is not None
    assert model_parameters(MODELS[name]) == published.parameters


@pytest.mark.parametrize("name", ROUNDED)
def test_rounded_counts_round_to_what_was_printed(name: str) -> None:
    published = MODELS[name].published
    assert published is not None
    allowed = half_of_the_last_digit(written(MODELS[name]))
    assert abs(float(model_parameters(MODELS[name])) - published.parameters) <= allowed


@pytest.mark.parametrize("name", MODELS)
def test_the_count_is_the_sum_of_the_tensors(name: str) -> None:
    assert model_parameters(MODELS[name]) == sum(map(prod, tensors(MODELS[name])))


@pytest.mark.parametrize("name", KNOWN)
def test_counts_known_by_heart(name: str) -> None:
    assert model_parameters(MODELS[name]) == KNOWN[name]


@pytest.mark.parametrize(("layers", "hidden", "vocab", "rows"), [(12, 768, 50257, 1024), (96, 12288, 50257, 2048)])
def test_gpt_closed_form(layers: float, hidden: float, vocab: float, rows: float) -> None:
    heads = hidden / 64
    each = attention_parameters(hidden, heads, heads, 64.0, biases=True, output_bias=True)
    each = each + mlp_parameters(hidden, 4 * hidden, gated=False, biases=True)
    each = each + 2 * norm_parameters(hidden, norm="layernorm")
    ends = table_parameters(vocab, hidden) + table_parameters(rows, hidden) + norm_parameters(hidden, norm="layernorm")
    assert each == 12 * hidden**2 + 13 * hidden
    assert layers * each + ends == layers * (12 * hidden**2 + 13 * hidden) + (vocab + rows + 2) * hidden


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
