"""Deployments that state an engine's options by their own keys: KServe, llm-d and vLLM's production stack.

Each becomes the command of the engine that it starts. The tables have every key around that command.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from costmodel.documents.text.yaml_tree import Items, Mapping
from costmodel.exchange.foreign_keys import ForeignKeys
from costmodel.exchange.import_result import Origin, OriginValue
from costmodel.exchange.option_rows import Row, Table, lost, option_table, part, quiet
from costmodel.exchange.shell import Word
from costmodel.exchange.training.file_facts import Layer, finished_layer
from costmodel.exchange.values import as_text
from costmodel.ground.errors import CostModelError, Place, fail

MARKS = ("servingEngineSpec", "modelArtifacts", "predictor", "InferenceService", "DynamoGraphDeployment")
_KINDS = ("InferenceService", "LLMInferenceService")
_PROGRAM = ("vllm", "serve")
_HUB = re.compile(r"\A(?:hf|huggingface)://([\w.-]+/[\w.-]+)(?:[:@].*)?\Z")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
APART = "instances for prompts and for answers apart are not read"
APART_HINT = "keep the instances that generate, and state plan.prefill and plan.decode in what is written"
_PARALLEL = {
    "tensor": "tensor-parallel-size",
    "pipeline": "pipeline-parallel-size",
    "data": "data-parallel-size",
    "tensorParallelSize": "tensor-parallel-size",
    "pipelineParallelSize": "pipeline-parallel-size",
}
_WRITTEN_APART = {"enableLoRA": "enable-lora", "v1": "", "v0": "", "extraArgs": ""}
_OF_MODEL = {"enableLoRA": "enable-lora"}
_SHORT = {"--tp": "--tensor-parallel-size", "-tp": "--tensor-parallel-size", "-pp": "--pipeline-parallel-size"}


class Deployed(NamedTuple):
    """One model of a deployment: its command words, replicas, container, image and nodes."""

    words: list[Word]
    copies: OriginValue | None
    container: Mapping
    image: Word | None
    nodes: OriginValue | None = None


def deployments(tree: Mapping, file: str) -> list[Deployed] | None:
    """The engines of a deployment whose keys state the options; None for any other manifest."""
    spec = tree.get("spec")
    if isinstance(tree.get("servingEngineSpec"), Mapping):
        return list(_production_stack_models(tree["servingEngineSpec"], file))
    if isinstance(tree.get("modelArtifacts"), Mapping):
        return list(_llm_d_engines(tree, file))
    if tree.get("kind") not in _KINDS or not isinstance(spec, Mapping):
        return None
    if tree["kind"] == "LLMInferenceService":
        return [_kserve_service_engine(spec, file)]
    predictor = spec.get("predictor")
    if not isinstance(predictor, Mapping) or not isinstance(predictor.get("model"), Mapping):
        return None
    return [_kserve_predictor_engine(predictor, file)]


def place_of(tree: Mapping, name: str, file: str) -> Place:
    """The place of a key in a mapping."""
    found = next((key for key in tree if key == name), None)
    return getattr(found, "at", None) or getattr(found, "place", None) or Place(file)


def listed_words(value: Any, place: Place) -> list[Word]:
    """The items of a list as words, each with its place."""
    places = value.places if isinstance(value, Items) else [place] * len(value)
    return [Word(str(item), at) for item, at in zip(value, places, strict=False) if not isinstance(item, dict | list)]


def copies_of(tree: Mapping, name: str, file: str) -> OriginValue | None:
    """A count that a mapping states under a key; None if it is not a whole number."""
    stated = str(tree.get(name, ""))
    if not (stated.isascii() and stated.isdigit() and len(stated) < 7):
        return None
    return OriginValue(int(stated), Origin("file", name, place_of(tree, name, file)))


def _options(tree: Any, names: dict[str, str], file: str, *, others: bool = False) -> Iterator[Word]:
    """Keys of a mapping as command-line words: under the option name in `names`, others (if asked) in kebab case."""
    for key, value in tree.items() if isinstance(tree, Mapping) else ():
        place = place_of(tree, key, file)
        name = names.get(str(key), _CAMEL.sub("-", str(key)).lower() if others else "")
        if not name or value is None:
            continue
        if isinstance(value, bool) or str(value).lower() in ("true", "false"):
            yield Word(f"--{name}" if str(value).lower() == "true" else f"--no-{name}", place)
        elif not isinstance(value, dict | list):
            yield from (Word(f"--{name}", place), Word(str(value), place))
        else:
            yield Word(f"--{name}", place)


def _argument_words(tree: Any, name: str, file: str) -> list[Word]:
    """The extra arguments that a key of a mapping lists, as command-line words."""
    value = tree.get(name) if isinstance(tree, Mapping) else None
    return listed_words(value, place_of(tree, name, file)) if isinstance(value, list) else []


def _model(uri: Any, place: Place) -> list[Word]:
    """The model in a URI: its name on the hub, or its path on a volume."""
    text = str(uri)
    found = _HUB.match(text)
    if not text:
        return []
    return [Word(found.group(1) if found else re.sub(r"\A\w+://", "", text), place)]


def _program_words(place: Place) -> list[Word]:
    """The words that start vLLM."""
    return [Word(text, place) for text in _PROGRAM]


def _production_stack_models(spec: Mapping, file: str) -> Iterator[Deployed]:
    """The models of vLLM's production stack, whose options are in camel case."""
    for model in spec.get("modelSpec") or ():
        if not isinstance(model, Mapping) or "modelURL" not in model:
            continue
        place = place_of(model, "modelURL", file)
        config = model.get("vllmConfig")
        stated = [*_options(config, _WRITTEN_APART, file, others=True), *_options(model, _OF_MODEL, file)]
        words = [*_program_words(place), *_model(model["modelURL"], place)]
        words += _agreeing_options(stated, _argument_words(config, "extraArgs", file))
        image = f"{model.get('repository', '')}:{model.get('tag', '')}"
        named = Word(image, place_of(model, "tag", file)) if "tag" in model else None
        yield Deployed(words, copies_of(model, "replicaCount", file), model, named)


