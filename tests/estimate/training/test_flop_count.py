"""FLOP of a step of encoders, counted by hand; those of decoders are held in test_step and the published reports."""

from __future__ import annotations

import pytest

from costmodel.documents.reader.library import read
from costmodel.estimate.model.shards import model_parameters
from costmodel.estimate.training.flop_count import forward_flop
from costmodel.ground.errors import CostModelError
from estimate.cases import inputs
from estimate.serving.cases import predicted

LAYERS, HIDDEN, FFN, VOCAB, TOKENS, BATCH = 12, 768, 3072, 30522, 512, 64


def test_an_encoder_works_on_all_pairs_of_tokens_under_any_convention() -> None:
    linear, core, head = forward_flop(inputs("bert-base", sequence=TOKENS, global_batch=BATCH), causal=True)
    tokens = TOKENS * BATCH
    assert linear == 2 * tokens * LAYERS * (4 * HIDDEN**2 + 2 * HIDDEN * FFN)
    assert core == LAYERS * BATCH * 4 * TOKENS**2 * HIDDEN
    assert head == 2 * tokens * HIDDEN * (VOCAB + HIDDEN)


def test_the_parts_of_bert_add_up() -> None:
    """Tables, layers, the norm of the embedding, and a head of a matrix, a norm and a bias for each word."""
    layer = 4 * (HIDDEN**2 + HIDDEN) + 2 * HIDDEN * FFN + HIDDEN + FFN + 4 * HIDDEN
    tables = (VOCAB + 512 + 2) * HIDDEN + 2 * HIDDEN
    head = HIDDEN**2 + HIDDEN + 2 * HIDDEN + VOCAB
    assert float(model_parameters(read("model", "bert-base"))) == LAYERS * layer + tables + head == 109_514_298


def test_an_engine_serves_no_encoder() -> None:
    with pytest.raises(CostModelError, match="bert-base is an encoder, which generates no tokens") as raised:
        predicted("model=bert-base", "workload.prompt=100 tokens", "workload.output=10 tokens")
    assert raised.value.faults[0].code == "D016"
