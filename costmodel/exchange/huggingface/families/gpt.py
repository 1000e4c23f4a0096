"""The GPT families: layer norms with biases, two-matrix MLPs, and learned, ALiBi or rotary positions."""

from __future__ import annotations

from collections.abc import Sequence

from costmodel.exchange.huggingface.families.llama import LLAMA
from costmodel.exchange.huggingface.family import (
    Config,
    DerivedValue,
    Fact,
    Family,
    LayerHalves,
    Mixer,
    Refusal,
    option,
    standard_layer,
)
from costmodel.exchange.huggingface.layer_patterns import (
    ALIBI_OR_ROTARY,
    HEAD_BIAS,
    HIDDEN_BY_HEADS,
    NO_LAST_NORM,
    NO_NORM_WEIGHTS,
    PARALLEL_NORMS,
    SINUSOIDS,
    TWO_MORE_ROWS,
    all_mlps,
    assumed_value,
    copy_of,
    everywhere,
    layer_count,
    layers,
    multiple_of,
    one_if,
    per_layer,
    product_of,
    uncounted_parameters,
    window_or_full,
    windows_everywhere,
)
from costmodel.exchange.import_result import OriginValue

YES, NO = Fact(True), Fact(False)
FOUR_HIDDEN = multiple_of("hidden", 4)
NO_CROSS_ATTENTION = Refusal("add_cross_attention", (False,), "the model document has no attention to an encoder")

GPT_2 = Family(
    "gpt2",
    ("GPT2LMHeadModel",),
    "GPT2Config",
    {
        "vocab": option("vocab_size", default=50257),
        "hidden": option("n_embd", "hidden_size", default=768),
        "layer_count": option("n_layer", "num_hidden_layers", default=12),
        "heads": option("n_head", "num_attention_heads", default=12),
        "kv_heads": copy_of("heads"),
        "head_dim": HIDDEN_BY_HEADS,
        "ffn_hidden": option("n_inner", null=FOUR_HIDDEN),
        "max_sequence": option("n_positions", "max_position_embeddings", default=1024),
        "tied": option("tie_word_embeddings", default=True),
        "biases": YES,
        "output_bias": YES,
        "mlp_biases": YES,
        "gated": NO,
        "norm": Fact("layernorm"),
        "norms": Fact(2),
        "positions": Fact("learned"),
    },
    layers(everywhere("full"), all_mlps),
    standard_layer,
    types=("gpt2", "gpt-sw3"),
    refusals=(NO_CROSS_ATTENTION,),
    quiet=(
        "n_ctx", "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels",
        "summary_first_dropout", "scale_attn_weights", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn",
        "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "afn", "rotary_dim",
    ),
)  # fmt: skip
GPT_J = GPT_2.like(
    "gptj", ("GPTJForCausalLM",), "GPTJConfig", types=("gptj",), vocab=50400, hidden=4096, layer_count=28, heads=16,
    max_sequence=2048, tied=False, biases=NO, output_bias=NO, parallel=YES, norms=1, positions="rotary",
    losses=(HEAD_BIAS,), refusals=(),
)  # fmt: skip


# --- GPT-Neo: every second layer sees a window


def _gpt_neo_layers(config: Config) -> Sequence[LayerHalves]:
    """The layers of attention_types such as [[["global", "local"], 12]]: a list of kinds and its repeat count."""
    listed, count = config["block_types"], layer_count(config)
    if listed.value is None:
        return [LayerHalves(("full", window_or_full(config))[index % 2], "mlp") for index in range(count)]
    mixers: list[Mixer] = []
    for entry in listed.value:
        run, often = entry if isinstance(entry, list) and len(entry) == 2 else (None, 0)
        if not isinstance(run, list) or not isinstance(often, int) or not 0 <= often <= count:
            config.refuse("D006", "a list of kinds and how often is expected in attention_types", listed.place)
            return [LayerHalves("full", "mlp")] * count
        mixers += [window_or_full(config) if kind == "local" else "full" for kind in run] * often
    if len(mixers) != count:
        config.refuse("X005", f"attention_types makes {len(mixers)} layers, and the model has {count}", listed.place)
        return [LayerHalves("full", "mlp")] * count
    return [LayerHalves(mixer, "mlp") for mixer in mixers]


# --- Falcon: three architectures in one class


def _falcon_kv_heads(config: Config) -> OriginValue:
    """The number of key-value heads of Falcon: as stated for new decoders, 1 for multi-query, else all heads."""
    if config.flag("new_decoder"):
        return config["falcon_kv_heads"]
    return config.derived(1, "multi_query: 1", "multi_query") if config.flag("multi_query") else config["heads"]


