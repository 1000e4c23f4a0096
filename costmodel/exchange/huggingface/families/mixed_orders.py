"""Families with experts whose layers stand in an order that only they have."""

from __future__ import annotations

from costmodel.exchange.huggingface.families.llama import LLAMA
from costmodel.exchange.huggingface.families.mixtures import QWEN_2_MOE
from costmodel.exchange.huggingface.family import Config, DerivedValue, Fact, Feed, Mixer, Refusal, option
from costmodel.exchange.huggingface.patterns import (
    CHUNKS,
    SHARED_WIDTH,
    all_experts,
    by_layer_type,
    by_mlp_type,
    chunks_with_positions,
    copy_of,
    everywhere,
    full_every,
    layer_count,
    layers,
    leading_dense,
    leading_layers,
    listed_layers,
    sparse_feed,
    sparse_steps,
    windowed,
)
from costmodel.exchange.import_result import OriginValue

YES, NO = Fact(True), Fact(False)


def _cohere_norm(config: Config) -> OriginValue:
    norm = "layernorm-no-bias" if config["rms_epsilon"].value is None else "rmsnorm"
    return config.derived(norm, "by rms_norm_eps", "rms_epsilon")


def _cohere_mixers(config: Config) -> list[Mixer]:
    """Window or full attention per layer, with one period for the leading dense layers and one for the others."""
    ahead, count, window = leading_layers(config, "leading_dense"), layer_count(config), windowed(config)
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
    count, window = layer_count(config), windowed(config)
    return ["full" if index < 2 or index % 4 == 1 or index == count - 1 else window for index in range(count)]


FIRST_TWO = DerivedValue("layers 0 and 1", lambda config: config.derived([0, 1], "layers 0 and 1"))

FAMILIES = [
    LLAMA.like(
        "llama4_text", ("Llama4ForCausalLM",), "Llama4TextConfig", types=("llama4_text",), vocab=202048, hidden=5120,
        ffn_hidden=option("intermediate_size_mlp", default=16384), layer_count=48, heads=40, kv_heads=8, head_dim=128,
        max_sequence=131072, mlp_biases=NO, window=option("attention_chunk_size", default=8192),
        window_pattern=option("no_rope_layer_interval", default=4), block_types=option("no_rope_layers"),
        layer_types=option("layer_types"), sparse_step=option("interleave_moe_layer_step", default=1),
        numbered_layers=option("moe_layers"), experts=option("num_local_experts", default=16),
        top_k=option("num_experts_per_tok", default=1), expert_hidden=option("intermediate_size", default=8192),
        shared_hidden=copy_of("expert_hidden"), module_runs=Fact("all"),
        layers=layers(by_layer_type(chunks_with_positions), _llama_4_feeds),
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
        layers=layers(by_layer_type(_flint_mixers), sparse_steps), refusals=(),
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
        layers=layers(by_layer_type(_cohere_mixers), by_mlp_type(leading_dense)),
        quiet=("logit_scale", "shared_expert_combination_strategy", "expert_selection_fn"),
    ),
    LLAMA.like(
        "mellum", ("MellumForCausalLM",), "MellumConfig", types=("mellum",), vocab=98304, hidden=2304, ffn_hidden=7168,
        layer_count=28, kv_heads=4, head_dim=128, max_sequence=131072, mlp_biases=NO, qk_norm=YES,
        experts=option("num_local_experts", "num_experts", default=64), top_k=option("num_experts_per_tok", default=8),
        expert_hidden=option("moe_intermediate_size", default=896), window=option("sliding_window", default=1024),
        layer_types=option("layer_types"), mlp_types=option("mlp_layer_types"),
        prediction_depth=option("num_nextn_predict_layers", "num_mtp_layers"),
        layers=layers(by_layer_type(everywhere("full")), by_mlp_type(all_experts)),
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
        layers=layers(by_layer_type(full_every), all_experts),
    ),
]  # fmt: skip
