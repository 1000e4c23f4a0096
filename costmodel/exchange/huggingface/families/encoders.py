"""Encoders: attention of all tokens to all, a norm behind each half, and a head that guesses hidden tokens."""

from __future__ import annotations

from costmodel.exchange.huggingface.families.llama import LLAMA
from costmodel.exchange.huggingface.family import Fact, Refusal, option
from costmodel.exchange.huggingface.rules import HIDDEN_BY_HEADS, same

YES, NO = Fact(True), Fact(False)

BERT = LLAMA.like(
    "bert", ("BertForMaskedLM",), "BertConfig", types=("bert",), vocab=30522, hidden=768, layer_count=12, heads=12,
    kv_heads=same("heads"), head_dim=HIDDEN_BY_HEADS, ffn_hidden=3072, max_sequence=512, biases=YES, output_bias=YES,
    mlp_biases=YES, gated=NO, norm="layernorm", positions="learned", tied=True, bidirectional=YES,
    embedding_norm=YES, token_types=option("type_vocab_size", default=2), head_transform=YES, head_has_bias=YES,
    refusals=(
        Refusal("tie_word_embeddings", (True,), "untied, the class has a second bias on the head"),
        Refusal("is_decoder", (False,), "it is written as an encoder"),
        Refusal("add_cross_attention", (False,), "the model document has no attention to an encoder"),
        Refusal("position_embedding_type", ("absolute", None), "positions are a table in the document"),
    ),
    quiet=("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "layer_norm_eps"),
)  # fmt: skip

FAMILIES = [
    BERT,
    BERT.like("roberta", ("RobertaForMaskedLM",), "RobertaConfig", types=("roberta",), vocab=50265),
]