def _agreeing_options(stated: list[Word], args: list[Word]) -> list[Word]:
    """Options from keys and from extra arguments together; a fault if they contradict each other."""
    own, other = _option_values(stated), _option_values(args)
    for name in (name for name in own if name in other):
        if own[name].text != other[name].text:
            at = own[name].place
            sentence = (
                f"{name} is {as_text(other[name].text)} here and {as_text(own[name].text)} in {at.file}:{at.line}"
            )
            raise fail("X004", sentence, other[name].place, "keep one of the two")
    return [*stated, *args]


def _option_values(words: Sequence[Word]) -> dict[str, Word]:
    """The values of the options in a list of words."""
    found: dict[str, Word] = {}
    for word, behind in itertools.zip_longest(words, words[1:]):
        name, equals, value = word.text.partition("=")
        if name.startswith("-"):
            name = _SHORT.get(name, name.replace("_", "-"))
            stands_behind = not equals and behind is not None and not behind.text.startswith("-")
            found[name] = behind if stands_behind else word._replace(text=value)
    return found


def _refuse_separate_prefill(tree: Mapping, file: str) -> None:
    """Raises a fault if a deployment has separate prefill instances."""
    apart = tree.get("prefill")
    if isinstance(apart, Mapping) and str(apart.get("create", True)).lower() == "true" and apart.get("replicas") != "0":
        raise CostModelError(*fail("X003", APART, place_of(tree, "prefill", file), APART_HINT).faults)


