"""The Llama families: dense, with rotary positions, RMS norms and, mostly, three-matrix MLPs."""

from __future__ import annotations

from costmodel.exchange.huggingface.family import Fact, Family, Refusal, option, standard_layer
from costmodel.exchange.huggingface.layer_patterns import (
    HIDDEN_BY_HEADS,
    NO_NORM_WEIGHTS,
    POST_NORMS,
    all_mlps,
    copy_of,
    everywhere,
    full_every_nth,
    full_first_of,
    heads_fill_hidden,
    layers,
    listed_mixers,
    per_layer,
    uncounted_parameters,
    windows_after_first,
    windows_everywhere,
    windows_without_positions,
)

YES, NO = Fact(True), Fact(False)
ALTERNATING = layers(listed_mixers(full_every_nth), all_mlps)

EVEN_HEADS = Refusal("head_dim", ("=head_dim", None), "the class works with heads of hidden size / heads alone")

LLAMA = Family(
    "llama",
    ("LlamaForCausalLM", "LLaMAForCausalLM"),
    "LlamaConfig",
    {
        "vocab": option("vocab_size", default=32000),
        "hidden": option("hidden_size", default=4096),
        "layer_count": option("num_hidden_layers", default=32),
        "heads": option("num_attention_heads", default=32),
        "kv_heads": option("num_key_value_heads", null=copy_of("heads")),
        "head_dim": option("head_dim", null=HIDDEN_BY_HEADS, since="4.45"),
        "ffn_hidden": option("intermediate_size", default=11008),
        "max_sequence": option("max_position_embeddings", default=2048),
        "tied": option("tie_word_embeddings", default=False),
        "biases": option("attention_bias", default=False),
        "output_bias": copy_of("biases"),
        "mlp_biases": option("mlp_bias", default=False),
        "gated": Fact(True),
        "norm": Fact("rmsnorm"),
        "norms": Fact(2),
        "positions": Fact("rotary"),
    },
    layers(everywhere("full"), all_mlps),
    standard_layer,
    types=("llama",),
)
PLAIN = LLAMA.like(  # no biases, even where the file states some
    "plain", (), "", biases=NO, mlp_biases=NO, types=(), head_dim=option("head_dim", null=HIDDEN_BY_HEADS)
)

