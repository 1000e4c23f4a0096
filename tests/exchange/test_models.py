"""Models of other people's formats where a command names one."""

from __future__ import annotations

import json

from costmodel.exchange.foreign_models import read_model

STATED = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "tie_word_embeddings": True}
REST = {"vocab_size": 32000, "num_attention_heads": 32, "intermediate_size": 11008, "max_position_embeddings": 2048}


def test_options_that_a_config_leaves_out_are_remarked_with_the_values_of_its_class() -> None:
    """LlamaConfig gives an absent num_attention_heads as 32, also for the heads of keys, and names each once."""
    [remark] = read_model(json.dumps(STATED), "m/config.json").remarks
    assert remark.startswith("left out, so the default of LlamaConfig, transformers ")
    assert {
        name: int(value) for name, value in (item.split() for item in remark.partition(": ")[2].split(", "))
    } == REST
    assert read_model(json.dumps(STATED | REST), "m/config.json").remarks == ()