def _llm_d_engines(tree: Mapping, file: str) -> Iterator[Deployed]:
    """The engines in the values of llm-d's chart, with the degrees of parallelism."""
    _refuse_separate_prefill(tree, file)
    decode, artifacts = tree.get("decode"), tree["modelArtifacts"]
    if not isinstance(decode, Mapping):
        return
    held = [each for each in decode.get("containers") or () if isinstance(each, Mapping)]
    for container in held[:1]:
        own = _argument_words(container, "command", file)
        if str(container.get("modelCommand", "custom")) == "vllmServe":
            place = place_of(artifacts, "uri", file)
            own = [*_program_words(place), *_model(artifacts.get("uri", ""), place)]
        words = [
            *own,
            *_agreeing_options(
                list(_options(_degrees(decode), _PARALLEL, file)), _argument_words(container, "args", file)
            ),
        ]
        nodes = (
            copies_of(parallel, "workers", file) if isinstance(parallel := decode.get("parallelism"), Mapping) else None
        )
        yield Deployed(words, copies_of(decode, "replicas", file), container, _image_word(container, file), nodes)


def _degrees(tree: Mapping) -> Mapping:
    """The degrees of parallelism of a deployment that are not 1."""
    stated = tree.get("parallelism")
    found = Mapping(
        (key, value)
        for key, value in (stated.items() if isinstance(stated, Mapping) else ())
        if str(value) not in ("1", "false")
    )
    found.place = stated.place if isinstance(stated, Mapping) else tree.place
    return found


def _image_word(container: Mapping, file: str) -> Word | None:
    """The image of a container as a word with its place; None without one."""
    image = container.get("image")
    return Word(image, place_of(container, "image", file)) if isinstance(image, str) else None


def _kserve_service_engine(spec: Mapping, file: str) -> Deployed:
    """The engine of KServe's LLMInferenceService, which runs vLLM."""
    _refuse_separate_prefill(spec, file)
    model, template = spec.get("model"), spec.get("template")
    held = template.get("containers") if isinstance(template, Mapping) else None
    container = next((each for each in held or () if isinstance(each, Mapping)), Mapping())
    container.place = getattr(container, "place", spec.place)
    place = place_of(model, "uri", file) if isinstance(model, Mapping) else spec.place
    words = [*_program_words(place), *_model(model.get("uri", "") if isinstance(model, Mapping) else "", place)]
    degrees = {**_PARALLEL, "expert": "enable-expert-parallel"}
    words += _agreeing_options(list(_options(_degrees(spec), degrees, file)), _argument_words(container, "args", file))
    return Deployed(words, copies_of(spec, "replicas", file), container, _image_word(container, file))


def _kserve_predictor_engine(predictor: Mapping, file: str) -> Deployed:
    """The engine of KServe's predictor: the Hugging Face or vLLM runtime, both with vLLM's options."""
    model = predictor["model"]
    kind = model.get("modelFormat")
    name = str(kind.get("name", "")) if isinstance(kind, Mapping) else ""
    if name.lower() not in ("huggingface", "vllm", ""):
        sentence = f"a model of the format {name[:40]} is none of language that an engine here serves"
        raise CostModelError(*fail("X003", sentence, place_of(model, "modelFormat", file)).faults)
    place = place_of(model, "storageUri" if "storageUri" in model else "args", file)
    words, args = _program_words(place), [_without_underscores(word) for word in _argument_words(model, "args", file)]
    if "storageUri" in model and not any(word.text.startswith("--model-id") for word in args):
        words += _model(model["storageUri"], place)
    args = [word._replace(text=word.text.replace("--model-id", "--model", 1)) for word in args]
    words += _agreeing_options(list(_options(predictor.get("workerSpec"), _PARALLEL, file)), args)
    return Deployed(words, copies_of(predictor, "minReplicas", file), model, _image_word(model, file))


def _without_underscores(word: Word) -> Word:
    """An option of KServe's runtime in vLLM's spelling; --model-name becomes --served-model-name."""
    name, equals, value = word.text.partition("=")
    if not name.startswith("--"):
        return word
    name = {"--model-name": "--served-model-name"}.get(name.replace("_", "-"), name.replace("_", "-"))
    return word._replace(text=f"{name}{equals}{value}")


# --- every key around the command, by the description that has it

