"""Dense models by shape: the size that their name is chosen for is the one that their document has."""

from __future__ import annotations

import pytest

from costmodel.documents.reader.dense_models import dense_model
from costmodel.documents.reader.library import CachedReader
from costmodel.estimate.model.shards import model_parameters


@pytest.mark.parametrize("size", [8e9, 13e9, 30e9, 70e9, 405e9])
def test_a_dense_model_of_a_size_has_the_parameters_of_its_document(size: float) -> None:
    model = dense_model(size)
    assert model.parameters == float(model_parameters(CachedReader().document("model", model.name)))
    assert model.parameters == pytest.approx(size, rel=0.06)
