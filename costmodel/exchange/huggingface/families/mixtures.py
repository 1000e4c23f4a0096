"""Mixture-of-experts families with ordinary attention."""

from __future__ import annotations

from costmodel.exchange.huggingface.families.llama import EVEN_HEADS, LLAMA, PLAIN
from costmodel.exchange.huggingface.family import Config, DerivedValue, Fact, Feed, Mixer, Refusal, option
from costmodel.exchange.huggingface.layer_patterns import (
    CHUNKS,
    HEAD_BIAS_IF_ANY,
    HIDDEN_BY_HEADS,
    SHARED_WIDTH,
    all_experts,
    chunks_with_positions,
    copy_of,
    everywhere,
    experts_after_dense,
    experts_every_nth,
    full_every_nth,
    full_first_of,
    layer_count,
    layers,
    leading_layers,
    listed_feeds,
    listed_layers,
    listed_mixers,
    sparse_feed,
    window_or_full,
    windows_after_first,
    windows_everywhere,
    windows_where_on,
)
from costmodel.exchange.import_result import OriginValue

# --- families with experts behind ordinary attention


YES, NO = Fact(True), Fact(False)
AS_MLP = copy_of("ffn_hidden")
_GRANITE = ("embedding_multiplier", "logits_scaling", "residual_multiplier", "attention_multiplier", "layer_rope_theta")

# --- orders of these families alone


def _qwen_2_mixers(config: Config) -> list[Mixer]:
    """A window in every second one of the first `window_from` layers, if windows are switched on."""
    window, first = window_or_full(config) if config.flag("windowed") else "full", leading_layers(config, "window_from")
    return ["full" if index % 2 or index >= first else window for index in range(layer_count(config))]


MIXTRAL = PLAIN.like(
    "mixtral", ("MixtralForCausalLM",), "MixtralConfig", types=("mixtral",), ffn_hidden=14336, kv_heads=8,
    head_dim=option("head_dim", null=HIDDEN_BY_HEADS, since="4.47"), max_sequence=131072,
    window=option("sliding_window", was=(("4.37", 4096),)),
    experts=option("num_local_experts", "num_experts", default=8), top_k=option("num_experts_per_tok", default=2),
    expert_hidden=AS_MLP, layers=layers(windows_everywhere, all_experts),
)  # fmt: skip
QWEN_2_MOE = PLAIN.like(
    "qwen2_moe", ("Qwen2MoeForCausalLM",), "Qwen2MoeConfig", types=("qwen2_moe",), vocab=151936, hidden=2048,
    ffn_hidden=5632, layer_count=24, heads=16, kv_heads=16, max_sequence=32768,
    biases=option("qkv_bias", default=True), output_bias=NO, experts=option("num_experts", default=60),
    top_k=option("num_experts_per_tok", default=4), expert_hidden=option("moe_intermediate_size", default=1408),
    shared_hidden=option("shared_expert_intermediate_size", default=5632), shared_gate=YES,
    sparse_step=option("decoder_sparse_step", default=1), numbered_layers=option("mlp_only_layers"),
    window=option("sliding_window", default=4096), windowed=option("use_sliding_window", default=False),
    window_from=option("max_window_layers", default=28), layer_types=option("layer_types"),
    layers=layers(listed_mixers(_qwen_2_mixers), experts_every_nth),
)  # fmt: skip
GLM_4_MOE = PLAIN.like(
    "glm4_moe", ("Glm4MoeForCausalLM",), "Glm4MoeConfig", types=("glm4_moe",), vocab=151552,
    ffn_hidden=10944, layer_count=46, heads=96, kv_heads=8, max_sequence=131072,
    biases=option("attention_bias", default=False), output_bias=NO, qk_norm=option("use_qk_norm", default=False),
    experts=option("n_routed_experts", "num_local_experts", "num_experts", default=128),
    top_k=option("num_experts_per_tok", default=8), expert_hidden=option("moe_intermediate_size", default=1408),
    shared_experts=option("n_shared_experts", "num_shared_experts", default=1), shared_hidden=SHARED_WIDTH,
    router_bias=YES, groups=option("n_group", default=1), group_limit=option("topk_group", default=1),
    leading_dense=option("first_k_dense_replace", default=1),
    prediction_depth=option("num_nextn_predict_layers", "num_mtp_layers"),
    layers=layers(everywhere("full"), experts_after_dense),
)  # fmt: skip


