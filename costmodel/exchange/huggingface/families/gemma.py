"""Gemma and its kin: heads wider than the stream's share, an MLP of three matrices though the activation is a GELU."""

from __future__ import annotations

from costmodel.exchange.huggingface.families.llama import LLAMA
from costmodel.exchange.huggingface.patterns import by_type, dense, full_every, layers
from costmodel.exchange.values.option_table import Fact, option

NO, YES = Fact(False), Fact(True)
_SOFT_CAPS = ("attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar")

GEMMA = LLAMA.like(
    "gemma", ("GemmaForCausalLM",), "GemmaConfig", types=("gemma",), vocab=256000, hidden=3072, ffn_hidden=24576,
    layer_count=28, heads=16, kv_heads=16, head_dim=256, max_sequence=8192, tied=True, mlp_biases=NO,
    quiet=("hidden_activation", "use_bidirectional_attention"),
)  # fmt: skip
GEMMA_2 = GEMMA.like(
    "gemma2", ("Gemma2ForCausalLM",), "Gemma2Config", types=("gemma2",),
    hidden=option("hidden_size", default=2304, was=(("4.47", 3072),)),
    ffn_hidden=option("intermediate_size", default=9216, was=(("4.47", 24576),)),
    layer_count=option("num_hidden_layers", default=26, was=(("4.47", 28),)),
    heads=option("num_attention_heads", default=8, was=(("4.47", 16),)),
    kv_heads=option("num_key_value_heads", default=4, was=(("4.47", 16),)),
    norms=4, window=option("sliding_window", default=4096), window_pattern=Fact(2), layer_types=option("layer_types"),
    layers=layers(by_type(full_every), dense), quiet=(*GEMMA.quiet, *_SOFT_CAPS),
)  # fmt: skip

FAMILIES = [
    GEMMA,
    GEMMA_2,
    GEMMA_2.like("vaultgemma", ("VaultGemmaForCausalLM",), "VaultGemmaConfig", types=("vaultgemma",), norms=2),
    GEMMA_2.like(
        "gemma3_text", ("Gemma3ForCausalLM",), "Gemma3TextConfig", types=("gemma3_text",), vocab=262208, hidden=2304,
        ffn_hidden=9216, layer_count=26, heads=8, kv_heads=4, max_sequence=131072, qk_norm=YES,
        window_pattern=option(
            "sliding_window_pattern", "_sliding_window_pattern", default=6, old={"sliding_window_pattern": "4.52"}
        ),
    ),
]  # fmt: skip
