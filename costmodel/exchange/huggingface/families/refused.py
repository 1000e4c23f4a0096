"""Model types that the model document cannot express, and why. Once it can, an entry moves to a table of families."""

from __future__ import annotations

import re

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
    **dict.fromkeys(("afmoe", "beam"), _GATED),
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


# Reasons by what stands in the name of a class that engines have.
_BY_NAME = (
    (
        r"Eagle|NextN|MTP\b|DFlash|DSpark|Draft|LiLiCorr|Assistant",
        "a draft of another model, which is never served alone",
    ),
    (r"RewardModel|Embedding|Contriever|Bidirectional|CLIPModel", "a model of scores or embeddings, not of language"),
    (
        r"\ATransformers(?:MoE|MultiModal)|\ATransformersFor|\ATorchNative|MindSpore",
        "any model at all: it is an engine's way to run other classes; name the model's own",
    ),
    (r"LLaDA|SDAR|Diffusion", "blocks of tokens that are generated together, by diffusion"),
    (r"ASR|Asr|Audio|Speech|Transcribe|Voxtral|Kimia|Ultravox|MiDasheng|VibeVoice", "speech as its input"),
)
# Classes of transformers 5.24 that generate text, and of vLLM 0.33 and SGLang 0.5.23, whose layers are in no table.
_UNREAD = """
AliceAIForCausalLM Alpamayo2Super Apertus1p5ForConditionalGeneration BagelForConditionalGeneration
BailingMM2NativeForConditionalGeneration BailingMMNativeForConditionalGeneration BailingMoEForCausalLM
BailingMoeForCausalLM BailingMoeV2ForCausalLM BailingMoeV2_5ForCausalLM BailingMoeV3ForCausalLM
BailingMoeV3VLForConditionalGeneration BeeForConditionalGeneration Blip2ForConditionalGeneration
ChameleonForConditionalGeneration Cosmos3EdgeForConditionalGeneration DeepseekForCausalLM DeepseekOCR2ForCausalLM
DeepseekOCRForCausalLM DeepseekV41ForCausalLM DeepseekV4ForConditionalGeneration DeepseekVL2ForCausalLM
DeepseekVLV2ForCausalLM DomynEdgeForCausalLM DotsOCRForCausalLM DotsVLMForCausalLM Eagle2_5_VLForConditionalGeneration
Ernie4_5_VLMoeForConditionalGeneration GLM4VForCausalLM GigaChat35ForCausalLM Glm5NextForCausalLM
Glm5NextForConditionalGeneration GlmImageForConditionalGeneration GlmOcrForConditionalGeneration
Granite4VisionForConditionalGeneration H2OVLChatModel HYV4VLForConditionalGeneration HfMoondream
HunYuanVLForConditionalGeneration IQuestLoopCoderForCausalLM IQuestQ1ForCausalLM Inkling2ForConditionalGeneration
Inkling2LoopForConditionalGeneration InklingForConditionalGeneration InternS1ProForConditionalGeneration
InternS2MobiusForConditionalGeneration InternS2PreviewForConditionalGeneration IsaacForConditionalGeneration
JetNemotronForCausalLM JetVLMForConditionalGeneration K2HorizonForCausalLM KananaVForConditionalGeneration
KeyeForConditionalGeneration KeyeVL1_5ForConditionalGeneration KimiK3ForConditionalGeneration KimiK3LinearForCausalLM
Lfm2VlForConditionalGeneration Lfm3VlForConditionalGeneration Llama_Nemotron_Nano_VL LlavaLlamaForCausalLM
LlavaMistralForCausalLM LlavaOnevision2ForConditionalGeneration LlavaQwenForCausalLM LlavaVidForCausalLM
LocateAnythingForConditionalGeneration LongcatFlashNgramForCausalLM MiMoV2ForCausalLM MiMoV2OmniForCausalLM MiniCPMO
MiniCPMSALAForCausalLM MiniCPMV MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration
MistralLarge3ForCausalLM MistralLarge4ForConditionalGeneration MistralModel Molmo2ForConditionalGeneration
MolmoForCausalLM Moondream3ForCausalLM MossVLForConditionalGeneration MultiModalityCausalLM MuseGlimmerForCausalLM
MuseGlimmerForConditionalGeneration MuseSparkForConditionalGeneration NVILAForConditionalGeneration
NVILALiteForConditionalGeneration NVLM_D NanbeigeForCausalLM NemotronHPuzzleForCausalLM
NemotronParseForConditionalGeneration OpenCUAForConditionalGeneration OpenPanguVLForConditionalGeneration
OpenVLAForActionPrediction OrionForCausalLM Ovis Ovis2_5 Ovis2_6ForCausalLM Ovis2_6_MoeForCausalLM POINTSV15ChatModel
PaddleOCRVLForConditionalGeneration PanguEmbeddedForCausalLM PanguProMoEV2ForCausalLM PanguUltraMoEForCausalLM
Param2MoEForCausalLM Phi3SmallForCausalLM Phi3VForCausalLM Phi4ForCausalLMV PixtralForConditionalGeneration
PixtralVisionModel Plamo3ForCausalLM QuantMixtralForCausalLM Qwen2_5OmniForConditionalGeneration Qwen2_5OmniModel
Qwen3OmniMoeForConditionalGeneration Qwen3Model RForConditionalGeneration RadioMBartPrefixForCausalLM Rnj1ForCausalLM
Sarashina2VisionForCausalLM SkyworkR1VChatModel SolarForCausalLM Spark2_5ForCausalLM Step1ForCausalLM
Step3TextForCausalLM Step3VLForConditionalGeneration Step3p5ForCausalLM Step3p7ForConditionalGeneration
Step5ForCausalLM Step5ForConditionalGeneration StepVLForConditionalGeneration TeleChat2ForCausalLM
TeleChat3ForCausalLM TeleFLMForCausalLM UnlimitedOCRForCausalLM XllmForCausalLM XverseMoeForCausalLM
YiVLForCausalLM BlipForConditionalGeneration CohereCompassForConditionalGeneration
DeepseekOcr2ForConditionalGeneration EvollaForProteinText2Text Florence2ForConditionalGeneration
GraniteDoclingForConditionalGeneration IdeficsForVisionText2Text InstructBlipForConditionalGeneration
InstructBlipVideoForConditionalGeneration Kosmos2ForConditionalGeneration Kosmos2_5ForConditionalGeneration
PI0ForConditionalGeneration PPFormulaNetForConditionalGeneration Pix2StructForConditionalGeneration
T5Gemma2ForConditionalGeneration UdopForConditionalGeneration UnlimitedOcrForConditionalGeneration
VisionEncoderDecoderModel
"""
UNREAD = frozenset(_UNREAD.split())


def class_stem(name: str) -> str:
    """A class name in lower case without its task suffix: deepseekv3 for DeepseekV3ForCausalLM."""
    for ending in ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "Model"):
        name = name.removesuffix(ending)
    return name.split("For")[0].replace("_", "").replace("-", "").lower()


def reason(model_type: str, class_name: str) -> str:
    """The reason why a model type or class is refused; empty if there is none."""
    if model_type in REFUSED:
        return REFUSED[model_type]
    found = next((why for pattern, why in _BY_NAME if re.search(pattern, class_name)), "")
    if found or class_name in UNREAD:
        return found or "what this class adds to a text model: its layers are in no table here"
    stem = class_stem(class_name)
    return next((why for kind, why in REFUSED.items() if kind.replace("_", "").replace("-", "") == stem), "")
