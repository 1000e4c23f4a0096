"""A feed-forward half is one entry: adding one touches its document, its entry, and a family of checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from costmodel.documents.schemas.base import Document
from costmodel.documents.schemas.model import Layers
from costmodel.equations.layers.parameters import table_parameters
from costmodel.estimate.model.feed_forward_kinds import FEEDS, Feed
from costmodel.estimate.model.mixers.mixer import Matmul
from costmodel.estimate.model.mixers.mixing_half import layer_names_text
from costmodel.estimate.model.shards import model_parameters
from costmodel.estimate.serving.predict_serving import predict
from costmodel.ground.equation import Number
from estimate import cases
from estimate.serving import cases as serving_cases


class Toy(Document):
    """A feed-forward half with one square matrix."""

    projected: tuple[str, ...] = ()


class ToyFeed(Feed[Toy]):
    """Its entry: only what every half states."""

    label = "toy"

    @property
    def inner(self) -> Number:
        return 4098.0 / self.ranks

    def parameters(self, hidden: Number) -> Number:
        return table_parameters(hidden, self.inner)

    def matrices(self, hidden: Number) -> Iterator[Matmul]:
        yield Matmul("mlp up", self.inner, hidden)

    def traffic(self, tokens: Number, element: Number, *, backward: bool) -> Number:
        return tokens * element

    def activations(self, tokens: Number, element: Number) -> Number:
        return tokens * element


def test_training_and_serving_ask_the_entry_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, served = cases.inputs(), predict(serving_cases.case(), bands=False).costs
    plain, without = cases.costs(inputs, tp=2), model_parameters(inputs.model) - 32 * 3 * 4096 * 14336
    own = Toy.model_construct()
    monkeypatch.setitem(FEEDS, Toy, ToyFeed)  # type: ignore[arg-type]
    monkeypatch.setattr(Layers, "feed", property(lambda layer: own if layer.mlp is not None else None))
    inputs, case = cases.inputs(), serving_cases.case("model.title=of toys")
    assert layer_names_text(case.model) == "attention + toy"
    assert model_parameters(inputs.model) == without + 32 * 4096 * 4098
    toy = cases.costs(inputs, tp=2)
    assert all(toy[name] < plain[name] for name in ("matmul", "memory_bound", "memory_peak"))
    assert "L007" in cases.ask(inputs, tp=4).refused  # 4 does not divide its width
    assert predict(case, bands=False).costs["tpot"] < served["tpot"]