# Encoders: attention of all tokens to all, a norm behind each half, and a head that guesses hidden tokens.
BERT = LLAMA.like(
    "bert", ("BertForMaskedLM",), "BertConfig", types=("bert",), vocab=30522, hidden=768, layer_count=12, heads=12,
    kv_heads=copy_of("heads"), head_dim=HIDDEN_BY_HEADS, ffn_hidden=3072, max_sequence=512, biases=YES, output_bias=YES,
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
    LLAMA,
    LLAMA.like(
        "internlm3", ("LlamaForCausalLM", "InternLM3ForCausalLM"), "InternLM3Config", types=("internlm3",),
        vocab=128512, ffn_hidden=10240, layer_count=48, kv_heads=2, head_dim=128, max_sequence=32768,
        biases=option("attention_bias", "qkv_bias", default=False),
        mlp_biases=option("mlp_bias", "bias", default=False),
    ),
    LLAMA.like(
        "exaone", ("LlamaForCausalLM", "ExaoneForCausalLM"), "ExaoneConfig", types=("exaone",), vocab=102400,
        ffn_hidden=14336, kv_heads=8, max_sequence=4096,
        layer_count=option("num_hidden_layers", "num_layers", default=32),
    ),
    LLAMA.like(
        "iquestcoder", ("LlamaForCausalLM", "IQuestCoderForCausalLM"), "IQuestCoderConfig",
        types=("iquestcoder",), vocab=76800, hidden=5120,
        ffn_hidden=27648, layer_count=80, heads=40, kv_heads=8, head_dim=128,
        max_sequence=131072,
    ),
    LLAMA.like(
        "granite", ("GraniteForCausalLM",), "GraniteConfig", types=("granite",), head_dim=HIDDEN_BY_HEADS,
        quiet=("embedding_multiplier", "logits_scaling", "residual_multiplier", "attention_multiplier"),
    ),
    LLAMA.like(
        "granite_swa", ("GraniteSWAForCausalLM",), "GraniteSWAConfig", types=("granite_swa",), vocab=100352,
        hidden=2560, ffn_hidden=8192, layer_count=24, heads=20, kv_heads=4, max_sequence=8192, tied=True, sinks=YES,
        head_dim=HIDDEN_BY_HEADS, window=option("sliding_window", default=128), layer_types=option("layer_types"),
        layers=layers(listed_mixers(full_first_of(4)), all_mlps),
        quiet=(
            "embedding_multiplier", "logits_scaling", "residual_multiplier", "attention_multiplier",
            "layer_rope_theta",
        ),
    ),
    LLAMA.like(
        "hyperclovax", ("HyperCLOVAXForCausalLM",), "HyperCLOVAXConfig", types=("hyperclovax",),
        post_norms=option("use_post_norm", default=True), norms=POST_NORMS,
        quiet=("embedding_multiplier", "logits_scaling", "residual_multiplier", "attention_multiplier"),
    ),
    LLAMA.like(
        "helium", ("HeliumForCausalLM",), "HeliumConfig", types=("helium",), vocab=48000, hidden=2560,
        ffn_hidden=7040, layer_count=24, heads=20, kv_heads=20, max_sequence=4096, output_bias=NO,
        head_dim=option("head_dim", default=128),
        losses=(heads_fill_hidden,),
    ),
    LLAMA.like(
        "cwm", ("CwmForCausalLM",), "CwmConfig", types=("cwm",), vocab=128256, hidden=6144, ffn_hidden=21504,
        layer_count=64, heads=48, kv_heads=8, head_dim=128, max_sequence=131072, biases=NO,
        window=option("sliding_window", default=8192), layer_types=option("layer_types"),
        layers=layers(listed_mixers(full_first_of(4)), all_mlps),
    ),
    LLAMA.like(
        "seed_oss", ("SeedOssForCausalLM",), "SeedOssConfig", types=("seed_oss",), vocab=155136, ffn_hidden=27648,
        layer_count=64, heads=80, kv_heads=8, head_dim=128, max_sequence=524288, biases=True,
        output_bias=option("attention_out_bias", default=False), quiet=("residual_dropout",),
    ),
    LLAMA.like(
        "arcee", ("ArceeForCausalLM",), "ArceeConfig", types=("arcee",), hidden=2560, ffn_hidden=18432,
        max_sequence=4096, gated=NO,
    ),
    LLAMA.like(
        "apertus", ("ApertusForCausalLM",), "ApertusConfig", types=("apertus",), vocab=131072, ffn_hidden=14336,
        max_sequence=65536, gated=NO, mlp_biases=NO, qk_norm=YES,
        losses=(uncounted_parameters("the activation has two parameters in every layer", per_layer(lambda config: 2)),),
    ),
    LLAMA.like(
        "jais2", ("Jais2ForCausalLM",), "Jais2Config", types=("jais2",), vocab=150272, hidden=3328,
        ffn_hidden=26624, heads=26, max_sequence=8192, biases=True, mlp_biases=True, gated=NO, norm=Fact("layernorm"),
    ),
    LLAMA.like(
        "nemotron", ("NemotronForCausalLM",), "NemotronConfig", types=("nemotron",), vocab=256000, hidden=6144,
        ffn_hidden=24576, heads=48, max_sequence=4096, gated=NO, norm=Fact("layernorm"),
    ),
    LLAMA.like(
        "ernie4_5", ("Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM"), "Ernie4_5Config",
        types=("ernie4_5",), vocab=103424, hidden=1024,
        ffn_hidden=3072, layer_count=18, heads=16, kv_heads=2, head_dim=128, max_sequence=131072, tied=True,
        biases=option("use_bias", default=False), mlp_biases=copy_of("biases"),
    ),
    LLAMA.like(
        "hunyuan_v1_dense", ("HunYuanDenseV1ForCausalLM",), "HunYuanDenseV1Config", types=("hunyuan_v1_dense",),
        vocab=290943, mlp_biases=NO, qk_norm=YES, quiet=("eod_token_id",),
    ),
    LLAMA.like(
        "smollm3", ("SmolLM3ForCausalLM",), "SmolLM3Config", types=("smollm3",), vocab=128256, hidden=2048,
        layer_count=36, heads=16, kv_heads=4, max_sequence=32768, tied=True,
        window=option("sliding_window"), windowed=option("use_sliding_window", default=False),
        block_types=option("no_rope_layers"), window_pattern=option("no_rope_layer_interval", default=4),
        layer_types=option("layer_types"), layers=layers(listed_mixers(windows_without_positions), all_mlps),
    ),
    LLAMA.like(
        "glm", ("GlmForCausalLM",), "GlmConfig", types=("glm",), vocab=151552, ffn_hidden=13696, layer_count=40,
        kv_heads=2, head_dim=128, max_sequence=131072, biases=True, output_bias=NO, mlp_biases=NO,
    ),
    LLAMA.like(
        "glm4", ("Glm4ForCausalLM",), "Glm4Config", types=("glm4",), vocab=151552, ffn_hidden=13696, layer_count=40,
        kv_heads=2, head_dim=128, max_sequence=131072, biases=True, output_bias=NO, mlp_biases=NO, norms=4,
    ),
    LLAMA.like(
        "olmo", ("OlmoForCausalLM",), "OlmoConfig", types=("olmo",), vocab=50304, mlp_biases=NO,
        losses=(NO_NORM_WEIGHTS,), quiet=("clip_qkv",),
    ),
    LLAMA.like(
        "olmo2", ("Olmo2ForCausalLM",), "Olmo2Config", types=("olmo2",), vocab=50304, mlp_biases=NO,
        qk_norm_whole=YES,
    ),
    LLAMA.like(
        "olmo3", ("Olmo3ForCausalLM",), "Olmo3Config", types=("olmo3",), vocab=50304, mlp_biases=NO,
        qk_norm_whole=YES, window=option("sliding_window", default=4096), window_pattern=Fact(4),
        layer_types=option("layer_types"), layers=ALTERNATING,
    ),
    LLAMA.like(
        "cohere", ("CohereForCausalLM",), "CohereConfig", types=("cohere",), vocab=256000, hidden=8192,
        ffn_hidden=22528, layer_count=40, heads=64, max_sequence=8192, tied=True, mlp_biases=NO, parallel=YES,
        norms=1, norm=Fact("layernorm-no-bias"), qk_norm_whole=option("use_qk_norm", default=False),
        quiet=("logit_scale",),
    ),
    LLAMA.like(
        "cohere2", ("Cohere2ForCausalLM",), "Cohere2Config", types=("cohere2",), vocab=256000, hidden=8192,
        ffn_hidden=22528, layer_count=40, heads=64, max_sequence=8192, tied=True, mlp_biases=NO, parallel=YES,
        norms=1, norm=Fact("layernorm-no-bias"), head_dim=HIDDEN_BY_HEADS,
        window=option("sliding_window", default=4096),
        window_pattern=option("sliding_window_pattern", default=4, old={"sliding_window_pattern": "4.52"}),
        layer_types=option("layer_types"), layers=ALTERNATING, quiet=("logit_scale", "head_dim"),
    ),
    PLAIN.like(
        "mistral", ("MistralForCausalLM",), "MistralConfig", types=("mistral",), ffn_hidden=14336, kv_heads=8,
        head_dim=option("head_dim", null=HIDDEN_BY_HEADS, since="4.43"), max_sequence=131072,
        window=option("sliding_window", default=4096),
        layers=layers(windows_everywhere, all_mlps),
    ),
    PLAIN.like(
        "ministral", ("MinistralForCausalLM",), "MinistralConfig", types=("ministral",), ffn_hidden=14336,
        kv_heads=8, max_sequence=131072, window=option("sliding_window", default=4096),
        layer_types=option("layer_types"), layers=layers(listed_mixers(windows_everywhere), all_mlps),
    ),
    PLAIN.like(
        "ministral3", ("Ministral3ForCausalLM",), "Ministral3Config", types=("ministral3",), vocab=131072,
        ffn_hidden=14336, layer_count=34, kv_heads=8, head_dim=128, max_sequence=262144,
        window=option("sliding_window"), layers=layers(windows_everywhere, all_mlps),
    ),
    PLAIN.like(
        "phi3", ("Phi3ForCausalLM",), "Phi3Config", types=("phi3",), vocab=32064, hidden=3072, ffn_hidden=8192,
        max_sequence=4096, window=option("sliding_window"), layers=layers(windows_everywhere, all_mlps),
        quiet=("original_max_position_embeddings", "attention_bias"),
    ),
    PLAIN.like(
        "qwen2", ("Qwen2ForCausalLM",), "Qwen2Config", types=("qwen2",),
        vocab=151936, ffn_hidden=22016, kv_heads=32, max_sequence=32768, biases=YES, output_bias=NO,
        window=option("sliding_window", default=4096), windowed=option("use_sliding_window", default=False),
        window_from=option("max_window_layers", default=28), layer_types=option("layer_types"),
        layers=layers(listed_mixers(windows_after_first), all_mlps),
    ),
    PLAIN.like(
        "qwen3", ("Qwen3ForCausalLM",), "Qwen3Config", types=("qwen3",), vocab=151936, ffn_hidden=22016,
        kv_heads=32, head_dim=128, max_sequence=32768, biases=option("attention_bias", default=False), qk_norm=YES,
        window=option("sliding_window", default=4096), windowed=option("use_sliding_window", default=False),
        window_from=option("max_window_layers", default=28), layer_types=option("layer_types"),
        layers=layers(listed_mixers(windows_after_first), all_mlps),
    ),
    PLAIN.like(
        "exaone4", ("Exaone4ForCausalLM",), "Exaone4Config", types=("exaone4",), vocab=102400, ffn_hidden=16384,
        kv_heads=32, qk_norm=YES, window=option("sliding_window", default=4096),
        window_pattern=option("sliding_window_pattern", default=4), layer_types=option("layer_types"),
        layers=ALTERNATING,
    ),
    PLAIN.like(
        "bitnet", ("BitNetForCausalLM",), "BitNetConfig", types=("bitnet",), vocab=128256, hidden=2560,
        ffn_hidden=6912, layer_count=30, heads=20, kv_heads=5, biases=option("attention_bias", default=False),
        losses=(
            uncounted_parameters(
                "there is a normalisation before the output of attention and of the MLP",
                per_layer(lambda config: config.number("hidden") + config.number("ffn_hidden")),
            ),
        ),
    ),
    PLAIN.like(
        "emu3", ("Emu3ForCausalLM",), "Emu3TextConfig", types=("emu3_text_model",), vocab=184622, ffn_hidden=14336,
        kv_heads=8, max_sequence=9216, biases=option("attention_bias", default=False),
        mlp_biases=option("mlp_bias", default=False), head_dim=HIDDEN_BY_HEADS,
    ),
    BERT,
    BERT.like("roberta", ("RobertaForMaskedLM",), "RobertaConfig", types=("roberta",), vocab=50265),
]  # fmt: skip
