"""Every family against transformers, as kept in tests/verify/reference: counts, windows, options, defaults, tying."""

from __future__ import annotations

import copy
import functools
from typing import Any

import pytest
from each import each
from verify.make import reference
from verify.real.config_cases import changed

from costmodel.documents.keys.schema_paths import key_of
from costmodel.documents.schemas.model import Layers, Model
from costmodel.exchange.huggingface import is_known_option
from costmodel.exchange.huggingface.families import FAMILIES
from costmodel.exchange.huggingface.families.multimodal import WRAPPERS
from costmodel.exchange.huggingface.families.refused import REFUSED, UNREAD, reason
from costmodel.exchange.huggingface.family import FIELDS, DerivedValue, Fact, Family, ForeignOption
from costmodel.ground.errors import CostModelError
from exchange.published import model, parameters, read
from exchange.unsaid import UNSAID

COUNTS = reference("config_parameters")
OPTIONS = reference("config_options")
TIED = reference("config_wrappers")
BUILT = [family for family in FAMILIES if family.code.startswith("transformers")]
every_family = each("family", BUILT)

# Models that transformers builds and we refuse, since no document of ours would count them to the digit.
NOT_IN_CONFIGS = {
    "aria_text": {"mlp_bias"},
    "deepseek_v2": {"mlp_bias"},
    "ernie4_5_moe": {"use_bias"},
    "hy_v3": {"mlp_bias"},
    "nemotron_h": {"mlp_bias"},
    "deepseek_v32": {"mlp_bias"},
    "glm_moe_dsa": {"mlp_bias"},
    "kimi_linear": {"tie_word_embeddings"},
    "bert": {"tie_word_embeddings"},
    "roberta": {"tie_word_embeddings"},
}
# Default models that a file has to say more of: head_dim, or the experts that a token goes to.
MORE_IS_NEEDED = {"glm4_moe", "glm4v_moe_text", "deepseek_v2"}


