"""Descriptions of a deployment that state an engine's options by their own keys: KServe, llm-d and vLLM's stack.

Each becomes the command of the engine that it starts; a key that has no option becomes an option that is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from costmodel.documents.text.yaml_tree import Items, Mapping
from costmodel.exchange.imported import Origin, OriginValue
from costmodel.exchange.shell import Word
from costmodel.ground.errors import CostModelError, Place, fail

MARKS = ("servingEngineSpec", "modelArtifacts", "predictor", "InferenceService", "DynamoGraphDeployment")
_KINDS = ("InferenceService", "LLMInferenceService")
_PROGRAM = ("vllm", "serve")
_HUB = re.compile(r"\A(?:hf|huggingface)://([\w.-]+/[\w.-]+)(?:[:@].*)?\Z")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
APART = "instances for prompts and for answers apart are not read"
APART_HINT = "keep the instances that generate, and state plan.prefill and plan.decode in what is written"
# Keys beside the options that cost nothing.
_BESIDE = """
name repository tag requestCPU requestMemory requestGPU requestGPUType limitCPU limitMemory pvcStorage hf_token
pvcAccessMode pvcMatchLabels storageClass vllmApiKey env envFromSecret nodeSelectorTerms nodeName chatTemplate
imagePullPolicy imagePullSecret annotations podAnnotations serviceAccountName shmSize tolerations affinity
runtimeClassName initContainer modelURL replicaCount vllmConfig extraVolumes extraVolumeMounts
serviceDiscoveryLabels enableTool toolCallParser chatTemplateConfigMap
"""
_QUIET = frozenset(_BESIDE.split())
_PARALLEL = {
    "tensor": "tensor-parallel-size",
    "pipeline": "pipeline-parallel-size",
    "data": "data-parallel-size",
    "tensorParallelSize": "tensor-parallel-size",
    "pipelineParallelSize": "pipeline-parallel-size",
}
_WRITTEN_APART = {"enableLoRA": "enable-lora", "v1": "", "v0": "", "extraArgs": ""}


class Deployed(NamedTuple):
    """What one model of a deployment starts: words, replicas, the container of its variables, and its image."""

    words: list[Word]
    copies: OriginValue | None
    container: Mapping
    image: Word | None


def deployments(tree: Mapping, file: str) -> list[Deployed] | None:
    """The engines of a deployment that states their options by keys; none for any other manifest."""
    spec = tree.get("spec")
    if isinstance(tree.get("servingEngineSpec"), Mapping):
        return list(_of_stack(tree["servingEngineSpec"], file))
    if isinstance(tree.get("modelArtifacts"), Mapping):
        return list(_of_llm_d(tree, file))
    if tree.get("kind") not in _KINDS or not isinstance(spec, Mapping):
        return None
    if tree["kind"] == "LLMInferenceService":
        return [_of_llm_service(spec, file)]
    predictor = spec.get("predictor")
    if not isinstance(predictor, Mapping) or not isinstance(predictor.get("model"), Mapping):
        return None
    return [_of_predictor(predictor, file)]


def place_of(tree: Mapping, name: str, file: str) -> Place:
    """Where a key of a mapping stands."""
    found = next((key for key in tree if key == name), None)
    return getattr(found, "at", None) or getattr(found, "place", None) or Place(file)


def listed_words(value: Any, place: Place) -> list[Word]:
    """The items of a list, each at its own place."""
    places = value.places if isinstance(value, Items) else [place] * len(value)
    return [Word(str(item), at) for item, at in zip(value, places, strict=False) if not isinstance(item, dict | list)]


def copies_of(tree: Mapping, name: str, file: str) -> OriginValue | None:
    """How many of a thing a mapping asks for; nothing where that is no whole number."""
    stated = str(tree.get(name, ""))
    if not (stated.isascii() and stated.isdigit() and len(stated) < 7):
        return None
    return OriginValue(int(stated), Origin("file", name, place_of(tree, name, file)))


def _options(tree: Any, names: dict[str, str], file: str) -> Iterator[Word]:
    """Keys as options: those of a table by its names, others by their own words."""
    for key, value in tree.items() if isinstance(tree, Mapping) else ():
        place = place_of(tree, key, file)
        name = names.get(str(key), _CAMEL.sub("-", str(key)).lower())
        if not name or value is None:
            continue
        if isinstance(value, bool) or str(value).lower() in ("true", "false"):
            yield Word(f"--{name}" if str(value).lower() == "true" else f"--no-{name}", place)
        elif not isinstance(value, dict | list):
            yield from (Word(f"--{name}", place), Word(str(value), place))
        else:
            yield Word(f"--{name}", place)


def _args(tree: Any, name: str, file: str) -> list[Word]:
    value = tree.get(name) if isinstance(tree, Mapping) else None
    return listed_words(value, place_of(tree, name, file)) if isinstance(value, list) else []


def _model(uri: Any, place: Place) -> list[Word]:
    """The model that an address names: of the hub by its name, of a volume by its path."""
    text = str(uri)
    found = _HUB.match(text)
    return [Word(found.group(1) if found else re.sub(r"\A\w+://", "", text), place)]


def _program(place: Place) -> list[Word]:
    return [Word(text, place) for text in _PROGRAM]


def _of_stack(spec: Mapping, file: str) -> Iterator[Deployed]:
    """vLLM's production stack: models with the options of vLLM in camel case."""
    for model in spec.get("modelSpec") or ():
        if not isinstance(model, Mapping) or "modelURL" not in model:
            continue
        place = place_of(model, "modelURL", file)
        config = model.get("vllmConfig")
        words = [*_program(place), *_model(model["modelURL"], place), *_options(config, _WRITTEN_APART, file)]
        words += _args(config, "extraArgs", file)
        words += [
            word
            for key in model
            if str(key) not in _QUIET and not _is_off(model[key])
            for word in _options(_alone(model, key), {}, file)
        ]
        image = f"{model.get('repository', '')}:{model.get('tag', '')}"
        named = Word(image, place_of(model, "tag", file)) if "tag" in model else None
        yield Deployed(words, copies_of(model, "replicaCount", file), model, named)


