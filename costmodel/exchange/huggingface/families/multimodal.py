"""The text models of multimodal families, and the classes that wrap them."""

from __future__ import annotations

from typing import Literal, NamedTuple

from costmodel.exchange.huggingface.families.llama import LLAMA, PLAIN
from costmodel.exchange.huggingface.families.mixtures import GLM_4_MOE, QWEN_2_MOE
from costmodel.exchange.huggingface.family import Fact, option
from costmodel.exchange.huggingface.layer_patterns import (
    HIDDEN_BY_HEADS,
    all_mlps,
    copy_of,
    everywhere,
    experts_every_nth,
    layers,
    listed_mixers,
    windows_after_first,
)

YES, NO = Fact(True), Fact(False)

_QWEN_2_VL = PLAIN.like(
    "qwen2_vl_text", ("Qwen2VLForConditionalGeneration",), "Qwen2VLTextConfig", types=("qwen2_vl_text", "qwen2_vl"),
    vocab=152064, hidden=8192, ffn_hidden=29568, layer_count=80, heads=64, kv_heads=8, max_sequence=32768,
    head_dim=HIDDEN_BY_HEADS, biases=YES, output_bias=NO, window=option("sliding_window", default=4096),
    windowed=option("use_sliding_window", default=False), window_from=option("max_window_layers", default=80),
    layer_types=option("layer_types"), layers=layers(listed_mixers(windows_after_first), all_mlps),
)  # fmt: skip

FAMILIES = [
    _QWEN_2_VL,
    _QWEN_2_VL.like(
        "qwen2_5_vl_text", ("Qwen2_5_VLForConditionalGeneration",), "Qwen2_5_VLTextConfig",
        types=("qwen2_5_vl_text", "qwen2_5_vl", "qwen2_5_omni_text"),
    ),
    PLAIN.like(
        "qwen3_vl_text", ("Qwen3VLForConditionalGeneration",), "Qwen3VLTextConfig", types=("qwen3_vl_text",),
        vocab=151936, ffn_hidden=22016, kv_heads=32, head_dim=128, max_sequence=128000,
        biases=option("attention_bias", default=False), qk_norm=YES,
    ),
    QWEN_2_MOE.like(
        "qwen3_vl_moe_text", ("Qwen3VLMoeForConditionalGeneration",), "Qwen3VLMoeTextConfig",
        without=("window", "windowed", "window_from", "layer_types"),
        types=("qwen3_vl_moe_text", "qwen3_omni_moe_text"), max_sequence=128000, tied=True,
        biases=option("attention_bias", default=False), output_bias=copy_of("biases"), qk_norm=YES,
        experts=option("num_experts", "num_local_experts", default=60), shared_hidden=Fact(None), shared_gate=NO,
        layers=layers(everywhere("full"), experts_every_nth), refusals=(),
    ),
    LLAMA.like(
        "glm4v_text", ("Glm4vForConditionalGeneration",), "Glm4vTextConfig", types=("glm4v_text",), vocab=151552,
        ffn_hidden=13696, layer_count=40, kv_heads=2, head_dim=HIDDEN_BY_HEADS, max_sequence=32768, biases=YES,
        output_bias=NO, mlp_biases=NO, norms=4,
    ),
    GLM_4_MOE.like(
        "glm4v_moe_text", ("Glm4vMoeForConditionalGeneration",), "Glm4vMoeTextConfig", types=("glm4v_moe_text",),
        vocab=151424, max_sequence=65536, biases=True, qk_norm=NO, prediction_depth=Fact(None),
    ),
]  # fmt: skip


class Wrapper(NamedTuple):
    """A multimodal class that wraps a text model.

    keys: the keys that may contain the text model's configuration; flat: whether it may be in the file itself. inner:
    the family of a text model that does not state one. tied: the default of the outer option. ties: whether the inner
    option counts too.
    """

    classes: tuple[str, ...]
    types: tuple[str, ...]
    inner: str
    tied: bool
    ties: Literal["outer", "either", "inner"] = "outer"
    flat: bool = False
    keys: tuple[str, ...] = ("text_config",)