def asked(family: Family, small: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a case; of a text half inside a file of its wrapper."""
    config = changed(small, given)
    if not family.classes[0].endswith("ForConditionalGeneration"):
        return config
    inner = {key: value for key, value in config.items() if key != "architectures"}
    tied = inner.get("tie_word_embeddings", False)
    return {"architectures": config["architectures"], "text_config": inner, "tie_word_embeddings": tied}


def windowed(kind: Layers) -> bool:
    """Whether its attention sees a window alone."""
    if kind.compressed is not None:
        return kind.compressed.entries is None
    return kind.attention is not None and kind.attention.window is not None


@every_family
def test_parameters_and_windows_equal_those_that_transformers_builds(family: Family) -> None:
    kept = COUNTS[family.name]
    assert kept["cases"]
    for given, count, windows in kept["cases"]:
        if set(given) & NOT_IN_CONFIGS.get(family.name, set()):
            with pytest.raises(CostModelError, match="X003"):
                read(asked(family, kept["small"], given))
            continue
        found = read(asked(family, kept["small"], given))
        assert parameters(found) == count, given
        kinds = model(found).layers
        assert sum(kind.count for kind in kinds if windowed(kind)) == windows, given


@each("name", [name for name in COUNTS if COUNTS[name]["default"] and name not in MORE_IS_NEEDED])
def test_a_file_of_names_alone_is_the_default_model_of_its_class(name: str) -> None:
    names = {key: COUNTS[name]["small"][key] for key in ("architectures", "model_type")}
    if names["architectures"][0].endswith("ForConditionalGeneration"):
        names = {"architectures": names["architectures"], "text_config": {"model_type": names["model_type"]}}
        names["tie_word_embeddings"] = False
    assert parameters(read(names)) == COUNTS[name]["default"]


@pytest.mark.parametrize("name", sorted(MORE_IS_NEEDED - {"glm4v_moe_text"}))
def test_a_default_that_is_not_enough_is_refused(name: str) -> None:
    with pytest.raises(CostModelError, match=r"X002|X005"):
        read({key: COUNTS[name]["small"][key] for key in ("architectures", "model_type")})


def defaults(family: Family) -> dict[str, str]:
    """The options of its configuration class, each with its default as text."""
    listed = OPTIONS["options"][family.name]["defaults"].split()
    return dict(item.split("=", 1) for item in listed)


@every_family
def test_every_option_of_the_class_is_in_the_table(family: Family) -> None:
    assert [name for name in defaults(family) if not is_known_option(family, name)] == []


@every_family
def test_defaults_and_second_names_are_those_of_the_class(family: Family) -> None:
    """But for depths of prediction: the class says 1 and builds none."""
    classes, second = defaults(family), OPTIONS["options"][family.name]["names"]
    for name, option in family.options.items():
        spelled = option.names[0] if option.names[0] in classes else second.get(option.names[0], "")
        if spelled in classes and name != "prediction_depth":
            assert classes[spelled] == str(option.default), name
        missing = {one for one, meant in second.items() if meant == option.names[0]} - set(option.names)
        assert missing == set(), name


@each("wrapper", [one for one in WRAPPERS if one.classes[0] in TIED])
def test_a_text_half_is_tied_by_the_option_that_its_wrapper_reads(wrapper: Any) -> None:
    small = COUNTS[wrapper.inner]["small"]
    for outer, inner, tied in TIED[wrapper.classes[0]]:
        text = copy.deepcopy({key: value for key, value in small.items() if key != "tie_word_embeddings"})
        config: dict[str, Any] = {"architectures": [wrapper.classes[0]], wrapper.keys[0]: text}
        if inner is not None:
            text["tie_word_embeddings"] = inner
        if outer is not None:
            config["tie_word_embeddings"] = outer
        assert model(read(config)).tied == tied, (outer, inner)


# Classes of vLLM 0.33 and SGLang 0.5.23 by what becomes of them.
SERVED = {
    "": "LagunaForCausalLM Mistral4ForCausalLM IQuestCoderForCausalLM ExaoneMoEForCausalLM Ernie4_5_ForCausalLM",
    "a draft of another model": "DFlashLagunaForCausalLM LlamaForCausalLMEagle3 Qwen3_5ForCausalLMMTP "
    "DeepseekV3ForCausalLMNextN Qwen3DSparkModel MuseGlimmerAssistantModel",
    "by diffusion": "LLaDA2MoeModelLM SDARForCausalLM DiffusionGemmaForBlockDiffusion",
    "speech as its input": "FunASRForConditionalGeneration CohereAsrForConditionalGeneration MossAudioModel",
    "scores or embeddings": "InternLM2ForRewardModel EmbeddingGemmaModel Contriever",
    "an engine's way": "TransformersForCausalLM TransformersMultiModalMoEForCausalLM TorchNativeLlamaForCausalLM",
    "in no table here": "Step5ForCausalLM MiMoV2ForCausalLM Glm5NextForCausalLM MiniMaxM3SparseForCausalLM MiniCPMV",
}


@pytest.mark.parametrize("why", SERVED)
def test_a_class_that_engines_serve_is_read_or_refused_for_its_reason(why: str) -> None:
    known = {name for family in FAMILIES for name in family.classes} | {
        name for one in WRAPPERS for name in one.classes
    }
    for name in SERVED[why].split():
        assert (name in known) is (not why), name
        assert why in reason("", name), name
    assert not UNREAD & known


def test_every_decoder_of_transformers_is_read_or_refused_for_a_reason() -> None:
    read_types = {kind for family in FAMILIES for kind in family.types} | {
        kind for one in WRAPPERS for kind in one.types
    }
    assert [kind for kind in OPTIONS["decoders"] if kind not in read_types | set(REFUSED)] == []
    assert read_types & set(REFUSED) == {"bert", "roberta"}  # read as encoders, refused as decoders


def test_every_class_of_a_decoder_that_is_read_is_in_the_table() -> None:
    classes = {name for family in FAMILIES for name in family.classes} | {
        name for one in WRAPPERS for name in one.classes
    }
    of_types = {name: kind for kind, name in OPTIONS["decoders"].items() if kind not in REFUSED}
    assert [name for name in of_types if name not in classes] == []


# --- the table itself, both ways


def test_every_key_of_the_model_document_is_filled_by_a_field_or_named_as_unsaid() -> None:
    def keys(path: str = "") -> list[str]:
        node = key_of(Model, path) if path else {"properties": {name: {} for name in schema()["properties"]}}
        inner = _properties(node or {})
        if not inner:
            return [path]
        return [key for name in inner for key in keys(f"{path}.{name}".strip("."))]

    filled = {field.key for field in FIELDS.values()} - {""}
    missing = [key for key in keys() if key not in filled and not any(_within(key, unsaid) for unsaid in UNSAID)]
    assert missing == []


@functools.cache
def schema() -> dict[str, Any]:
    return Model.model_json_schema()


def _within(key: str, outer: str) -> bool:
    return key == outer or key.startswith(f"{outer}.")


def _properties(node: dict[str, Any]) -> list[str]:
    """The keys inside a mapping, through references and lists."""
    definitions = schema()["$defs"]
    todo = [node]
    while todo:
        here = todo.pop()
        if "$ref" in here:
            todo.append(definitions[here["$ref"].rsplit("/", 1)[-1]])
        elif "properties" in here:
            return list(here["properties"])
        else:
            todo += [*here.get("anyOf", []), *([here["items"]] if "items" in here else [])]
    return []


def test_every_field_leads_to_a_key_of_the_document_and_is_said_by_some_family() -> None:
    for name, field in FIELDS.items():
        assert not field.key or key_of(Model, field.key) is not None, name
        assert any(name in family.fields for family in FAMILIES), name


def test_a_family_says_what_its_layers_need_and_nothing_that_is_no_field() -> None:
    for family in FAMILIES:
        assert set(family.fields) <= set(FIELDS), family.name
        assert {"vocab", "hidden", "layer_count", "positions", "max_sequence", "tied", "norm", "norms"} <= set(
            family.fields
        )
        assert all(isinstance(source, ForeignOption | Fact | DerivedValue) for source in family.fields.values())


def test_names_of_families_and_types_are_unique() -> None:
    names = [family.name for family in FAMILIES]
    assert len(names) == len(set(names))
    pairs = [(name, kind) for family in FAMILIES for name in family.classes for kind in family.types]
    assert len(pairs) == len(set(pairs))
