"""Linear attention, sinks, attention beside a state space, alternating streams, against what transformers does."""

from __future__ import annotations

from typing import Any

import pytest
from estimate import cases

from costmodel.estimate.model.mixers.mixing_half import core_flop, mixer_matmuls
from costmodel.estimate.model.shards import layer_matmuls, model_parameters, shard
from costmodel.estimate.training.memory_breakdown import activations_without_recompute

from .make import reference
from .test_against_reference import BLOCK, STATISTIC

LIGHTNING = reference("lightning")
KIMI_DELTA = reference("kimi_delta")
SINKS = reference("sinks")
JOINT = reference("joint")
ALTERNATING = reference("alternating")


class Layer:
    """The only layer of a model, as a rank without tensor parallelism holds it."""

    def __init__(self, real: dict[str, Any], shape: dict[str, Any] | None = None, **halves: Any) -> None:
        shape = {**cases.model(layers=1, hidden=real["hidden"]), **(shape or {}), "layers": [{"count": 1, **halves}]}
        self.inputs = cases.inputs(shape, sequence=real["tokens"])
        self.model, self.tokens = self.inputs.model, float(real["tokens"])
        self.part = shard(self.model, self.model.layers[0], 1.0)
        assert self.part.mixer is not None
        self.mixer = self.part.mixer

    def core(self) -> float:
        """Work a token of the cores; of scores without their mask, as PyTorch multiplies them."""
        sizes = (1.0, self.tokens, self.mixer.heads)
        return float(core_flop(self.part.kind, self.mixer, *sizes, causal=False)) / self.tokens

    def mixed(self) -> float:
        """Work a token of the mixing half."""
        rows = mixer_matmuls(self.model.hidden, self.part.kind, self.mixer, 1.0)
        return sum(float(2 * row.n * row.k) for row in rows) + self.core()

    def flop(self) -> float:
        """Work a token of the layer."""
        return sum(float(2 * row.n * row.k) for row in layer_matmuls(self.model, self.part)) + self.core()

    def bytes(self) -> float:
        """Bytes a token that it keeps."""
        return cases.one(activations_without_recompute(self.inputs, BLOCK, self.part, selective=False)) / self.tokens


def linear(real: dict[str, Any], rule: str) -> Layer:
    sizes = {"heads": real["heads"], "key_heads": real["heads"], "conv": real.get("conv")}
    sizes |= {"value_dim": real["width"], "key_dim": real["width"], "chunk": real["chunk"]}
    return Layer(real, norms=1, linear={"rule": rule, **sizes})


def lightning() -> Layer:
    return linear(LIGHTNING, "lightning")


def kimi_delta() -> Layer:
    return linear(KIMI_DELTA, "kimi-delta")


def test_work_of_lightning_attention_equals_its_products() -> None:
    """Half of each chunk's square is masked here."""
    masked = 2 * LIGHTNING["chunk"] * LIGHTNING["heads"] * LIGHTNING["width"]
    assert lightning().mixed() + masked == LIGHTNING["flop"]


def test_activations_of_lightning_attention_equal_what_a_compiled_mixer_saves() -> None:
    """The core in PyTorch saves on top what the kernel makes again: scores, states, decayed queries and keys.

    Queries of the first chunk meet no state. The mixer is measured without the norm before it, whose input ours has.
    """
    heads, width, chunk = LIGHTNING["heads"], LIGHTNING["width"], LIGHTNING["chunk"]
    decayed = 2 * heads * width * (2 - chunk / LIGHTNING["tokens"])
    scores, states = 2 * heads * chunk, 2 * heads * width * width / chunk
    stream = 2 * LIGHTNING["hidden"]
    assert LIGHTNING["compiled"] - (lightning().bytes() - stream) == decayed + scores + states + STATISTIC


def test_work_of_kimi_delta_attention_equals_its_products() -> None:
    """Half of each square is masked here; PyTorch sums two of three as products of elements, and solves by rows.

    Its convolution runs on by its taps.
    """
    heads, width, chunk = KIMI_DELTA["heads"], KIMI_DELTA["width"], KIMI_DELTA["chunk"]
    masked, summed, solved = 5 * chunk * width * heads, 4 * chunk * width * heads, heads * chunk * chunk / 3
    convolved = 2 * KIMI_DELTA["conv"] * 3 * heads * width * (KIMI_DELTA["conv"] - 1) / KIMI_DELTA["tokens"]
    assert kimi_delta().mixed() + masked - summed - solved + convolved == pytest.approx(KIMI_DELTA["flop"], rel=1e-12)


def test_activations_of_kimi_delta_attention_equal_what_a_compiled_mixer_saves() -> None:
    """Decays ahead of the kernel and their sums in fp32: fla's own layer has them made inside, of their inputs alone.

    Of its gates the narrow inputs, a learning rate and a norm's figure; the padded output of the fallback's
    convolution. The mixer is measured without the norm before it, whose input ours has.
    """
    own, channels = KIMI_DELTA, KIMI_DELTA["heads"] * KIMI_DELTA["width"]
    decays, narrow = 2 * 4 * channels, 2 * 2 * own["width"]
    padded = 2 * 3 * channels * (own["tokens"] + own["conv"] - 1) / own["tokens"]
    gates = narrow + own["heads"] * (2 + STATISTIC)
    assert own["compiled"] - (kimi_delta().bytes() - 2 * own["hidden"]) == decays + padded + gates


