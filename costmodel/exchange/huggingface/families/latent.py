"""Families with latent attention: DeepSeek and those built like it."""

from __future__ import annotations

from costmodel.exchange.huggingface.families.llama import LLAMA
from costmodel.exchange.huggingface.family import Fact, Refusal, option
from costmodel.exchange.huggingface.patterns import (
    HIDDEN_BY_HEADS,
    LATENT_BIASES,
    SHARED_WIDTH,
    all_mlps,
    by_mlp_type,
    everywhere,
    layers,
    leading_dense,
    uncounted_parameters,
)

YES, NO = Fact(True), Fact(False)
NO_HEADS = ("kv_heads", "head_dim")  # latent attention has widths of its own
FIRST_DENSE = by_mlp_type(leading_dense)
_QUIET = (
    "head_dim", "qk_head_dim", "num_key_value_heads", "rope_interleave", "scoring_func", "topk_method", "ep_size",
    "seq_aux", "aux_loss_alpha", "mlp_bias", "routed_scaling_factor", "norm_topk_prob",
)  # fmt: skip

DEEPSEEK_V3 = LLAMA.like(
    "deepseek_v3", ("DeepseekV3ForCausalLM",), "DeepseekV3Config", without=NO_HEADS, types=("deepseek_v3", "kimi_k2"),
    vocab=129280, hidden=7168, ffn_hidden=18432, layer_count=61, heads=128, max_sequence=4096, mlp_biases=NO,
    query_rank=option("q_lora_rank", default=1536), kv_rank=option("kv_lora_rank", default=512),
    nope_dim=option("qk_nope_head_dim", default=128), rope_dim=option("qk_rope_head_dim", default=64),
    value_dim=option("v_head_dim", default=128),
    experts=option("n_routed_experts", "num_local_experts", default=256),
    top_k=option("num_experts_per_tok", default=8), expert_hidden=option("moe_intermediate_size", default=2048),
    shared_experts=option("n_shared_experts", default=1), shared_hidden=SHARED_WIDTH, router_bias=YES,
    groups=option("n_group", default=8), group_limit=option("topk_group", default=4),
    leading_dense=option("first_k_dense_replace", default=3),
    prediction_depth=option("num_nextn_predict_layers", "num_mtp_layers"),
    layers=layers(everywhere("latent"), leading_dense), losses=(LATENT_BIASES,),
    refusals=(Refusal("moe_layer_freq", (1,), "the class builds experts in every layer behind the first"),),
    quiet=_QUIET,
)  # fmt: skip

_DEEPSEEK_V32 = DEEPSEEK_V3.like(
    "deepseek_v32", ("DeepseekV32ForCausalLM",), "DeepseekV32Config", types=("deepseek_v32",), max_sequence=163840,
    index_heads=option("index_n_heads", default=64), index_dim=option("index_head_dim", default=128),
    index_top_k=option("index_topk", default=2048), mlp_types=option("mlp_layer_types"),
    layers=layers(everywhere("latent"), FIRST_DENSE),
    refusals=(
        *DEEPSEEK_V3.refusals,
        Refusal("mlp_bias", (False,), "its experts have none, and the document has one for both"),
    ),
    quiet=(*(name for name in _QUIET if name != "mlp_bias"), "layer_types"),
)  # fmt: skip