FAMILIES = [
    MIXTRAL,
    QWEN_2_MOE,
    GLM_4_MOE,
    QWEN_2_MOE.like(
        "qwen3_moe", ("Qwen3MoeForCausalLM",), "Qwen3MoeConfig", without=("window_from", "layer_types"),
        types=("qwen3_moe",), ffn_hidden=6144, heads=32, kv_heads=4,
        biases=option("attention_bias", default=False), output_bias=copy_of("biases"), qk_norm=YES,
        experts=option("num_experts", "num_local_experts", default=128),
        top_k=option("num_experts_per_tok", default=8),
        expert_hidden=option("moe_intermediate_size", default=768), shared_hidden=Fact(None), shared_gate=NO,
        layers=layers(windows_where_on, experts_every_nth), refusals=(),
        quiet=("shared_expert_intermediate_size", "qkv_bias", "use_qk_norm", "max_window_layers"),
    ),
    GLM_4_MOE.like(
        "sarvam_moe", ("Glm4MoeForCausalLM", "SarvamMoEForCausalLM"), "SarvamMoEConfig", types=("sarvam_moe",),
        vocab=262144, ffn_hidden=8192, layer_count=19, heads=64, kv_heads=4, top_k=6, qk_norm=True, head_dim=64,
        expert_hidden=1024, biases=option("attention_bias", "use_qkv_bias", default=False),
    ),
    GLM_4_MOE.like(
        "solar_open", ("SolarOpenForCausalLM",), "SolarOpenConfig", types=("solar_open",), vocab=196608,
        layer_count=48, heads=64, head_dim=128, expert_hidden=1280, qk_norm=NO, ffn_hidden=copy_of("expert_hidden"),
        prediction_depth=Fact(None), leading_dense=Fact(0),
        layers=layers(everywhere("full"), all_experts), quiet=("intermediate_size", "use_qk_norm"),
    ),
    GLM_4_MOE.like(
        "dots1", ("Dots1ForCausalLM",), "Dots1Config", types=("dots1",), vocab=152064, hidden=4608, layer_count=62,
        heads=32, kv_heads=32, max_sequence=2048, output_bias=copy_of("biases"), qk_norm=YES,
        experts=option("n_routed_experts", "num_local_experts"), top_k=option("num_experts_per_tok"),
        shared_experts=option("n_shared_experts"), leading_dense=0, window=option("sliding_window", default=4096),
        windowed=YES, window_from=option("max_window_layers", default=62), layer_types=option("layer_types"),
        prediction_depth=Fact(None), layers=layers(listed_mixers(windows_after_first), experts_after_dense),
        quiet=("moe_layer_freq", "scoring_func", "topk_method"),
    ),
    GLM_4_MOE.like(
        "exaone_moe", ("ExaoneMoeForCausalLM", "ExaoneMoEForCausalLM"), "ExaoneMoeConfig",
        types=("exaone_moe",), vocab=102400,
        ffn_hidden=16384, layer_count=32, heads=32, kv_heads=32, max_sequence=2048, biases=NO, qk_norm=YES,
        experts=option("num_experts", "n_routed_experts", default=64), expert_hidden=1024,
        shared_experts=option("num_shared_experts", "n_shared_experts", default=1),
        window=option("sliding_window", default=4096), window_pattern=option("sliding_window_pattern", default=4),
        layer_types=option("layer_types"), mlp_types=option("mlp_layer_types"),
        layers=layers(listed_mixers(full_every_nth), listed_feeds(experts_after_dense)),
    ),
    GLM_4_MOE.like(
        "hy_v3", ("HYV3ForCausalLM",), "HYV3Config", types=("hy_v3",), vocab=120832, ffn_hidden=13312, layer_count=80,
        heads=64, head_dim=128, output_bias=copy_of("biases"), mlp_biases=option("mlp_bias", default=False),
        qk_norm=YES, experts=option("num_experts", "num_local_experts", default=192), expert_hidden=1536,
        shared_experts=option("num_shared_experts", default=1), groups=Fact(None), group_limit=Fact(None),
        leading_dense=Fact(1), mlp_types=option("mlp_layer_types"), prediction_depth=Fact(None),
        layers=layers(everywhere("full"), listed_feeds(experts_after_dense)),
        quiet=("router_scaling_factor", "enable_moe_fp32_combine"),
        refusals=(Refusal("mlp_bias", (False,), "its experts have none, and the document has one for both"),),
    ),
    LLAMA.like(
        "phimoe", ("PhimoeForCausalLM", "PhiMoEForCausalLM"), "PhimoeConfig", types=("phimoe",), vocab=32064,
        ffn_hidden=6400, kv_heads=8, max_sequence=131072, mlp_biases=NO, norm=Fact("layernorm"),
        window=option("sliding_window"), experts=option("num_local_experts", default=16),
        top_k=option("num_experts_per_tok", default=2), expert_hidden=AS_MLP,
        head_bias=option("lm_head_bias", default=False),
        layers=layers(windows_everywhere, all_experts), losses=(HEAD_BIAS_IF_ANY,),
        quiet=("input_jitter_noise", "original_max_position_embeddings"),
    ),
    LLAMA.like(
        "olmoe", ("OlmoeForCausalLM",), "OlmoeConfig", types=("olmoe",), vocab=50304, hidden=2048, ffn_hidden=2048,
        layer_count=16, heads=16, max_sequence=4096, mlp_biases=NO, qk_norm_whole=YES,
        head_dim=HIDDEN_BY_HEADS, experts=option("num_experts", "num_local_experts", default=64),
        top_k=option("num_experts_per_tok", default=8), expert_hidden=AS_MLP,
        layers=layers(everywhere("full"), all_experts), refusals=(EVEN_HEADS,),
    ),
    LLAMA.like(
        "flex_olmo", ("FlexOlmoForCausalLM",), "FlexOlmoConfig", types=("flex_olmo",), vocab=100352, max_sequence=4096,
        mlp_biases=NO, qk_norm_whole=YES, experts=option("num_experts", "num_local_experts", default=7),
        top_k=option("num_experts_per_tok", default=5), expert_hidden=AS_MLP,
        layers=layers(everywhere("full"), all_experts),
    ),
    LLAMA.like(
        "dbrx", ("DbrxForCausalLM", "DBRXForCausalLM"), "DbrxConfig", types=("dbrx",),
        hidden=option("d_model", "hidden_size", default=2048),
        layer_count=option("n_layers", "num_hidden_layers", default=24),
        heads=option("n_heads", "num_attention_heads", default=16), head_dim=HIDDEN_BY_HEADS,
        kv_heads=option("attn_config.kv_n_heads", default=1),
        ffn_hidden=option("ffn_config.ffn_hidden_size", default=3584),
        max_sequence=option("max_seq_len", "max_position_embeddings", default=2048), biases=NO, mlp_biases=NO,
        norm=Fact("layernorm-no-bias"), experts=option("ffn_config.moe_num_experts", default=4),
        top_k=option("ffn_config.moe_top_k", default=1), expert_hidden=AS_MLP,
        layers=layers(everywhere("full"), all_experts),
        quiet=("resid_pdrop", "emb_pdrop", "num_key_value_heads"),
    ),
    LLAMA.like(
        "gpt_oss", ("GptOssForCausalLM",), "GptOssConfig", types=("gpt_oss",), vocab=201088, hidden=2880,
        ffn_hidden=2880, layer_count=36, heads=64, kv_heads=8, head_dim=64, max_sequence=131072, biases=True,
        mlp_biases=NO, sinks=YES, window=option("sliding_window", default=128), window_pattern=Fact(2),
        layer_types=option("layer_types"), experts=option("num_local_experts", "num_experts", default=128),
        top_k=option("num_experts_per_tok", "experts_per_token", default=4), expert_hidden=AS_MLP, expert_biases=YES,
        router_bias=YES, layers=layers(listed_mixers(full_every_nth), all_experts),
        quiet=("swiglu_alpha", "swiglu_limit", "initial_context_length"),
    ),
    LLAMA.like(
        "granitemoe", ("GraniteMoeForCausalLM",), "GraniteMoeConfig", types=("granitemoe",), mlp_biases=NO,
        head_dim=HIDDEN_BY_HEADS, experts=option("num_local_experts", default=8),
        top_k=option("num_experts_per_tok", default=2), expert_hidden=AS_MLP,
        layers=layers(everywhere("full"), all_experts), quiet=_GRANITE,
    ),
    LLAMA.like(
        "granitemoeshared", ("GraniteMoeSharedForCausalLM",), "GraniteMoeSharedConfig", types=("granitemoeshared",),
        mlp_biases=NO, head_dim=HIDDEN_BY_HEADS, experts=option("num_local_experts", default=8),
        top_k=option("num_experts_per_tok", default=2), expert_hidden=AS_MLP,
        shared_hidden=option("shared_intermediate_size", default=0), layers=layers(everywhere("full"), all_experts),
        quiet=_GRANITE,
    ),
    LLAMA.like(
        "granitemoe_swa", ("GraniteMoeSWAForCausalLM",), "GraniteMoeSWAConfig", types=("granitemoe_swa",),
        mlp_biases=NO, head_dim=HIDDEN_BY_HEADS, sinks=YES, experts=option("num_local_experts", default=8),
        top_k=option("num_experts_per_tok", default=2), expert_hidden=AS_MLP,
        shared_hidden=option("shared_intermediate_size", default=0), window=option("sliding_window", default=128),
        layer_types=option("layer_types"), layers=layers(listed_mixers(full_first_of(4)), all_experts), quiet=_GRANITE,
    ),
    LLAMA.like(
        "hunyuan_v1_moe", ("HunYuanMoEV1ForCausalLM",), "HunYuanMoEV1Config", types=("hunyuan_v1_moe",), vocab=290943,
        mlp_biases=NO, qk_norm=YES, experts=option("num_experts", "num_local_experts", default=1),
        top_k=option("moe_topk", "num_experts_per_tok", default=1), expert_hidden=AS_MLP, shared_hidden=AS_MLP,
        layers=layers(everywhere("full"), all_experts), quiet=("eod_token_id",),
    ),
    LLAMA.like(
        "minimax_m2", ("MiniMaxM2ForCausalLM",), "MiniMaxM2Config", types=("minimax_m2",), vocab=200064, hidden=3072,
        ffn_hidden=1536, layer_count=62, heads=48, kv_heads=8, head_dim=128, max_sequence=196608, biases=NO,
        mlp_biases=NO, qk_norm_whole=YES, experts=option("num_local_experts", "num_experts", default=256),
        top_k=option("num_experts_per_tok", default=8), expert_hidden=AS_MLP, router_bias=YES,
        layers=layers(everywhere("full"), all_experts),
        refusals=(
            Refusal("use_qk_norm", (True,), "the class normalises queries and keys"),
            Refusal("qk_norm_type", ("per_layer",), "the class normalises all heads at once"),
            Refusal("shared_intermediate_size", (0, None), "the class has no shared expert"),
        ),
        quiet=("rotary_dim", "use_routing_bias", "scoring_func", "mtp_transformer_layers"),
    ),
    LLAMA.like(
        "aria_text", ("AriaTextForCausalLM",), "AriaTextConfig", types=("aria_text",), ffn_hidden=4096,
        experts=option("moe_num_experts", default=8), top_k=option("moe_topk", default=2), expert_hidden=AS_MLP,
        shared_experts=option("moe_num_shared_experts", default=2), shared_hidden=SHARED_WIDTH,
        layers=layers(everywhere("full"), all_experts),
        refusals=(Refusal("mlp_bias", (False,), "its experts have none, and the document has one for both"),),
    ),
]  # fmt: skip


