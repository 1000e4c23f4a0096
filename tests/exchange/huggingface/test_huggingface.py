"""Published configurations of Hugging Face: their parameters to the digit, or a refusal that names class and key."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from each import each
from verify.make import reference

from costmodel.documents.reader.library import read as shipped
from costmodel.documents.schemas.precision import STORED, STORED_EXPERTS
from costmodel.estimate.model.shards import model_active_parameters, vision_parameters
from costmodel.exchange.import_result import Imported
from costmodel.ground.errors import CostModelError
from exchange.published import FILE, TWINS, configs, faults, model, parameters, read, shape

BUILT = reference("config_published")  # by transformers on the meta device
LLAMA = configs()["llama-3.1-8b"]
FLASH = configs()["deepseek-v4-flash"]


def without(config: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in names}


def losses(found: Imported, kind: str) -> list[str]:
    return [loss.sentence for loss in found.losses if loss.kind == kind]


@each("name", BUILT)
def test_parameters_equal_those_that_transformers_builds(name: str) -> None:
    assert parameters(read(configs()[name])) == BUILT[name]


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("mimo-7b", 7_622_619_136),  # with the prediction module 7,833,409,536, the tensors of the checkpoint
        ("nemotron-super-49b", 49_867_145_216),  # the tensors of the checkpoint
        ("kimi-k2.5", 1_026_408_232_448),  # the text half, which is Kimi K2
        ("hymba-1.5b", 1_522_797_824),  # 1.52 B; the sum of its tensors, as test_parameters lists them
        ("ernie-4.5-21b-a3b", 21_825_437_888),  # the tensors of the checkpoint
        ("glm-4.7-flash", 29_943_393_920),  # what llama.cpp counts, without the prediction module
        # 300 B; 54 layers of attention, 3 wide halves, 51 of experts with routers and their biases, one embedding
        (
            "ernie-4.5-300b-a47b",
            54 * (2**13 * 18432 + 2**14)
            + 9 * 2**13 * 28672
            + 51 * 64 * (3 * 2**13 * 3584 + 8193)
            + 103424 * 2**13
            + 2**13,
        ),
    ],
)
def test_parameters_of_code_that_transformers_lacks_equal_the_published(name: str, published: int) -> None:
    assert parameters(read(configs()[name])) == published


def test_the_prediction_module_of_mimo_makes_up_the_published_count() -> None:
    """Attention with biases, an MLP, two norms; beside them two norms, a projection of twice the width, a last norm."""
    hidden, heads, kv_heads, ffn_hidden = 4096, 32 * 128, 8 * 128, 11008
    attention = 2 * hidden * heads + 2 * hidden * kv_heads + heads + 2 * kv_heads
    module = attention + 3 * hidden * ffn_hidden + 2 * hidden + 2 * hidden + 2 * hidden * hidden + hidden
    found = read(configs()["mimo-7b"])
    assert model(found).prediction is not None
    assert parameters(found) + module == 7_833_409_536


@each("twin, name", [*TWINS.items(), ("kimi-k2", "kimi-k2-instruct")])
def test_the_shape_equals_that_of_the_library(name: str, twin: str) -> None:
    ours, theirs = shape(model(read(configs()[name]))), shape(shipped("model", twin))
    stored = ours.pop("stored"), ours.pop("stored_experts")
    assert {theirs.pop("stored"), theirs.pop("stored_experts")} == {None}
    assert ours == theirs
    if "quantization_config" in configs()[name] and twin in (*STORED, *STORED_EXPERTS):
        assert stored == (STORED.get(twin), STORED_EXPERTS.get(twin))


@pytest.mark.parametrize(
    ("name", "twin"),
    [("llama-2-70b", "llama-2-70b"), ("qwen3-vl-30b-a3b", "qwen-3-30b-a3b"), ("qwen3-vl-32b", "qwen-3-32b")],
)
def test_the_shape_but_for_the_longest_sequence_equals_that_of_the_library(name: str, twin: str) -> None:
    ours, theirs = shape(model(read(configs()[name]))), shape(shipped("model", twin))
    assert ours.pop("max_sequence") != theirs.pop("max_sequence")
    ours.pop("vision")
    assert ours.items() <= theirs.items()


def test_a_layer_of_maverick_sees_all_tokens_only_beside_experts() -> None:
    """Every second layer has experts and every fourth sees all tokens: each of these is one of those."""
    kinds = model(read(configs()["llama-4-maverick"])).layers
    found = {
        (kind.experts is not None, kind.attention is not None and kind.attention.window is not None) for kind in kinds
    }
    assert found == {(False, True), (True, True), (True, False)}
    assert [kind.count for kind in kinds] == [24, 12, 12]


@pytest.mark.parametrize(
    ("name", "code", "wanted", "place"),
    [
        ("bert-unsupported", "X003", ("BertModel", "encoder"), "architectures"),
    ],
)
def test_a_refusal_names_class_and_key(name: str, code: str, wanted: tuple[str, ...], place: str) -> None:
    found = faults(configs()[name])
    assert {fault.code for fault in found} == {code}
    assert all(word in found[0].sentence for word in wanted)
    assert found[0].place is not None
    assert found[0].place.path == place
    assert found[0].place.line > 1


def test_every_published_file_is_built_published_or_refused() -> None:
    counted = {"mimo-7b", "nemotron-super-49b", "kimi-k2.5", "hymba-1.5b", "glm-4.7-flash"}
    tried = set(BUILT) | counted | {"ernie-4.5-21b-a3b", "ernie-4.5-300b-a47b"}
    for name in set(configs()) - tried:
        assert {fault.code for fault in faults(configs()[name])} == {"X003"}


# --- traps of single options


@pytest.mark.parametrize(
    ("changes", "key", "value"),
    [
        ({"architectures": ["LLaMAForCausalLM"]}, "layers.0.mlp.gated", True),
        ({"num_key_value_heads": None}, "layers.0.attention.kv_heads", 32),
        ({"head_dim": 64}, "layers.0.attention.head_dim", 64),
        ({"attention_bias": True}, "layers.0.attention.output_bias", True),
        ({"tie_word_embeddings": True}, "tied", True),
        ({"hidden_size": 4096.0}, "hidden", 4096),
    ],
)
def test_an_option_fills_its_key(changes: dict[str, Any], key: str, value: Any) -> None:
    found = read(LLAMA | changes)
    here: Any = found.document
    for part in key.split("."):
        here = here[int(part)] if part.isdigit() else here[part]
    assert here == value


def test_gemma_is_tied_and_gated_by_its_class_though_no_key_says_so() -> None:
    found = read(configs()["gemma-2b"])
    assert model(found).tied
    assert found.origins["tied"].kind == "default"
    assert "GemmaConfig" in found.origins["tied"].text
    assert found.origins["layers.0.mlp.gated"].kind == "class"


def test_an_absent_query_rank_is_the_default_of_the_class_and_null_is_none() -> None:
    lite = configs()["deepseek-v2-lite"]
    assert model(read(lite)).layers[0].latent.query_rank is None  # type: ignore[union-attr]
    assert model(read(without(lite, "q_lora_rank"))).layers[0].latent.query_rank == 1536  # type: ignore[union-attr]


def test_weights_of_experts_may_be_kept_narrower_than_the_others() -> None:
    found = model(read(FLASH))
    assert (found.stored, found.stored_experts) == ("fp8-block", "mxfp4")


def test_one_group_of_experts_and_a_greedy_choice_limit_nothing() -> None:
    grouped = configs()["deepseek-v2-lite"] | {"n_group": 8, "topk_group": 3}
    assert model(read(grouped)).layers[1].experts.groups is None  # type: ignore[union-attr]
    limited = model(read(grouped | {"topk_method": "group_limited_greedy"})).layers[1].experts
    assert limited is not None
    assert (limited.groups, limited.group_limit) == (8, 3)


def test_a_window_as_long_as_any_sequence_is_left_out() -> None:
    phi = {"architectures": ["Phi3ForCausalLM"], "max_position_embeddings": 4096}
    assert [kind.attention.window for kind in model(read(phi | {"sliding_window": 2047})).layers] == [2047]  # type: ignore[union-attr]
    assert [kind.attention.window for kind in model(read(phi | {"sliding_window": 262144})).layers] == [None]  # type: ignore[union-attr]


def test_a_token_of_a_mixture_meets_its_few() -> None:
    assert float(model_active_parameters(model(read(configs()["mixtral-8x7b"])))) == 12_879_925_248


# --- origins, losses, warnings


def test_every_value_of_the_document_has_its_origin() -> None:
    found = read(LLAMA)

    def leaves(tree: Any, path: str = "") -> list[str]:
        if isinstance(tree, dict):
            return [leaf for key, value in tree.items() for leaf in leaves(value, f"{path}.{key}".strip("."))]
        if isinstance(tree, list):
            return [leaf for index, value in enumerate(tree) for leaf in leaves(value, f"{path}.{index}")]
        return [path]

    assert set(leaves(found.document)) == set(found.origins)
    text = json.dumps(LLAMA, indent=1).splitlines()
    for path, origin in found.origins.items():
        if origin.kind == "file" and origin.place is not None and origin.place.line:
            assert origin.text in text[origin.place.line - 1], path
    assert found.origins["layers.0.attention.head_dim"].kind == "derived"
    assert str(found.origins["hidden"]) == f"{FILE}:{found.origins['hidden'].place.line}  hidden_size"  # type: ignore[union-attr]


def test_a_fault_of_the_document_is_shown_where_the_file_says_it() -> None:
    (found,) = faults(configs()["mixtral-8x7b"] | {"num_experts_per_tok": 9})
    assert "top_k 9 is more than the 8 experts" in found.sentence
    assert found.place is not None
    assert (found.place.file, found.place.path) == (FILE, "num_experts_per_tok")


def test_rotary_positions_cost_nothing_and_stored_types_are_read() -> None:
    found = read(configs()["gpt-oss-120b"])
    assert {"rope_scaling"} <= set(losses(found, "ignored"))
    assert losses(found, "not expressible") == []
    assert found.document["stored_experts"] == "mxfp4"
    assert found.warnings == ()


def test_a_tower_is_read_where_the_file_states_its_sizes_and_else_named() -> None:
    config = configs()["qwen3-vl-32b"]
    found = read(config)
    assert losses(found, "not expressible") == []
    tower = model(found).vision
    assert tower is not None
    assert (tower.merge, [projector.count for projector in tower.projectors]) == (4, [1, 3])
    for odd in ({"hidden_size": 1152}, {**config["vision_config"], "depth": "27"}):
        rest = read({**config, "vision_config": odd})
        assert model(rest).vision is None
        assert losses(rest, "not expressible") == ["vision_config: only the text model is read"]


def test_the_tower_of_gemma_3_is_that_of_its_class() -> None:
    """SigLIP of 896 pixels with 256 tokens an image; transformers 5.24 counts as many on the meta device."""
    tower = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16}
    tower |= {"patch_size": 14, "image_size": 896}
    text = {"hidden_size": 2560, "num_hidden_layers": 34, "model_type": "gemma3_text"}
    names = {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3"}
    found = model(read({**names, "mm_tokens_per_image": 256, "text_config": text, "vision_config": tower}))
    assert vision_parameters(found, 1.0) == 419_816_304


def test_small_parts_that_no_key_says_are_counted_beside_the_document() -> None:
    gptj = read({"architectures": ["GPTJForCausalLM"], "model_type": "gptj"})
    (bias,) = [loss for loss in gptj.losses if loss.kind == "approximated"]
    assert (bias.parameters, parameters(gptj)) == (50400, 6_050_882_784)


def test_a_part_of_over_a_thousandth_is_refused() -> None:
    (found,) = faults({"architectures": ["GPTJForCausalLM"], "n_embd": 64, "n_layer": 1, "n_head": 4})
    assert found.code == "X003"
    assert "GPTJForCausalLM" in found.sentence
    assert "output head has a bias" in found.sentence


def test_layers_in_another_order_are_said_to_be_mixed_evenly() -> None:
    assert not losses(read(configs()["gemma-3-1b"]), "approximated")
    (loss,) = losses(read(configs()["nemotron-super-49b"]), "approximated")
    assert "mixed evenly" in loss


def test_unknown_options_are_one_warning_with_the_nearest_name() -> None:
    found = read(without(LLAMA, "num_key_value_heads") | {"num_key_value_head": 8, "my_own": 1})
    (warning,) = found.warnings
    assert warning.code == "X007"
    assert "num_key_value_head, my_own" in warning.sentence
    assert "did you mean num_key_value_heads for num_key_value_head?" in warning.hint


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        (configs()["gemma-3-1b"], "sliding_window_pattern was an option until transformers 4.52"),
        (LLAMA | {"head_dim": 128, "transformers_version": "4.31.0.dev0"}, "head_dim counts since transformers 4.45"),
        (
            {"architectures": ["MixtralForCausalLM"], "transformers_version": "4.36.0"},
            "sliding_window is absent: nothing today, 4096 before 4.37",
        ),
        (
            without(configs()["deepseek-v2-lite"], "vocab_size") | {"transformers_version": "4.57.1"},
            "vocab_size is absent: 102400 today, 32000 before 5.16",
        ),
    ],
)
def test_an_option_of_another_version_is_warned_of(config: dict[str, Any], wanted: str) -> None:
    (warning,) = read(config).warnings
    assert (warning.code, warning.sentence) == ("X006", wanted) or wanted in warning.sentence


# --- faults


@each(
    "config, code, words, path",
    [
        ("[]", "X001", "a mapping", ""),
        ("{}", "X001", "neither architectures nor model_type", ""),
        ({"architectures": "LlamaForCausalLM"}, "D006", "a list of class names", "architectures"),
        ({"architectures": [], "model_type": 3}, "D006", "model_type is text", "model_type"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "X003", "not a language model", "architectures"),
        ({"architectures": ["FooForCausalLM"]}, "X003", "FooForCausalLM is not a class", "architectures"),
        ({"model_type": "foo"}, "X003", "model type 'foo'", "model_type"),
        ({"architectures": ["RwkvForCausalLM"]}, "X003", "recurrent", "architectures"),
        (LLAMA | {"hidden_size": None}, "X002", "needs hidden_size", ""),
        (LLAMA | {"hidden_size": "4096"}, "D006", "a whole number above 0", "hidden_size"),
        (LLAMA | {"hidden_size": True}, "D006", "not true", "hidden_size"),
        (LLAMA | {"hidden_size": 0}, "D008", "out of range: 1 to", "hidden_size"),
        (LLAMA | {"hidden_size": 4096.5}, "D008", "a whole number", "hidden_size"),
        (LLAMA | {"hidden_size": 10**13}, "D008", "out of range", "hidden_size"),
        (LLAMA | {"num_hidden_layers": 10**9}, "D008", "1,000,000,000 layers", "num_hidden_layers"),
        (LLAMA | {"num_attention_heads": 30}, "X005", "not a multiple of 30 heads", "num_attention_heads"),
        (LLAMA | {"tie_word_embeddings": "no"}, "D006", "true or false", "tie_word_embeddings"),
        (configs()["gpt2"] | {"hidden_size": 512}, "X004", "two names of one option", "hidden_size"),
        (
            configs()["opt-1.3b"] | {"word_embed_proj_dim": 512},
            "X003",
            "word_embed_proj_dim 512",
            "word_embed_proj_dim",
        ),
        (configs()["gpt-oss-120b"] | {"layer_types": ["full_attention"]}, "X005", "lists 1 layers", "layer_types"),
        (
            configs()["nemotron-h-56b"] | {"hybrid_override_pattern": "M-?"},
            "X003",
            "a layer '?'",
            "hybrid_override_pattern",
        ),
        (
            {"architectures": ["HeliumForCausalLM"], "num_attention_heads": 16, "num_key_value_heads": 16},
            "X005",
            "16 heads of 128 are not the hidden size 2560",
            "num_attention_heads",
        ),
        (FLASH | {"compress_ratios": [0, 4]}, "X005", "compress_ratios lists 2 layers", "compress_ratios"),
        (FLASH | {"compress_ratios": 4}, "D006", "a list is expected", "compress_ratios"),
        (FLASH | {"compress_ratios": [0] * 42 + [8, 0]}, "X003", "compress_ratios 8", "compress_ratios"),
        (FLASH | {"mlp_layer_types": ["dense"] * 43}, "X003", "mlp_layer_types 'dense'", "mlp_layer_types"),
        (FLASH | {"num_key_value_heads": 8}, "X003", "num_key_value_heads 8", "num_key_value_heads"),
        (FLASH | {"n_shared_experts": 2}, "X003", "n_shared_experts 2", "n_shared_experts"),
        (LLAMA | {"num_hidden_layers": [32]}, "D006", "a whole number above 0", "num_hidden_layers"),
        ({"architectures": ["LlavaForConditionalGeneration"]}, "X002", "text_config is missing", "architectures"),
    ],
)
def test_a_fault_has_its_code_and_its_place(config: Any, code: str, words: str, path: str) -> None:
    (found,) = faults(config)
    assert (found.code, found.place.path if found.place else "") == (code, path)
    assert words in found.sentence


def leaves(config: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every single value."""
    for key, value in config.items():
        if isinstance(value, dict):
            yield from leaves(value, (*above, key))
        elif not isinstance(value, list):
            yield (*above, key)