def _falcon_norms(config: Config) -> OriginValue:
    """The number of normalisations: 2 for sequential halves; 1 or 2 for parallel halves."""
    if not config.flag("parallel_attention"):
        return config.derived(2, "one before each half", "parallel_attention")
    two = config["falcon_norms"].value == 2 or (config["falcon_norms"].value is None and config.flag("new_decoder"))
    return config.derived(2 if two else 1, "by num_ln_in_parallel_attn, new_decoder_architecture", "new_decoder")


def _falcon_parallel(config: Config) -> OriginValue:
    """Whether attention and MLP of Falcon run in parallel, as in all new decoders."""
    parallel = config.flag("new_decoder") or config.flag("parallel_attention")
    return config.derived(parallel, "parallel_attn, or new_decoder_architecture", "parallel_attention", "new_decoder")


FAMILIES = [
    GPT_2,
    GPT_J,
    GPT_J.like("codegen", ("CodeGenForCausalLM",), "CodeGenConfig", types=("codegen",)),
    GPT_2.like(
        "gpt_bigcode", ("GPTBigCodeForCausalLM",), "GPTBigCodeConfig", types=("gpt_bigcode",),
        multi_query=option("multi_query", default=True), kv_heads=one_if("multi_query", "heads"),
        quiet=(*GPT_2.quiet, "num_key_value_heads", "attention_head_type", "inference_runner", "validate_runner_input",
               "pre_allocate_kv_cache", "max_sequence_length", "max_batch_size", "pad_key_length"),
    ),
    GPT_2.like(
        "openai-gpt", ("OpenAIGPTLMHeadModel",), "OpenAIGPTConfig", types=("openai-gpt",), vocab=40478,
        max_sequence=512, ffn_hidden=FOUR_HIDDEN, losses=(NO_LAST_NORM,), refusals=(),
    ),
    GPT_2.like(
        "ctrl", ("CTRLLMHeadModel",), "CTRLConfig", types=("ctrl",), vocab=246534, hidden=1280, layer_count=48,
        heads=16, max_sequence=256, ffn_hidden=option("dff", default=8192), positions="rotary",
        losses=(HEAD_BIAS, SINUSOIDS), refusals=(),
    ),
    GPT_2.like(
        "gpt_neo", ("GPTNeoForCausalLM",), "GPTNeoConfig", types=("gpt_neo",),
        hidden=option("hidden_size", default=2048), layer_count=option("num_layers", "num_hidden_layers", default=24),
        heads=option("num_heads", "num_attention_heads", default=16),
        ffn_hidden=option("intermediate_size", null=FOUR_HIDDEN),
        max_sequence=option("max_position_embeddings", default=2048), biases=NO,
        window=option("window_size", default=256), block_types=option("attention_types"), layers=_gpt_neo_layers,
        quiet=("attention_layers", "resid_dropout", "embed_dropout"), refusals=(),
    ),
    LLAMA.like(
        "gpt_neox", ("GPTNeoXForCausalLM",), "GPTNeoXConfig", types=("gpt_neox",), vocab=50432, hidden=6144,
        layer_count=44, heads=64, kv_heads=copy_of("heads"), head_dim=HIDDEN_BY_HEADS, ffn_hidden=24576,
        biases=option("attention_bias", default=True, since="4.37"), mlp_biases=YES, gated=NO, norm="layernorm",
        parallel=option("use_parallel_residual", default=True), quiet=("rotary_pct", "rotary_emb_base"),
    ),
    LLAMA.like(
        "gpt_neox_japanese", ("GPTNeoXJapaneseForCausalLM",), "GPTNeoXJapaneseConfig", types=("gpt_neox_japanese",),
        hidden=2560, kv_heads=copy_of("heads"), head_dim=HIDDEN_BY_HEADS, tied=True,
        expansion=option("intermediate_multiple_size", default=4), ffn_hidden=product_of("expansion", "hidden"),
        biases=NO, mlp_biases=NO, gated=NO, norm="layernorm", quiet=("rotary_pct", "rotary_emb_base"),
        losses=(uncounted_parameters("the last layer's attention has a bias", lambda config: config.number("hidden")),),
    ),
    LLAMA.like(
        "bloom", ("BloomForCausalLM",), "BloomConfig", types=("bloom",), vocab=250880,
        hidden=option("hidden_size", "n_embed", "n_embd", default=64),
        layer_count=option("n_layer", "num_hidden_layers", default=2),
        heads=option("n_head", "num_attention_heads", default=8), kv_heads=copy_of("heads"), head_dim=HIDDEN_BY_HEADS,
        ffn_hidden=FOUR_HIDDEN,
        max_sequence=option("seq_length", null=assumed_value(2048, "BLOOM was trained on 2048; no option states it")),
        tied=True, biases=YES, mlp_biases=YES, gated=NO, norm="layernorm", positions="alibi", embedding_norm=YES,
        quiet=("apply_residual_connection_post_layernorm", "slow_but_exact", "offset_alibi", "skip_bias_add",
               "skip_bias_add_qkv", "unk_token_id", "masked_softmax_fusion", "bias_dropout_fusion", "n_inner"),
    ),
    LLAMA.like(
        "opt", ("OPTForCausalLM",), "OPTConfig", types=("opt",), vocab=50272, hidden=768, layer_count=12, heads=12,
        kv_heads=copy_of("heads"), head_dim=HIDDEN_BY_HEADS, ffn_hidden=option("ffn_dim", default=3072), tied=True,
        position_rows=TWO_MORE_ROWS,
        biases=option("enable_bias", default=True), mlp_biases=copy_of("biases"), gated=NO, norm="layernorm",
        positions="learned", last_norm=option("do_layer_norm_before", default=True),
        losses=(
            uncounted_parameters(
                "there is no normalisation before the head", lambda config: -2 * config.number("hidden"),
                lambda config: not config.flag("last_norm"),
            ),
        ),
        refusals=(
            Refusal("word_embed_proj_dim", ("=hidden", None), "the model document has one width"),
            Refusal("layer_norm_elementwise_affine", (True,), "normalisations have weights in the model document"),
            Refusal("_remove_final_layer_norm", (False,), "the document has a normalisation before the head"),
        ),
        quiet=("layerdrop",),
    ),
    LLAMA.like(
        "falcon", ("FalconForCausalLM", "RWForCausalLM"), "FalconConfig",
        types=("falcon", "RefinedWeb", "RefinedWebModel"), vocab=65024,
        hidden=option("hidden_size", "n_embed", default=4544),
        layer_count=option("num_hidden_layers", "n_layer", default=32),
        heads=option("num_attention_heads", "n_head", default=71), head_dim=HIDDEN_BY_HEADS, tied=True,
        ffn_hidden=option("ffn_hidden_size", null=FOUR_HIDDEN, since="4.40"),
        new_decoder=option("new_decoder_architecture", default=False),
        multi_query=option("multi_query", default=True),
        parallel_attention=option("parallel_attn", default=True),
        falcon_kv_heads=option("num_kv_heads", "n_head_kv", null=copy_of("heads")),
        falcon_norms=option("num_ln_in_parallel_attn"),
        kv_heads=DerivedValue("num_kv_heads in the new decoder, else 1 with multi_query, else heads", _falcon_kv_heads),
        parallel=DerivedValue("parallel_attn, or new_decoder_architecture", _falcon_parallel),
        norms=DerivedValue("by parallel_attn and num_ln_in_parallel_attn", _falcon_norms),
        alibi=option("alibi", default=False), positions=ALIBI_OR_ROTARY, biases=option("bias", default=False),
        mlp_biases=copy_of("biases"), gated=NO, norm="layernorm", quiet=("activation",),
    ),
    LLAMA.like(
        "mpt", ("MptForCausalLM", "MPTForCausalLM"), "MptConfig", types=("mpt",), vocab=50368,
        hidden=option("d_model", "hidden_size", default=2048),
        layer_count=option("n_layers", "num_hidden_layers", default=24),
        heads=option("n_heads", "num_attention_heads", default=16), kv_heads=copy_of("heads"), head_dim=HIDDEN_BY_HEADS,
        ffn_hidden=FOUR_HIDDEN, max_sequence=option("max_seq_len", default=2048), tied=True, biases=NO, mlp_biases=NO,
        gated=NO, norm="layernorm-no-bias", positions="alibi",
        refusals=(
            Refusal("attn_config.attn_type", ("multihead_attention",), "the class builds equal heads alone"),
            Refusal("attn_config.alibi", (True,), "the class builds ALiBi alone"),
            Refusal("attn_config.qk_ln", (False,), "the class builds no normalisation of queries and keys"),
            Refusal("no_bias", (True,), "the class builds no biases"),
            Refusal("expansion_ratio", (4,), "the class builds an MLP of 4 x hidden alone"),
            Refusal("attn_config.prefix_lm", (False,), "attention is causal in the model document"),
        ),
        quiet=("learned_pos_emb", "init_device", "logit_scale", "embedding_fraction", "norm_type",
               "init_config", "verbose", "emb_pdrop", "resid_pdrop"),
    ),
    LLAMA.like(
        "phi", ("PhiForCausalLM",), "PhiConfig", types=("phi",), vocab=51200, hidden=2048, layer_count=24,
        ffn_hidden=8192, head_dim=HIDDEN_BY_HEADS, biases=YES, mlp_biases=YES, gated=NO, norm="layernorm", parallel=YES,
        norms=1, qk_norm=option("qk_layernorm", default=False), losses=(HEAD_BIAS,),
    ),
    LLAMA.like(
        "persimmon", ("PersimmonForCausalLM",), "PersimmonConfig", types=("persimmon",), vocab=262144, layer_count=36,
        heads=64, kv_heads=copy_of("heads"), head_dim=HIDDEN_BY_HEADS, ffn_hidden=16384, max_sequence=16384, biases=YES,
        mlp_biases=YES, gated=NO, norm="layernorm", qk_norm=option("qk_layernorm", default=True),
    ),
    LLAMA.like(
        "stablelm", ("StableLmForCausalLM", "StableLMEpochForCausalLM"), "StableLmConfig",
        types=("stablelm", "stablelm_epoch"), vocab=50304, hidden=2560, ffn_hidden=6912, kv_heads=32,
        head_dim=HIDDEN_BY_HEADS, max_sequence=4096, biases=option("use_qkv_bias", default=False), output_bias=NO,
        mlp_biases=NO, norm="layernorm", parallel=option("use_parallel_residual", default=False),
        norms=PARALLEL_NORMS, qk_norm_whole=option("qk_layernorm", default=False),
        losses=(
            uncounted_parameters(
                "normalisations of queries and keys have no biases",
                per_layer(
                    lambda config: -(config.number("heads") + config.number("kv_heads")) * config.number("head_dim")
                ),
                lambda config: config.flag("qk_norm_whole"),
            ),
        ),
        quiet=("rope_pct",),
    ),
    LLAMA.like(
        "starcoder2", ("Starcoder2ForCausalLM",), "Starcoder2Config", types=("starcoder2",), vocab=49152, hidden=3072,
        layer_count=30, heads=24, kv_heads=2, ffn_hidden=12288, max_sequence=4096, tied=True, head_dim=HIDDEN_BY_HEADS,
        biases=option("use_bias", default=True), mlp_biases=copy_of("biases"), gated=NO, norm="layernorm",
        window=option("sliding_window"), layers=layers(windows_everywhere, all_mlps),
        quiet=("residual_dropout", "embedding_dropout", "norm_epsilon", "activation_function", "norm_type", "mlp_type"),
    ),
    LLAMA.like(
        "biogpt", ("BioGptForCausalLM",), "BioGptConfig", types=("biogpt",), vocab=42384, hidden=1024, layer_count=24,
        heads=16, kv_heads=copy_of("heads"), head_dim=HIDDEN_BY_HEADS, ffn_hidden=4096, max_sequence=1024, tied=True,
        position_rows=TWO_MORE_ROWS,
        biases=YES, mlp_biases=YES, gated=NO, norm="layernorm", positions="learned", quiet=("layerdrop",),
    ),
    LLAMA.like(
        "xglm", ("XGLMForCausalLM",), "XGLMConfig", types=("xglm",), vocab=256008,
        hidden=option("d_model", "hidden_size", default=1024),
        layer_count=option("num_layers", "num_hidden_layers", default=24),
        heads=option("attention_heads", "num_attention_heads", default=16), kv_heads=copy_of("heads"),
        head_dim=HIDDEN_BY_HEADS, ffn_hidden=option("ffn_dim", default=4096), tied=True, biases=YES, mlp_biases=YES,
        gated=NO, norm="layernorm", losses=(SINUSOIDS,), refusals=(NO_CROSS_ATTENTION,), quiet=("layerdrop",),
    ),
    LLAMA.like(
        "nanochat", ("NanoChatForCausalLM",), "NanoChatConfig", types=("nanochat",), vocab=50304, hidden=768,
        ffn_hidden=8192, layer_count=12, heads=6, gated=NO, mlp_biases=NO,
        losses=(NO_NORM_WEIGHTS,), quiet=("final_logit_softcapping",),
    ),
]  # fmt: skip