def _alone(tree: Mapping, key: Any) -> Mapping:
    found = Mapping({key: tree[key]})
    found.place = tree.place
    return found


def _is_off(value: Any) -> bool:
    return not value or (isinstance(value, Mapping) and str(value.get("enabled", "true")).lower() == "false")


def _refuse_apart(tree: Mapping, file: str) -> None:
    """A fault where instances for prompts stand beside those that generate."""
    apart = tree.get("prefill")
    if isinstance(apart, Mapping) and str(apart.get("create", True)).lower() == "true" and apart.get("replicas") != "0":
        raise CostModelError(*fail("X003", APART, place_of(tree, "prefill", file), APART_HINT).faults)


def _of_llm_d(tree: Mapping, file: str) -> Iterator[Deployed]:
    """Values of llm-d's chart: the containers that generate, with the degrees beside them."""
    _refuse_apart(tree, file)
    decode, artifacts = tree.get("decode"), tree["modelArtifacts"]
    if not isinstance(decode, Mapping):
        return
    held = [each for each in decode.get("containers") or () if isinstance(each, Mapping)]
    for container in held[:1]:
        own = _args(container, "command", file) + _args(container, "args", file)
        if str(container.get("modelCommand", "custom")) == "vllmServe":
            place = place_of(artifacts, "uri", file)
            own = [*_program(place), *_model(artifacts.get("uri", ""), place), *_args(container, "args", file)]
        words = [*own, *_options(_degrees(decode), _PARALLEL, file)]
        yield Deployed(words, copies_of(decode, "replicas", file), container, _image(container, file))


def _degrees(tree: Mapping) -> Mapping:
    """The degrees of a deployment, but for those that state only which of them lie on one node."""
    stated = tree.get("parallelism")
    found = Mapping(
        (key, value)
        for key, value in (stated.items() if isinstance(stated, Mapping) else ())
        if str(key) not in ("dataLocal", "dataRPCPort", "workers") and str(value) not in ("1", "false")
    )
    found.place = stated.place if isinstance(stated, Mapping) else tree.place
    return found


def _image(container: Mapping, file: str) -> Word | None:
    image = container.get("image")
    return Word(image, place_of(container, "image", file)) if isinstance(image, str) else None


def _of_llm_service(spec: Mapping, file: str) -> Deployed:
    """KServe's service of a language model, which vLLM serves."""
    _refuse_apart(spec, file)
    model, template = spec.get("model"), spec.get("template")
    held = template.get("containers") if isinstance(template, Mapping) else None
    container = next((each for each in held or () if isinstance(each, Mapping)), Mapping())
    container.place = getattr(container, "place", spec.place)
    place = place_of(model, "uri", file) if isinstance(model, Mapping) else spec.place
    words = [*_program(place), *_model(model.get("uri", "") if isinstance(model, Mapping) else "", place)]
    degrees = {**_PARALLEL, "expert": "enable-expert-parallel"}
    words += [*_options(_degrees(spec), degrees, file), *_args(container, "args", file)]
    return Deployed(words, copies_of(spec, "replicas", file), container, _image(container, file))


def _of_predictor(predictor: Mapping, file: str) -> Deployed:
    """KServe's predictor: its runtime for the hub and vLLM's, whose options are vLLM's."""
    model = predictor["model"]
    kind = model.get("modelFormat")
    name = str(kind.get("name", "")) if isinstance(kind, Mapping) else ""
    if name.lower() not in ("huggingface", "vllm", ""):
        sentence = f"a model of the format {name[:40]} is none of language that an engine here serves"
        raise CostModelError(*fail("X003", sentence, place_of(model, "modelFormat", file)).faults)
    place = place_of(model, "storageUri" if "storageUri" in model else "args", file)
    words, args = _program(place), [_without_underscores(word) for word in _args(model, "args", file)]
    if "storageUri" in model and not any(word.text.startswith("--model-id") for word in args):
        words += _model(model["storageUri"], place)
    words += [word._replace(text=word.text.replace("--model-id", "--model", 1)) for word in args]
    words += _options(predictor.get("workerSpec"), _PARALLEL, file)
    return Deployed(words, copies_of(predictor, "minReplicas", file), model, _image(model, file))


def _without_underscores(word: Word) -> Word:
    """An option of KServe's runtime as vLLM writes it; the name that clients use is vLLM's served one."""
    name, equals, value = word.text.partition("=")
    if not name.startswith("--"):
        return word
    name = {"--model-name": "--served-model-name"}.get(name.replace("_", "-"), name.replace("_", "-"))
    return word._replace(text=f"{name}{equals}{value}")