def is_read(config: dict[str, Any], path: tuple[str, ...], value: Any) -> bool:
    """Whether the file is read without a fault with another value of a key."""
    changed = here = copy.deepcopy(config)
    for part in path[:-1]:
        here = here[part]
    here[path[-1]] = value
    try:
        read(changed)
    except CostModelError:
        return False
    return True


@pytest.mark.parametrize("name", ["jamba-1.5-mini", "gpt-oss-120b", "gemma-3n-e2b", "kimi-k2", "granite-4-h-tiny"])
def test_a_list_of_one_is_not_its_value(name: str) -> None:
    """Every key that is read at all refuses its value in a list, as it refuses a mapping."""
    config = configs()[name]
    paths = list(leaves(config))
    assert len(paths) > 10
    for path in paths:
        value = config
        for part in path:
            value = value[part]
        assert not is_read(config, path, [value]) or is_read(config, path, {"a": 1}), path


def test_a_value_of_each_layer_may_be_listed_where_all_are_the_same() -> None:
    for listed in (1, 3, 5):
        (found,) = faults(LLAMA | {"num_hidden_layers": 4, "intermediate_size": [512] * listed})
        assert (found.code, f"has {listed} entries" in found.sentence) == ("X005", True)
    one = shape(model(read(LLAMA | {"num_hidden_layers": 4, "intermediate_size": 512})))
    assert shape(model(read(LLAMA | {"num_hidden_layers": 4, "intermediate_size": [512] * 4}))) == one
    (found,) = faults(LLAMA | {"num_hidden_layers": 2, "intermediate_size": [512, 1024]})
    assert found.code == "D006"
    (found,) = faults(LLAMA | {"num_hidden_layers": 2, "vocab_size": [32000, 32000]})
    assert (found.code, "a whole number above 0" in found.sentence) == ("D006", True)