FAMILIES = [
    DEEPSEEK_V3,
    DEEPSEEK_V3.like(
        "deepseek_v2", ("DeepseekV2ForCausalLM",), "DeepseekV2Config", types=("deepseek_v2",),
        vocab=option("vocab_size", default=102400, was=(("5.16", 32000),)), hidden=4096, ffn_hidden=11008,
        layer_count=32, heads=32, max_sequence=2048, mlp_biases=option("mlp_bias", default=False),
        experts=option("n_routed_experts", "num_experts", default=64), top_k=option("num_experts_per_tok"),
        expert_hidden=1407, shared_experts=option("n_shared_experts", default=2), router_bias=NO,
        groups=option("n_group"), group_limit=option("topk_group"),
        routing_method=option("topk_method", default="greedy"),
        leading_dense=option("first_k_dense_replace", default=0),
        refusals=(
            Refusal("moe_layer_freq", (1,), "the class builds experts in every layer behind the first"),
            Refusal("mlp_bias", (False,), "its experts have none, and the document has one for both"),
        ),
    ),
    _DEEPSEEK_V32,
    _DEEPSEEK_V32.like(
        "glm_moe_dsa", ("GlmMoeDsaForCausalLM",), "GlmMoeDsaConfig", types=("glm_moe_dsa",), vocab=154880, hidden=6144,
        ffn_hidden=12288, layer_count=78, heads=64, max_sequence=202752, query_rank=2048, nope_dim=192, value_dim=256,
        groups=1, group_limit=1, index_heads=32,
        refusals=(
            *_DEEPSEEK_V32.refusals,
            Refusal("indexer_types", (None,), "layers that take the choice of the layer before are not in this table"),
            Refusal("index_topk_freq", (1, None), "layers that take the choice of the layer before are not in it"),
            Refusal("index_topk_pattern", (None,), "layers that take the choice of the layer before are not in it"),
        ),
        quiet=(*_DEEPSEEK_V32.quiet, "indexer_rope_interleave"),
    ),
    DEEPSEEK_V3.like(
        "mistral4", ("Mistral4ForCausalLM",), "Mistral4Config", types=("mistral4",), vocab=131072, hidden=4096,
        ffn_hidden=12288, layer_count=36, heads=32, max_sequence=1048576, query_rank=1024, kv_rank=256, nope_dim=64,
        experts=128, top_k=4, router_bias=NO, groups=1, group_limit=1, leading_dense=0, prediction_depth=Fact(None),
        refusals=(), quiet=(*_QUIET, "pretraining_tp"),
    ),
    DEEPSEEK_V3.like(
        "sarvam_mla", ("DeepseekV3ForCausalLM", "SarvamMLAForCausalLM"), "SarvamMLAConfig", types=("sarvam_mla",),
        vocab=262144, hidden=4096, ffn_hidden=16384, layer_count=32, heads=64, query_rank=option("q_lora_rank"),
        experts=option("n_routed_experts", "num_local_experts", "num_experts", default=128),
        shared_experts=option("n_shared_experts", "num_shared_experts", default=1), groups=1, group_limit=1,
        leading_dense=1,
    ),
    DEEPSEEK_V3.like(
        "axk1", ("AXK1ForCausalLM",), "AXK1Config", types=("axk1",), vocab=163840, heads=64, max_sequence=32768,
        experts=192, leading_dense=Fact(1), mlp_types=option("mlp_layer_types"),
        layers=layers(everywhere("latent"), FIRST_DENSE),
        losses=(
            LATENT_BIASES,
            uncounted_parameters(
                "there is a normalisation after the experts",
                lambda config: config.number("hidden") * FIRST_DENSE(config).count("experts"),
            ),
        ),
        refusals=(),
    ),
    DEEPSEEK_V3.like(
        "glm4_moe_lite", ("Glm4MoeLiteForCausalLM",), "Glm4MoeLiteConfig", types=("glm4_moe_lite",), vocab=154880,
        hidden=2048, ffn_hidden=10240, layer_count=47, heads=20, max_sequence=202752, query_rank=768, nope_dim=192,
        value_dim=256, experts=64, top_k=4, expert_hidden=1536, groups=1, group_limit=1, leading_dense=Fact(1),
        rope_dim=option("qk_rope_head_dim", "head_dim", default=64), mlp_types=option("mlp_layer_types"),
        layers=layers(everywhere("latent"), FIRST_DENSE),
        refusals=(Refusal("first_k_dense_replace", (1,), "the class has one dense layer by default"),),
    ),
    LLAMA.like(
        "minicpm3", ("MiniCPM3ForCausalLM",), "MiniCPM3Config", without=NO_HEADS, types=("minicpm3",), vocab=73448,
        hidden=2560, ffn_hidden=6400, layer_count=62, heads=40, max_sequence=32768, tied=True,
        query_rank=option("q_lora_rank", default=768), kv_rank=option("kv_lora_rank", default=256),
        nope_dim=option("qk_nope_head_dim", default=64), rope_dim=option("qk_rope_head_dim", default=32),
        value_dim=option("v_head_dim", null=HIDDEN_BY_HEADS), layers=layers(everywhere("latent"), all_mlps),
        losses=(LATENT_BIASES,),
        quiet=(*_QUIET, "scale_emb", "scale_depth", "dim_model_base"),
    ),
    LLAMA.like(
        "youtu", ("YoutuForCausalLM",), "YoutuConfig", without=NO_HEADS, types=("youtu",), vocab=128256, hidden=2048,
        ffn_hidden=6144, heads=16, max_sequence=131072, tied=True, mlp_biases=NO,
        query_rank=option("q_lora_rank", default=1536),
        kv_rank=option("kv_lora_rank", default=512), nope_dim=option("qk_nope_head_dim", default=128),
        rope_dim=option("qk_rope_head_dim", default=64), value_dim=option("v_head_dim", default=128),
        layers=layers(everywhere("latent"), all_mlps), losses=(LATENT_BIASES,),
        quiet=(*_QUIET, "embedding_initializer_range"),
    ),
]  # fmt: skip
