"""A kind of mixer is one entry: adding one touches its document, its entry, and a family of checkpoints."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from house.catalogue import PACKAGE, nodes, python_files, relative

from costmodel.documents.schemas.base import Document
from costmodel.documents.schemas.model import Layers, Model
from costmodel.equations.layers.parameters import table_parameters
from costmodel.estimate.model.mixers.mixer import CacheWidth, CoreSize, Matmul, Mixer, MixerKind, Shapes
from costmodel.estimate.model.mixers.mixer_kinds import KINDS
from costmodel.estimate.model.mixers.mixing_half import layer_names_text
from costmodel.estimate.serving.predict_serving import predict
from costmodel.ground.equation import Number
from estimate import cases
from estimate.serving import cases as serving_cases

MIXER, FEED = "costmodel/estimate/model/mixers/mixer_kinds.py", "costmodel/estimate/model/feed_forward_kinds.py"
MEGATRON = "costmodel/exchange/megatron/model.py"  # a family of checkpoints


@pytest.mark.parametrize(
    ("name", "others"), [("StateSpace", {MIXER}), ("LinearAttention", {MIXER}), ("Mlp", {FEED, MEGATRON})]
)
def test_half_a_layer_is_known_to_its_document_and_its_entry_alone(name: str, others: set[str]) -> None:
    found = {
        str(relative(path))
        for path in python_files(PACKAGE)
        for node in nodes(path)
        if (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.ClassDef) and node.name == name)
    }
    assert found == {"costmodel/documents/schemas/model.py", *others}


class Toy(Document):
    """A mixer with one square matrix, which adds up all tokens before."""

    heads: float
    width: float


class ToyKind(MixerKind[Toy]):
    """Its entry: only what every mixer states."""

    def label(self, own: Toy) -> str:
        return "toy"

    def shard(self, model: Model, own: Toy, tp: Number) -> Mixer:
        return Mixer(own.heads / tp, own.heads / tp, own.width, table_parameters(model.hidden, model.hidden / tp))

    def matrices(self, hidden: Number, own: Toy, part: Mixer, tp: Number) -> Iterator[Matmul]:
        yield Matmul("attention out", hidden, part.heads * own.width)

    def flop(self, own: Toy, part: Mixer, size: CoreSize, *, causal: bool) -> Number:
        return size.sequences * size.sequence * part.heads * own.width

    def traffic(
        self, model: Model, own: Toy, part: Mixer, tokens: Number, element: Number, *, backward: bool
    ) -> Number:
        return tokens * element

    def activations(self, own: Toy, part: Mixer, tokens: Number, element: Number, split: Number) -> Number:
        return tokens * element

    def cache(self, own: Toy, tp: Number, tokens: Number, width: CacheWidth) -> Number:
        return tokens * width.cache

    def all_to_all_shape(self, own: Toy, part: Mixer) -> Shapes:
        return ((part.heads, own.width, 2.0),)


def test_training_and_serving_ask_the_entry_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    attention, case = cases.costs(cases.inputs()), serving_cases.case("model.title=of toys")
    own = Toy.model_construct(heads=32.0, width=128.0)
    monkeypatch.setitem(KINDS, Toy, ToyKind())  # type: ignore[arg-type]
    monkeypatch.setattr(Layers, "mixers", property(lambda layer: [own] if layer.attention is not None else []))
    toy = cases.costs(cases.inputs())
    assert layer_names_text(case.model) == "toy"
    assert 0 < toy["attention"] < 0.01 * attention["attention"]  # linear in the sequence
    assert toy["memory_peak"] < attention["memory_peak"]
    assert predict(case, bands=False).costs["kv_bytes_per_token"] == 80 * 2.0  # layers of one 16-bit value