def sinks(**own: bool) -> Layer:
    attention = {**SINKS["attention"], "biases": True, "output_bias": True, **own}
    return Layer(SINKS, norms=1, attention=attention)


def test_parameters_of_attention_with_sinks_equal_those_of_transformers() -> None:
    """One for each head beside those of attention."""
    with_them, without = (float(model_parameters(sinks(sinks=each).model)) for each in (True, False))
    assert with_them - without == SINKS["attention"]["heads"]
    outside = 2 * SINKS["hidden"] + 2 * sinks().model.vocab * SINKS["hidden"]
    assert with_them - outside == SINKS["parameters"]


def test_work_of_attention_with_sinks_equals_its_products() -> None:
    assert sinks(sinks=True).mixed() == SINKS["flop"]


def test_activations_of_attention_with_sinks_equal_what_a_compiled_mixer_saves() -> None:
    """Fused, the sinks of a layer leave nothing behind; measured without the norm before it."""
    assert SINKS["compiled"] == sinks(sinks=True).bytes() - 2 * SINKS["hidden"]


def joint() -> Layer:
    half = {"mlp": {"ffn_hidden": JOINT["ffn_hidden"], "gated": True}}
    return Layer(JOINT, attention=JOINT["attention"], state_space={**JOINT["state_space"], "norm": False}, **half)


def test_work_of_attention_beside_a_state_space_equals_its_products() -> None:
    """PyTorch masks no square, multiplies C and B for each head, not each group, and sums up states as a product.

    Its convolution runs on by its taps.
    """
    own, tokens = JOINT["state_space"], JOINT["tokens"]
    heads, width, groups, state, chunk = (own[key] for key in ("heads", "head_dim", "groups", "state", "chunk"))
    squares = 2 * chunk * heads * (state + width) - chunk * (groups * state + heads * width)
    summed = 2 * (tokens // chunk + 1) ** 2 * heads * width * state / tokens
    convolved = 2 * own["conv"] * (heads * width + 2 * groups * state) * (own["conv"] - 1) / tokens
    assert joint().flop() + squares + summed + convolved == JOINT["flop"]


def test_activations_of_attention_beside_a_state_space_equal_what_a_compiled_layer_saves() -> None:
    """Two norms' figures, decays in fp32, and an input of its own for attention, which a factor multiplies.

    The kernel that transformers calls has the last matrix inside and makes its input again; Megatron-Core's has not.
    """
    own = JOINT["state_space"]
    gated, scaled = 2 * own["heads"] * own["head_dim"], 2 * JOINT["hidden"]
    decays = 4 * own["heads"] / (JOINT["sequences"] * JOINT["tokens"])
    assert JOINT["compiled"] - joint().bytes() == scaled - gated + decays + 2 * STATISTIC


def alternating() -> Layer:
    shape = {"residual_streams": ALTERNATING["streams"], "stream_rule": "alternating"}
    shape |= {"layer_embedding": {"rows": 64, "width": ALTERNATING["width"]}}
    attention = {**ALTERNATING["attention"], "qk_norm": True, "value_norm": True}
    mlp = {"ffn_hidden": ALTERNATING["ffn_hidden"], "gated": True}
    return Layer(ALTERNATING, shape, norms=4, attention=attention, mlp=mlp, side_rank=ALTERNATING["rank"])


def test_work_of_a_layer_with_alternating_streams_equals_its_products() -> None:
    """The prediction of a token is a product of all streams with a small matrix, which we count as traffic alone.

    The projection of the layer's entry is a product behind the embedding, outside the layer.
    """
    predicted = 2 * ALTERNATING["streams"] ** 2 * ALTERNATING["hidden"]
    projected = 2 * ALTERNATING["hidden"] * ALTERNATING["width"]
    assert alternating().flop() + predicted - projected == ALTERNATING["flop"]


def test_activations_of_a_layer_with_alternating_streams_equal_what_a_compiled_layer_saves() -> None:
    """Figures of 8 norms and of heads, coefficients of the tokens, and their matrices held to a range.

    The norm of the entry is outside the layer that was measured. A sparse gate saves two figures a token more.
    """
    streams, heads = ALTERNATING["streams"], 3 * ALTERNATING["attention"]["heads"]
    coefficients = 2 * (5 * streams + streams**2)
    held = 2 * (streams**2 + streams**3) / (ALTERNATING["sequences"] * ALTERNATING["tokens"])
    figures = (8 + heads) * STATISTIC
    measured = ALTERNATING["compiled"] - alternating().bytes()
    assert measured == figures + coefficients + held - 2 * ALTERNATING["width"]
    assert ALTERNATING["compiled with sparse gates"] - ALTERNATING["compiled"] == 2 * 2