_OF_POD = """
activeDeadlineSeconds affinity automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks hostAliases hostIPC
hostNetwork hostPID hostname imagePullSecrets initContainers nodeName os overhead preemptionPolicy priority
priorityClassName readinessGates resourceClaims restartPolicy runtimeClassName schedulerName schedulingGates
securityContext serviceAccount serviceAccountName shareProcessNamespace subdomain terminationGracePeriodSeconds
tolerations topologySpreadConstraints volumes
"""
_OF_CONTAINER = """
name imagePullPolicy ports livenessProbe readinessProbe startupProbe lifecycle volumeMounts volumeDevices
securityContext workingDir stdin stdinOnce tty terminationMessagePath terminationMessagePolicy envFrom resizePolicy
restartPolicy resources.claims resources.limits.* resources.requests.*
"""
GPUS = ("nvidia.com/gpu", "amd.com/gpu", "gpu")  # the last is Dynamo's
_HEAD = "apiVersion kind metadata status"
_SCALED = "an autoscaler runs more or fewer replicas: state plan.replicas"
_IN_FRONT = "a program in front of the engine takes time"
_ELSEWHERE = "what it names is in the cluster and not in the file"
_OFFLOADED = "a cache outside of the accelerators: state stack.host_cache"


def _gpu_rows(under: str) -> list[Row]:
    """Rows for the accelerator keys among resource limits and requests."""
    return [part(f"{under}resources.{kind}.{name}", "plan.tp") for kind in ("limits", "requests") for name in GPUS]


def _container_rows(under: str) -> list[Row]:
    """Rows for the keys of a Kubernetes container."""
    read = [part(f"{under}{name}", "stack") for name in ("image", "command", "args", "env")]
    return [*read, *quiet(_OF_CONTAINER, under), *_gpu_rows(under)]


def _pod_rows(under: str) -> list[Row]:
    """Rows for the keys of a Kubernetes pod and its containers."""
    return [
        *quiet(_OF_POD, under),
        part(f"{under}nodeSelector", "cluster.node"),
        *_container_rows(f"{under}containers."),
    ]


def _rows_under(under: str, rows: Sequence[Row]) -> list[Row]:
    """Rows with a prefix before their names."""
    return [replace(row, option=f"{under}{row.option}") for row in rows]