# --- families with experts whose layers stand in an order that only they have


def _cohere_norm(config: Config) -> OriginValue:
    norm = "layernorm-no-bias" if config["rms_epsilon"].value is None else "rmsnorm"
    return config.derived(norm, "by rms_norm_eps", "rms_epsilon")


def _cohere_mixers(config: Config) -> list[Mixer]:
    """Window or full attention per layer, with one period for the leading dense layers and one for the others."""
    ahead, count, window = leading_layers(config, "leading_dense"), layer_count(config), window_or_full(config)
    steps = (config.number("leading_pattern"), config["window_pattern"].value)
    places = [(index + 1, steps[0]) if index < ahead else (index - ahead + 1, steps[1]) for index in range(count)]
    return ["full" if not isinstance(step, int) or step < 1 or place % step == 0 else window for place, step in places]


def _llama_4_feeds(config: Config) -> list[Feed]:
    """Experts in the layers listed, or in every nth layer if there is no list."""
    step, listed = config.number("sparse_step"), listed_layers(config)
    every = config["numbered_layers"].value is None
    return [
        "experts" if ((index + 1) % step == 0 if every else index in listed) else "mlp"
        for index in range(layer_count(config))
    ]


def _ernie_feeds(config: Config) -> list[Feed]:
    """Experts in every nth layer between a first and a last layer."""
    count, step = layer_count(config), config.number("sparse_step")
    first, last = config["leading_dense"].value, config["last_sparse"].value
    end = count - 1 if last is None or last < 0 else last
    return [
        sparse_feed(config) if (index + 1) % step == 0 and (first or 0) <= index <= end else "mlp"
        for index in range(count)
    ]