WRAPPERS = [
    Wrapper(("AriaForConditionalGeneration",), ("aria",), "aria_text", False),
    Wrapper(("AyaVisionForConditionalGeneration",), ("aya_vision",), "cohere2", True),
    Wrapper(("Cohere2VisionForConditionalGeneration",), ("cohere2_vision",), "cohere2", True),
    Wrapper(
        ("DeepseekVLForConditionalGeneration", "DeepseekVLHybridForConditionalGeneration"),
        ("deepseek_vl", "deepseek_vl_hybrid"), "llama", True,
    ),
    Wrapper(("Gemma3ForConditionalGeneration",), ("gemma3", "shieldgemma2"), "gemma3_text", True),
    Wrapper(("Gemma3nForConditionalGeneration",), ("gemma3n",), "gemma3n_text", True),
    Wrapper(("Gemma4ForConditionalGeneration",), ("gemma4",), "gemma4_text", True),
    Wrapper(("Glm4vForConditionalGeneration",), ("glm4v",), "glm4v_text", False, "either"),
    Wrapper(("Glm4vMoeForConditionalGeneration",), ("glm4v_moe",), "glm4v_moe_text", False, "either"),
    Wrapper(("GotOcr2ForConditionalGeneration",), ("got_ocr2",), "qwen2", True),
    Wrapper(("Idefics2ForConditionalGeneration",), ("idefics2",), "mistral", False),
    Wrapper(("Idefics3ForConditionalGeneration",), ("idefics3",), "llama", False),
    Wrapper(("SmolVLMForConditionalGeneration",), ("smolvlm",), "llama", False),
    Wrapper(("InternVLForConditionalGeneration",), ("internvl",), "qwen2", True),
    Wrapper(("InternVLChatModel",), ("internvl_chat",), "", False, "either", keys=("llm_config",)),
    Wrapper(("JanusForConditionalGeneration",), ("janus",), "llama", True),
    Wrapper(
        ("KimiK25ForConditionalGeneration", "Kimi_K25ForConditionalGeneration"), ("kimi_k25",), "deepseek_v3", True
    ),
    Wrapper(("Llama4ForConditionalGeneration",), ("llama4",), "llama4_text", False, "inner"),
    Wrapper(("LlavaForConditionalGeneration",), ("llava",), "llama", False, "either"),
    Wrapper(("LlavaNextForConditionalGeneration",), ("llava_next",), "llama", False),
    Wrapper(("LlavaNextVideoForConditionalGeneration",), ("llava_next_video",), "llama", False, "either"),
    Wrapper(("LlavaOnevisionForConditionalGeneration",), ("llava_onevision",), "qwen2", False, "either"),
    Wrapper(("Mistral3ForConditionalGeneration",), ("mistral3",), "mistral", True),
    Wrapper(("Ovis2ForConditionalGeneration",), ("ovis2",), "qwen2", True),
    Wrapper(("PaliGemmaForConditionalGeneration",), ("paligemma",), "gemma", True),
    Wrapper(("Qwen2VLForConditionalGeneration",), ("qwen2_vl",), "qwen2_vl_text", False, "either", flat=True),
    Wrapper(("Qwen2_5_VLForConditionalGeneration",), ("qwen2_5_vl",), "qwen2_5_vl_text", False, "either", flat=True),
    Wrapper(("Qwen3VLForConditionalGeneration",), ("qwen3_vl",), "qwen3_vl_text", False),
    Wrapper(("Qwen3VLMoeForConditionalGeneration",), ("qwen3_vl_moe",), "qwen3_vl_moe_text", False),
    Wrapper(("Qwen3_5ForConditionalGeneration",), ("qwen3_5",), "qwen3_5_text", False),
    Wrapper(("Qwen3_5MoeForConditionalGeneration",), ("qwen3_5_moe",), "qwen3_5_moe_text", False),
    Wrapper(("Exaone4_5_ForConditionalGeneration",), ("exaone4_5",), "exaone4", False),
    Wrapper(("FastVlmForConditionalGeneration",), ("fast_vlm",), "qwen2", False, "either"),
    Wrapper(("Glm46VForConditionalGeneration",), ("glm46v",), "glm4v_text", False),
    Wrapper(
        ("HyperCLOVAXVisionV2ForConditionalGeneration", "HCXVisionV2ForCausalLM"), ("hyperclovax_vision_v2",),
        "hyperclovax", True,
    ),
    Wrapper(
        ("LightOnOcrForConditionalGeneration", "LightOnOCRForConditionalGeneration"), ("lighton_ocr",), "qwen3", True
    ),
    Wrapper(("MiniCPMOcrForConditionalGeneration",), ("minicpm_ocr",), "qwen3_5_text", True),
    Wrapper(("MiniCPMV4_6ForConditionalGeneration",), ("minicpmv4_6",), "qwen3_5_text", False),
    Wrapper(("MiniCPMV4_7ForConditionalGeneration",), ("minicpmv4_7",), "qwen3_5_text", False),
    Wrapper(
        (
            "NemotronH_Omni_Reasoning_V3", "NemotronH_Nano_Omni_Reasoning_V3", "NemotronH_Super_Omni_Reasoning_V3",
            "NemotronH_Nano_VL_V2",
        ),
        ("nemotron_h_omni",), "nemotron_h", False, "inner", keys=("text_config", "llm_config"),
    ),
    Wrapper(("PerceptionLMForConditionalGeneration",), ("perception_lm",), "llama", False, "either"),
    Wrapper(("QianfanOCRForConditionalGeneration",), ("qianfan_ocr",), "qwen3", False),
    Wrapper(("Qwen2AudioForConditionalGeneration",), ("qwen2_audio",), "qwen2", False, "inner"),
    Wrapper(
        ("Qwen2_5OmniThinkerForConditionalGeneration",), ("qwen2_5_omni_thinker",), "qwen2_5_omni_text", False
    ),
    Wrapper(
        ("Qwen3OmniMoeThinkerForConditionalGeneration",), ("qwen3_omni_moe_thinker",), "qwen3_omni_moe_text", False
    ),
    Wrapper(("Qwen3ASRForConditionalGeneration",), ("qwen3_asr",), "qwen3", True),
    Wrapper(("VoxtralForConditionalGeneration",), ("voxtral",), "llama", False, "inner"),
    Wrapper(("VideoLlama3ForConditionalGeneration",), ("video_llama_3",), "qwen2", False, "either"),
    Wrapper(
        ("Cosmos3OmniForConditionalGeneration", "Cosmos3ForConditionalGeneration"), ("cosmos3_omni",),
        "qwen3_vl_text", False,
    ),
    Wrapper(("InternS1ForConditionalGeneration",), ("interns1",), "qwen3_moe", False, "either"),
    Wrapper(("KimiVLForConditionalGeneration",), ("kimi_vl",), "deepseek_v3", False, "either"),
    Wrapper(("VideoLlavaForConditionalGeneration",), ("video_llava",), "llama", False),
    Wrapper(("VipLlavaForConditionalGeneration",), ("vipllava",), "llama", False),
    Wrapper(("FuyuForCausalLM",), ("fuyu",), "persimmon", False),
    Wrapper(("Emu3ForConditionalGeneration",), ("emu3",), "emu3_text_model", False),
    Wrapper(
        ("Phi4MultimodalForCausalLM", "Phi4MMForCausalLM"), ("phi4_multimodal", "phi4mm"), "phi3", False, flat=True
    ),
]  # fmt: skip