_PREDICTOR = option_table(
    quiet(_HEAD),
    _rows_under("spec.", lost("approximated", _IN_FRONT, "transformer explainer")),
    _rows_under("spec.predictor.", [
        *_pod_rows(""), *_container_rows("model."),
        part("minReplicas", "plan.replicas"), part("maxReplicas", "plan.replicas"),
        part("model.storageUri", "model"), part("model.modelFormat.name", "stack"),
        part("workerSpec.tensorParallelSize", "plan.tp"), part("workerSpec.pipelineParallelSize", "plan.pp"),
        *_pod_rows("workerSpec."),
        *quiet("scaleTarget scaleMetric scaleMetricType timeout logger annotations labels deploymentStrategy "
               "model.modelFormat.version model.runtime model.runtimeVersion model.protocolVersion model.storage"),
        *lost("approximated", _SCALED, "autoScaling"),
        *lost("approximated", "requests beyond it wait in front of the engine", "containerConcurrency", 0, "0"),
        *lost("approximated", "a part of the requests goes to an older release", "canaryTrafficPercent", 100, "100"),
        *lost("approximated", "requests wait for others in front of the engine", "batcher"),
    ]),
)  # fmt: skip
_LLM_SERVICE = option_table(
    quiet(_HEAD),
    _rows_under("spec.", [
        part("model.uri", "model"), part("replicas", "plan.replicas"), part("prefill", "plan.prefill"),
        part("parallelism.tensor", "plan.tp"), part("parallelism.pipeline", "plan.pp"),
        part("parallelism.data", "plan.dp_attention"), part("parallelism.expert", "plan.ep"),
        *_pod_rows("template."), *_pod_rows("worker."),
        *quiet("model.name model.criticality parallelism.dataLocal parallelism.dataRPCPort router storageInitializer "
               "tracing labels annotations"),
        *lost("not expressible", "adapters: state workload.adapters", "model.lora"),
        *lost("not expressible", _ELSEWHERE, "baseRefs"),
        *lost("not expressible", _OFFLOADED, "kvCacheOffloading"),
        *lost("approximated", _SCALED, "scaling"),
    ]),
)  # fmt: skip
_MODEL_QUIET = """
name annotations podAnnotations serviceAccountName imagePullPolicy imagePullSecret requestCPU requestMemory
requestGPUType limitCPU limitMemory shmSize pvcStorage pvcAccessMode storageClass pvcMatchLabels extraVolumes
extraVolumeMounts initContainer vllmApiKey hf_token envFromSecret nodeName affinity tolerations runtimeClassName
chatTemplate chatTemplateConfigMap enableTool toolCallParser serviceDiscoveryLabels
"""
_STACK = option_table(
    quiet("routerSpec sharedPvcStorage gatewayInferenceExtension"),
    lost("not expressible", "adapters: state workload.adapters", "loraController loraAdapters"),
    lost("not expressible", _OFFLOADED, "cacheserverSpec"),
    _rows_under("servingEngineSpec.", [
        *quiet("enableEngine labels strategy configs containerPort servicePort extraPorts tolerations vllmApiKey "
               "runtimeClassName schedulerName securityContext containerSecurityContext imagePullPolicy startupProbe "
               "livenessProbe readinessProbe maxUnavailablePodDisruptionBudget"),
    ]),
    _rows_under("servingEngineSpec.modelSpec.", [
        part("modelURL", "model"), part("replicaCount", "plan.replicas"), part("vllmConfig", "stack"),
        part("repository", "stack"), part("tag", "stack"), part("env", "stack"), part("requestGPU", "plan.tp"),
        part("nodeSelectorTerms", "cluster.node"), part("enableLoRA", "workload.adapters"),
        *quiet(_MODEL_QUIET),
        *lost("not expressible", _OFFLOADED, "lmcacheConfig"),
        *lost("approximated", _SCALED, "keda autoscaling"),
        *lost("not expressible", "one engine over several nodes, whose options Ray states", "raySpec"),
    ]),
)  # fmt: skip
_ROLE_QUIET = """
enableService monitoring acceleratorTypes annotations podAnnotations labels extraConfig subGroupPolicy
parallelism.dataLocal containers.mountModelVolume containers.extraConfig
"""
_LLM_D = option_table(
    quiet("multinode routing serviceAccountOverride fullnameOverride nameOverride extraObjects tracing requester"),
    quiet("accelerator commonLabels"),
    quiet("name size authSecretName mountPath labels", "modelArtifacts."),
    part("modelArtifacts.uri", "model"), part("prefill", "plan.prefill"),
    _rows_under("decode.", [
        part("create", "plan.replicas"), part("replicas", "plan.replicas"), part("containers.modelCommand", "stack"),
        part("parallelism.tensor", "plan.tp"), part("parallelism.pipeline", "plan.pp"),
        part("parallelism.data", "plan.dp_attention"), part("parallelism.workers", "plan.tp"),
        *_pod_rows(""), *quiet(_ROLE_QUIET), *lost("approximated", _SCALED, "autoscaling"),
    ]),
)  # fmt: skip
_SERVICE_QUIET = """
componentType subComponentType dynamoNamespace globalDynamoNamespace serviceName annotations labels envFromSecret
volumeMounts ingress sharedMemory extraPodMetadata livenessProbe readinessProbe startupProbe modelRef eppConfig
resources.limits.* resources.requests.* resources.claims
"""
_SERVICE = [
    part("replicas", "plan.replicas"), part("envs", "stack"), part("multinode.nodeCount", "plan.tp"),
    *_gpu_rows(""), *quiet(_SERVICE_QUIET),
    *_pod_rows("extraPodSpec."), *_container_rows("extraPodSpec.mainContainer."),
    *lost("approximated", _SCALED, "autoscaling scalingAdapter"),
]  # fmt: skip