def test_all_faults_of_a_file_come_at_once() -> None:
    found = faults(LLAMA | {"hidden_size": 0, "vocab_size": "x", "num_attention_heads": -1})
    assert sorted(fault.place.path for fault in found if fault.place) == [
        "hidden_size",
        "num_attention_heads",
        "vocab_size",
    ]


def test_a_near_class_name_is_suggested() -> None:
    (found,) = faults({"architectures": ["LlamaForCausaLM"]})
    assert found.hint == "did you mean LlamaForCausalLM?"


# --- names


@pytest.mark.parametrize(
    ("config", "given", "name", "title"),
    [
        (LLAMA, {"name": "mine"}, "mine", "mine"),
        (LLAMA, {}, "llama", "llama"),
        (LLAMA | {"_name_or_path": "meta-llama/Llama-3.1-8B"}, {}, "llama-3.1-8b", "Llama-3.1-8B"),
        (LLAMA | {"_name_or_path": "./"}, {"name": "My Model (v2)"}, "my-model-v2", "My Model (v2)"),
        (LLAMA | {"_name_or_path": "☃"}, {}, "model", "☃"),
    ],
)
def test_the_document_is_named_by_the_caller_the_file_or_its_class(
    config: dict[str, Any], given: dict[str, str], name: str, title: str
) -> None:
    found = model(read(config, **given))
    assert (found.name, found.title) == (name, title)
