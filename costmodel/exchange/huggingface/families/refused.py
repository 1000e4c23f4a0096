"""Model types that the model document cannot express, and why. Once it can, an entry moves to a table of families."""

from __future__ import annotations

_LINEAR = "linear attention as this class has it"
_RECURRENT = "recurrent layers"
_SPARSE = "sparse attention as this class has it"
_GATED = "a gate on attention as this class has it"
_ENCODER = "an encoder, not a decoder alone"
_ENCODER_DECODER = "attention to an encoder"
_CONVOLUTION = "layers of short convolutions"
_LOOPS = "layers that run several times"
_SOUND = "tokens of sound in several tables"

REFUSED: dict[str, str] = {
    **dict.fromkeys(
        (
            "bailing_hybrid", "lara_mini", "olmo_hybrid", "qwen4_exp", "qwen4_exp_text",
        ),
        _LINEAR,
    ),
    **dict.fromkeys(("recurrent_gemma", "rwkv", "xlstm"), _RECURRENT),
    **dict.fromkeys(
        ("axk2", "dots3_note", "dots3_note_text", "hy_v4",
         "minimax_m3_vl_text"),
        _SPARSE,
    ),
    **dict.fromkeys(("afmoe", "beam", "laguna"), _GATED),
    **dict.fromkeys(("lfm2", "lfm2_moe", "lfm3", "zaya"), _CONVOLUTION),
    **dict.fromkeys(("inkling2_text", "inkling_text"), "convolutions and relative positions inside attention"),
    **dict.fromkeys(("dory", "hrm_text", "inkling2_loop_text"), _LOOPS),
    **dict.fromkeys(
        (
            "bart", "bigbird_pegasus", "blenderbot", "blenderbot-small", "marian", "mbart", "mvp", "pegasus", "plbart",
            "prophetnet", "t5", "trocr", "whisper",
        ),
        _ENCODER_DECODER,
    ),
    **dict.fromkeys(
        (
            "bert", "bert-generation", "big_bird", "camembert", "data2vec-text", "electra", "ernie", "git",
            "megatron-bert", "rembert", "roberta", "roberta-prelayernorm", "roc_bert", "roformer", "xlm", "xlm-roberta",
            "xlm-roberta-xl", "xmod",
        ),
        _ENCODER,
    ),
    **dict.fromkeys(("moshi", "musicgen", "musicgen_melody"), _SOUND),
    **dict.fromkeys(
        ("gemma4_assistant", "gemma4_unified", "gemma4_unified_assistant", "gemma4_unified_text"),
        "a model that drafts for Gemma 4, or one whose tables are those of all it reads",
    ),
    **dict.fromkeys(("zamba", "zamba2"), "layers that share their weights"),
    "apertus1p5_text": "a vocabulary for input and another for output",
    "blt": "patches of bytes in place of tokens",
    "cohere_compass_text": "a model of embeddings, not of language",
    "cpmant": "a bias on the scores that is learned for every distance",
    "diffllama": "attention as the difference of two",
    "doge": "experts that are looked up one by one",
    "jetmoe": "experts in place of the heads of attention",
    "longcat_flash": "two halves of attention in a layer, and experts that do nothing",
    "mimo_v2_flash": "heads whose values have another width than their keys",
    "mllama": "layers of attention to an image",
    "modernbert-decoder": "a matrix between the last layer and the head",
    "moss_transcribe_diarize": "speech alone as input",
    "reformer": "attention by hashing",
    "xlnet": "relative positions with weights of their own",
}  # fmt: skip


def class_stem(name: str) -> str:
    """A class name without what it is for, in small letters: deepseekv3 of DeepseekV3ForCausalLM."""
    for ending in ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "Model"):
        name = name.removesuffix(ending)
    return name.split("For")[0].replace("_", "").replace("-", "").lower()


def reason(model_type: str, class_name: str) -> str:
    """Why a model of that type, or of that class, is refused; nothing where it is not known to be."""
    if model_type in REFUSED:
        return REFUSED[model_type]
    stem = class_stem(class_name)
    return next((why for kind, why in REFUSED.items() if kind.replace("_", "").replace("-", "") == stem), "")