_WORKLOAD_QUIET = """
selector strategy updateStrategy minReadySeconds revisionHistoryLimit progressDeadlineSeconds paused serviceName
podManagementPolicy volumeClaimTemplates backoffLimit completions parallelism ttlSecondsAfterFinished suspend
persistentVolumeClaimRetentionPolicy template.metadata template.apiVersion template.kind
"""
_WORKLOAD = option_table(
    quiet(_HEAD),
    quiet(_WORKLOAD_QUIET, "spec."),
    part("spec.replicas", "plan.replicas"),
    _pod_rows("spec.template.spec."),
)
_GROUP = option_table(
    quiet(_HEAD), quiet("rolloutStrategy startupPolicy networkConfig", "spec."), part("spec.replicas", "plan.replicas"),
    _rows_under("spec.leaderWorkerTemplate.", [
        part("size", "plan.tp"), *_pod_rows("leaderTemplate.spec."), *_pod_rows("workerTemplate.spec."),
        *quiet("leaderTemplate.metadata workerTemplate.metadata restartPolicy subGroupPolicy volumeClaimTemplates"),
    ]),
)  # fmt: skip
_KUBERNETES = {
    **dict.fromkeys(("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Job"), _WORKLOAD),
    "LeaderWorkerSet": _GROUP,
    "Pod": option_table(quiet(_HEAD), _pod_rows("spec.")),
}
_COMPOSED_QUIET = """
container_name hostname ports expose networks network_mode ipc shm_size ulimits volumes env_file depends_on restart
healthcheck labels logging init user working_dir stdin_open tty runtime gpus devices device_cgroup_rules cap_add
cap_drop security_opt privileged pull_policy platform profiles secrets configs extra_hosts dns stop_grace_period
tmpfs mem_limit memswap_limit cpus build annotations deploy.resources deploy.restart_policy deploy.placement
deploy.mode deploy.labels deploy.update_config
"""
_COMPOSED = [
    *(part(name, "stack") for name in ("image", "command", "entrypoint", "environment")),
    part("deploy.replicas", "plan.replicas"), part("scale", "plan.replicas"), *quiet(_COMPOSED_QUIET),
    *lost("not expressible", "the service that it stands on is in another place", "extends"),
]  # fmt: skip


def _service_rows(services: Any, under: str, rows: Sequence[Row]) -> list[Row]:
    """Rows for every service, under the service's name."""
    named = services if isinstance(services, Mapping) else ()
    return [row for name in named for row in _rows_under(f"{under}{name}.", rows)]


def table_of(tree: Mapping) -> tuple[str, Table]:
    """The kind of deployment in a manifest document, and its table of keys; empty for any other document."""
    spec, kind = tree.get("spec"), str(tree.get("kind", ""))
    if "servingEngineSpec" in tree:
        return "vLLM's production stack", _STACK
    if "modelArtifacts" in tree:
        return "llm-d", _LLM_D
    if kind in _KINDS:
        return "KServe", _LLM_SERVICE if kind == "LLMInferenceService" else _PREDICTOR
    if kind == "DynamoGraphDeployment" and isinstance(spec, Mapping):
        around = [*quiet(f"{_HEAD} spec.pvcs spec.backendFramework spec.restart spec.annotations spec.labels")]
        each = _service_rows(spec.get("services"), "spec.services.", _SERVICE)
        return "Dynamo", option_table(around, part("spec.envs", "stack"), each)
    if kind in _KUBERNETES:
        return "Kubernetes", _KUBERNETES[kind]
    if "services" in tree and not kind:
        own = [str(key) for key in tree if str(key).startswith("x-")]  # pieces that are put in elsewhere
        around = quiet(f"version name networks volumes secrets configs {' '.join(own)}")
        return "Docker Compose", option_table(around, _service_rows(tree["services"], "services.", _COMPOSED))
    return "", {}


def keys_around(tree: Mapping, file: str) -> Layer:
    """The verdicts for all keys of a deployment outside its engine command."""
    title, table = table_of(tree)
    if not title:
        return Layer("")
    keys = ForeignKeys(tree, table, file, title)
    keys.note_read()
    least, most = (keys.stated.get(f"spec.predictor.{name}", ("1",))[0] for name in ("minReplicas", "maxReplicas"))
    if str(most) not in (str(least), "0", "1"):
        keys.lose("approximated", f"maxReplicas: {_SCALED}", "spec.predictor.maxReplicas")
    return finished_layer(keys, Layer(""))