def _flint_mixers(config: Config) -> list[Mixer]:
    """Full attention in the first two layers, in every fourth layer after them, and in the last layer."""
    count, window = layer_count(config), window_or_full(config)
    return ["full" if index < 2 or index % 4 == 1 or index == count - 1 else window for index in range(count)]


FIRST_TWO = DerivedValue("layers 0 and 1", lambda config: config.derived([0, 1], "layers 0 and 1"))

MIXED_ORDER_FAMILIES = [
    LLAMA.like(
        "llama4_text", ("Llama4ForCausalLM",), "Llama4TextConfig", types=("llama4_text",), vocab=202048, hidden=5120,
        ffn_hidden=option("intermediate_size_mlp", default=16384), layer_count=48, heads=40, kv_heads=8, head_dim=128,
        max_sequence=131072, mlp_biases=NO, window=option("attention_chunk_size", default=8192),
        window_pattern=option("no_rope_layer_interval", default=4), block_types=option("no_rope_layers"),
        layer_types=option("layer_types"), sparse_step=option("interleave_moe_layer_step", default=1),
        numbered_layers=option("moe_layers"), experts=option("num_local_experts", default=16),
        top_k=option("num_experts_per_tok", default=1), expert_hidden=option("intermediate_size", default=8192),
        shared_hidden=copy_of("expert_hidden"), module_runs=Fact("all"),
        layers=layers(listed_mixers(chunks_with_positions), _llama_4_feeds),
        losses=(CHUNKS,),
        quiet=("use_qk_norm", "attn_temperature_tuning", "floor_scale", "attn_scale", "for_llm_compressor"),
    ),
    LLAMA.like(
        "ernie4_5_moe", ("Ernie4_5_MoeForCausalLM", "Ernie4_5_MoEForCausalLM"), "Ernie4_5_MoeConfig",
        types=("ernie4_5_moe",), vocab=103424, hidden=2560, ffn_hidden=12288, layer_count=28, heads=20, kv_heads=4,
        max_sequence=131072, tied=True, biases=option("use_bias", default=False), mlp_biases=copy_of("biases"),
        experts=option("moe_num_experts", "num_experts", default=64),
        top_k=option("moe_k", "num_experts_per_tok", default=6),
        expert_hidden=option("moe_intermediate_size", default=1536), router_bias=YES,
        shared_experts=option("moe_num_shared_experts", default=2), shared_hidden=SHARED_WIDTH,
        leading_dense=option("moe_layer_start_index", default=1), last_sparse=option("moe_layer_end_index", default=-1),
        sparse_step=option("moe_layer_interval", default=1), layers=layers(everywhere("full"), _ernie_feeds),
        quiet=("moe_norm_min", "moe_capacity", "moe_use_aux_free"),
        refusals=(Refusal("use_bias", (False,), "its experts have none, and the document has one for all"),),
    ),
    QWEN_2_MOE.like(
        "flint", ("FlintForCausalLM",), "FlintConfig", types=("flint",), vocab=150144, ffn_hidden=6144, layer_count=49,
        heads=32, kv_heads=4, head_dim=128, max_sequence=262144, biases=option("attention_bias", default=False),
        output_bias=copy_of("biases"), qk_norm=YES, sinks=YES, window=option("sliding_window", default=513),
        experts=256, top_k=6, expert_hidden=512, shared_hidden=1024, shared_gate=NO,
        numbered_layers=option("mlp_only_layers", null=FIRST_TWO),
        layers=layers(listed_mixers(_flint_mixers), experts_every_nth), refusals=(),
    ),
    LLAMA.like(
        "cohere2_moe", ("Cohere2MoeForCausalLM",), "Cohere2MoeConfig", types=("cohere2_moe",), vocab=256000,
        hidden=8192, layer_count=40, heads=64, head_dim=128, max_sequence=8192, tied=True, mlp_biases=NO,
        ffn_hidden=option("prefix_dense_intermediate_size", null=copy_of("expert_hidden")),
        parallel=YES, norms=1,
        norm=DerivedValue("rmsnorm with rms_norm_eps, else layernorm-no-bias", _cohere_norm),
        rms_epsilon=option("rms_norm_eps"), window=option("sliding_window", default=4096),
        window_pattern=option("sliding_window_pattern", default=4), layer_types=option("layer_types"),
        mlp_types=option("mlp_layer_types"), leading_dense=option("first_k_dense_replace", default=0),
        experts=option("num_experts", default=8), top_k=option("num_experts_per_tok", default=2),
        expert_hidden=option("intermediate_size", default=22528),
        shared_experts=option("num_shared_experts", default=0),
        shared_hidden=SHARED_WIDTH,
        leading_pattern=option("prefix_dense_sliding_window_pattern", default=1),
        layers=layers(listed_mixers(_cohere_mixers), listed_feeds(experts_after_dense)),
        quiet=("logit_scale", "shared_expert_combination_strategy", "expert_selection_fn"),
    ),
    LLAMA.like(
        "mellum", ("MellumForCausalLM",), "MellumConfig", types=("mellum",), vocab=98304, hidden=2304, ffn_hidden=7168,
        layer_count=28, kv_heads=4, head_dim=128, max_sequence=131072, mlp_biases=NO, qk_norm=YES,
        experts=option("num_local_experts", "num_experts", default=64), top_k=option("num_experts_per_tok", default=8),
        expert_hidden=option("moe_intermediate_size", default=896), window=option("sliding_window", default=1024),
        layer_types=option("layer_types"), mlp_types=option("mlp_layer_types"),
        prediction_depth=option("num_nextn_predict_layers", "num_mtp_layers"),
        layers=layers(listed_mixers(everywhere("full")), listed_feeds(all_experts)),
        quiet=("mtp_layer_types", "mtp_mlp_layer_types"),
    ),
    LLAMA.like(
        "kolibri1", ("Kolibri1ForCausalLM",), "Kolibri1Config", types=("kolibri1",), vocab=128000, hidden=2560,
        ffn_hidden=copy_of("expert_hidden"), layer_count=50, heads=48, kv_heads=4, head_dim=128, max_sequence=262144,
        biases=NO, mlp_biases=NO, qk_norm=YES, norms=4, window=option("sliding_window", default=513),
        window_pattern=Fact(5), layer_types=option("layer_types"),
        experts=option("num_local_experts", "num_experts", default=384), top_k=option("num_experts_per_tok", default=6),
        expert_hidden=option("moe_intermediate_size", default=512), router_bias=YES,
        shared_hidden=option("shared_expert_intermediate_size", default=512),
        layers=layers(listed_mixers(full_every_nth), all_experts),
    ),
]  # fmt: skip
