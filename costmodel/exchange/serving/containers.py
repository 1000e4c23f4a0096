"""The commands of engines and benchmarks in container manifests, compose files and shell scripts."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as AnyMapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from costmodel.documents.reader.find_documents import stack_of_release
from costmodel.documents.text.yaml_tree import Mapping, parse
from costmodel.exchange.import_result import Origin, OriginValue
from costmodel.exchange.serving.deployments import GPUS, MARKS, copies_of, deployments, listed_words, place_of
from costmodel.exchange.shell import Doubt, Word, read_script
from costmodel.exchange.training.merge_training import MergedFacts
from costmodel.exchange.values import printable
from costmodel.ground.errors import Fault, Place

# The release of an engine that the tag of a container's image states, and the stack that stands for it.

IMAGE = "image"  # the fact of a layer
_ENGINES = re.compile(r"(?:^|/)(?:vllm-openai|lmsysorg/sglang|tensorrt-llm/release)(?P<tag>:[^@/]*)?(?:@.*)?$")
_RELEASE = re.compile(r":v?(\d+\.\d[\w.]*)")
_LONGEST = 80  # letters of an image that are shown


def image_fact(image: str, place: Place) -> OriginValue | None:
    """The container image of an engine as a fact; None for any other image.

    >>> image_fact("python3", Place("serve.sh"))
    >>> image_fact("mirror.local:5000/lmsysorg/sglang:v0.5.2-cu126", Place("pod.yaml")).value
    'lmsysorg/sglang:v0.5.2-cu126'
    """
    if _ENGINES.search(image) is None:
        return None
    short = printable("/".join(image[:_LONGEST].partition("@")[0].split("/")[-2:]))
    return OriginValue(short, Origin("file", f"image {short}", place))


def settle_release(found: MergedFacts) -> list[Fault]:
    """Replaces the stack by the one for the image's release; returns a warning if no stack describes it."""
    image, stack = found.facts.pop(IMAGE, None), found.facts.get("stack")
    if image is None or stack is None or stack.origin.kind == "assumed":
        return []
    release = _RELEASE.search(image.value)
    held = stack_of_release(str(stack.value), release[1] if release else "")
    if held is None:
        return []
    text = f"{image.origin.text}: {'' if held.described else 'estimated as '}{held.title}"
    found.facts["stack"] = image.derived(held.stack, text)
    if held.described or release is None:
        return []
    sentence = f"no stack describes release {release[1]} of {image.value}; its figures are those of {held.title}"
    return [Fault("X006", sentence, image.place, f"--set stack={held.stack} takes them without this warning")]


_MARK = re.compile(
    r"(?m)^[ \t]*(?:- )?(?:containers|services|image|nodeSelector|allocatable|capacity"
    rf"|{'|'.join(MARKS)})[ \t]*:|^kind:[ \t]*(?:LLM)?InferenceService\b"
)
_PARTED = re.compile(r"(?m)^---[^\n]*\n?")
_DEEPEST = 24  # levels of a manifest
_MOST = 200  # containers
# Labels of nodes that name their accelerators.
_PRODUCTS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
)  # labels of nodes


class Container(NamedTuple):
    """One container: its mapping, its copies if stated, whether a compose file defines it, and the mapping with its
    resources.
    """

    tree: Mapping
    copies: OriginValue | None
    composed: bool
    around: Mapping


class ContainerCommand(NamedTuple):
    """The command words of a container, its copies if stated, its variables, image and GPUs."""

    words: tuple[Word, ...]
    copies: OriginValue | None
    environment: Environment
    image: OriginValue | None = None
    gpus: OriginValue | None = None


def is_manifest(text: str) -> bool:
    """Whether a text is a manifest and no script.

    >>> is_manifest("services:\\n  llm:\\n    image: vllm/vllm-openai"), is_manifest("vllm serve m --dtype auto")
    (True, False)
    """
    return not text.startswith("#!") and _MARK.search(text) is not None


def manifest_trees(text: str, file: str) -> Iterator[Mapping]:
    """Each YAML document of a manifest; line numbers count from the start of the file."""
    starts = [0, *(match.end() for match in _PARTED.finditer(text)), len(text)]
    for begin, end in itertools.pairwise(starts):
        part = text[begin:end]
        if end < len(text):
            part = part[: part.rfind("---")] if "---" in part else part
        if part.strip():
            tree = parse("\n" * text.count("\n", 0, begin) + part, file)
            if isinstance(tree, Mapping):
                yield tree


def selected_accelerators(text: str, file: str) -> list[OriginValue]:
    """The accelerators that node selectors and node affinities of a manifest require."""
    found = list[OriginValue]()
    for tree in manifest_trees(text, file):
        for node, _, _ in _mappings(tree, 0, None, tree):
            stated = node.get("nodeSelector")
            pairs = [(key, stated, key) for key in stated] if isinstance(stated, Mapping) else []
            if node.get("operator") == "In" and isinstance(values := node.get("values"), list) and len(values) == 1:
                pairs.append((node.get("key"), node, "values"))
            for label, holder, key in pairs:
                value = holder[key][0] if key == "values" else holder[key]
                if label in _PRODUCTS and isinstance(value, str):
                    found.append(OriginValue(value, Origin("file", str(label), place_of(holder, key, file))))
    return found


def containers(tree: Mapping) -> list[Container]:
    """Every container: a mapping with an image, a command or arguments."""
    composed = "services" in tree
    held = (
        Container(each, copies, composed, around)
        for each, copies, around in _mappings(tree, 0, None, tree)
        if "image" in each or "command" in each or "args" in each
    )
    return list(itertools.islice(held, _MOST))


def _mappings(
    node: Any, depth: int, copies: OriginValue | None, around: Mapping
) -> Iterator[tuple[Mapping, OriginValue | None, Mapping]]:
    """Every mapping, with its replicas (or those of the mapping around it) and the mapping with its resources."""
    if depth > _DEEPEST:
        return
    if isinstance(node, Mapping):
        deploy = node.get("deploy")
        stated = [copies_of(node, "replicas", ""), copies_of(node, "scale", "")]
        stated += [copies_of(deploy, "replicas", "")] if isinstance(deploy, Mapping) else []
        copies = next((each for each in stated if each is not None), copies)
        around = node if "resources" in node else around
        yield node, copies, around
        for value in node.values():
            yield from _mappings(value, depth + 1, copies, around)
    elif isinstance(node, list):
        for value in node:
            yield from _mappings(value, depth + 1, copies, around)


def container_commands(text: str, file: str) -> Iterator[ContainerCommand]:
    """The command of every container; the default program of the image counts only if none is stated."""
    for tree in manifest_trees(text, file):
        deployed = deployments(tree, file)
        if deployed is None:
            yield from _commands_of_containers(tree, file)
        for each in deployed or ():
            environment = environment_of(each.container, place_of(each.container, "env", file), composed=False)
            fact = None if each.image is None else image_fact(each.image.text, each.image.place)
            words = words_with_values(each.words, environment, composed=False)
            gpus = accelerators_of(each.container, file) or copies_of(each.container, "requestGPU", file)
            if gpus is not None and each.nodes is not None:
                gpus = gpus._replace(value=gpus.value * each.nodes.value)
            yield ContainerCommand(tuple(words), each.copies, environment, fact, gpus)


def accelerators_of(container: Mapping, file: str) -> OriginValue | None:
    """The number of accelerators in a container's resources, over all its nodes; None if it is not stated."""
    resources = container.get("resources")
    for kind in ("limits", "requests"):
        held = resources.get(kind) if isinstance(resources, Mapping) else None
        if isinstance(held, Mapping):
            for found in (copies_of(held, name, file) for name in GPUS):
                if found is not None:
                    return found._replace(value=found.value * _nodes_of(container)) if found.value else None
    return None


def _nodes_of(service: Mapping) -> int:
    """The number of nodes of one Dynamo worker."""
    stated = service.get("multinode")
    nodes = copies_of(stated, "nodeCount", "") if isinstance(stated, Mapping) else None
    return 1 if nodes is None else int(nodes.value)


def _commands_of_containers(tree: Mapping, file: str) -> Iterator[ContainerCommand]:
    """The command of each container in a manifest, with its image, environment and place."""
    spec = tree.get("spec")
    group = spec.get("leaderWorkerTemplate") if isinstance(spec, Mapping) else None
    size = copies_of(group, "size", file) if isinstance(group, Mapping) else None  # pods that are one replica
    for container in containers(tree):
        tree, composed = container.tree, container.composed
        key = "environment" if composed else "env"
        environment = environment_of(tree, place_of(tree, key, file), composed=composed)
        image, own = tree.get("image"), "entrypoint" if composed else "command"
        named = Word(image, place_of(tree, "image", file)) if isinstance(image, str) else None
        words = [named] if named is not None and not tree.get(own) else []
        for key in ("entrypoint", "command", "args"):
            words += _command_words(tree.get(key), place_of(tree, key, file), file, environment)
        if len(words) > 1:
            words = words_with_values(words, environment, composed=composed)
            fact = None
            if named is not None:
                fact = image_fact(expanded(named, environment, composed=composed).text, named.place)
            gpus = accelerators_of(container.around, file)
            if gpus is not None and size is not None:
                gpus = gpus._replace(value=gpus.value * size.value)
            yield ContainerCommand(tuple(words), container.copies, environment, fact, gpus)


def _command_words(value: Any, place: Place, file: str, environment: Environment) -> list[Word]:
    """The words of a list, or of a text split like a shell does, with variables replaced."""
    if isinstance(value, list):
        return listed_words(value, place)
    if not isinstance(value, str):
        return []
    commands = read_script(value.replace("$$", "$"), file, environment).commands
    return [word._replace(place=place) for command in commands for word in command.words]


# --- variables

Environment = AnyMapping[str, Word]  # by name; a value that the text does not hold has a doubt
SHELLS = ("bash", "sh", "zsh", "dash")
_NAME = r"[A-Za-z_]\w*"
_MOST_LETTERS = 100_000  # of a word with its variables
_MOST_VARIABLES = 1_000
# A dollar that is meant, then the forms of a variable: of Kubernetes, with a default, and of a shell.
_VARIABLE = re.compile(
    rf"\$\$|\$\((?P<round>{_NAME})\)|\$\{{(?P<held>{_NAME})(?::?-(?P<other>[^}}$]*))?\}}|\$(?P<bare>{_NAME})"
)
_PLAIN = re.compile(r"[\w./:@%+,=-]*")  # which means the same in a shell
_OF_KUBERNETES = re.compile(rf"\$\$\(|\$\((?P<name>{_NAME})\)")


def environment_of(tree: AnyMapping[Any, Any], place: Place, *, composed: bool) -> dict[str, Word]:
    """The variables of a container in their order; later variables may refer to earlier ones."""
    found: dict[str, Word] = {}
    for name, value in _stated_variables(tree.get("environment" if composed else "env"), composed):
        if len(found) >= _MOST_VARIABLES:
            break
        if isinstance(value, Doubt):
            found[name] = Word("", place, value)
        else:
            found[name] = expanded(Word(value, place), found, composed=composed)
    return found


def _stated_variables(tree: Any, composed: bool) -> Iterator[tuple[str, str | Doubt]]:
    """Names and values of environment variables in a manifest; a doubt if defined elsewhere."""
    if isinstance(tree, AnyMapping):
        for name, value in tree.items():
            yield str(name), _doubt_of_environment(str(name)) if value is None and composed else _value_text(value)
    for item in tree if isinstance(tree, list) else ():
        if isinstance(item, AnyMapping) and "name" in item:
            name = str(item["name"])
            yield (
                name,
                _doubt_of_source(name, item["valueFrom"]) if "valueFrom" in item else _value_text(item.get("value")),
            )
        elif isinstance(item, str):
            name, equals, value = item.partition("=")
            yield name, value if equals else _doubt_of_environment(name)


def _value_text(value: Any) -> str:
    """A value as text, as the container receives it."""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _doubt_of_source(name: str, source: Any) -> Doubt:
    """The doubt about a variable whose value a manifest takes from elsewhere, such as a secret."""
    kinds = ", ".join(str(kind)[:40] for kind in source) if isinstance(source, AnyMapping) else ""
    return Doubt("unset", f"${name}, which env takes from valueFrom{f' ({kinds})' if kinds else ''}")


def _doubt_of_environment(name: str) -> Doubt:
    """The doubt about a variable that only the environment sets."""
    return Doubt("unset", f"${name}, which the manifest takes from where it is started")


def expanded(word: Word, environment: Environment, *, composed: bool) -> Word:
    """A word with its variables replaced; an unknown variable leaves a doubt."""
    text, at, doubt = "", 0, word.doubt
    for match in _VARIABLE.finditer(word.text):
        value, unknown = _variable_value(match, environment, composed)
        text, at, doubt = text + word.text[at : match.start()] + value, match.end(), doubt or unknown
        if len(text) > _MOST_LETTERS:
            return Word("", word.place, Doubt("code", "a word of variables of variables, which grows without end"))
    return word._replace(text=text + word.text[at:], doubt=doubt)


def _variable_value(match: re.Match[str], environment: Environment, composed: bool) -> tuple[str, Doubt | None]:
    """The value of one variable reference, and the doubt about it."""
    name = match["round"] or match["held"] or match["bare"]
    if name is None:
        return "$", None
    if match["round"] and composed:  # a compose file does not know this form
        return match[0], None
    if name in environment:
        return environment[name].text, environment[name].doubt
    if match["other"] is not None:
        return match["other"], None
    return "", Doubt("unset", f"{match[0]}, which the text does not set")


def words_with_values(words: Sequence[Word], environment: Environment, *, composed: bool) -> list[Word]:
    """The words of a container with its variables replaced; in a script only $(NAME), as Kubernetes does."""
    found: list[Word] = []
    for word in words:
        if _is_text_of_shell(found):
            found.append(word._replace(text=_for_shell(word.text, environment, composed)))
        else:
            found.append(expanded(word, environment, composed=composed))
    return found


def _is_text_of_shell(ahead: Sequence[Word]) -> bool:
    """Whether the next word is the script that a shell receives after -c."""
    if not ahead or not re.fullmatch(r"-[a-z]*c", ahead[-1].text):
        return False
    return any(PurePosixPath(word.text).name in SHELLS for word in ahead[-4:-1])


def _for_shell(text: str, environment: Environment, composed: bool) -> str:
    """A shell script with the variables of Kubernetes or of a compose file turned into shell form."""
    if composed:
        return text.replace("$$", "$")

    def one(match: re.Match[str]) -> str:
        """The value of a variable $(NAME) that Kubernetes replaces; other text unchanged."""
        name = match["name"]
        if name is None:
            return "$("  # which Kubernetes leaves to the shell
        known = environment.get(name)
        if known is None:
            return match[0]
        plain = known.doubt is None and _PLAIN.fullmatch(known.text)
        return known.text if plain else f"${{{name}}}"

    return _OF_KUBERNETES.sub(one, text)


VLLM, SGLANG, TRT_LLM = "vllm", "sglang", "trt-llm"
BENCHMARK = "benchmark"
_NESTED_COMMANDS = 3  # commands that a command holds as a text
# What a module or a program starts.
_MODULES = {
    "vllm.entrypoints.openai.api_server": VLLM,
    "vllm.entrypoints.api_server": VLLM,
    "sglang.launch_server": SGLANG,
    "dynamo.vllm": VLLM,
    "dynamo.sglang": SGLANG,
    "dynamo.trtllm": TRT_LLM,
    "sglang.bench_serving": BENCHMARK,
    "tensorrt_llm.serve.scripts.benchmark_serving": BENCHMARK,
}
_PROGRAMS = {"benchmark_serving.py": BENCHMARK, "bench_serving.py": BENCHMARK, "api_server.py": VLLM}
_IMAGES = re.compile(r"(?:^|/)vllm-openai(?:[:@]|$)")  # whose entry point is the engine


class ServeCommand(NamedTuple):
    """A command that starts an engine or benchmark: the program, its words, doubt, copies and container image."""

    starts: str
    words: tuple[Word, ...]
    place: Place
    doubt: Doubt | None = None
    copies: OriginValue | None = None
    image: OriginValue | None = None
    environment: tuple[tuple[str, Word], ...] = ()
    gpus: OriginValue | None = None


def serve_commands(text: str, file: str) -> list[ServeCommand]:
    """Every command of a text that starts an engine or a benchmark, in order."""
    found: list[ServeCommand] = []
    if is_manifest(text):
        for container in container_commands(text, file):
            started = _commands_of_words(container.words, None, file, 0, container.environment)
            own = tuple(container.environment.items())
            found += [
                each._replace(
                    copies=container.copies,
                    image=container.image or each.image,
                    environment=(*own, *each.environment),
                    gpus=container.gpus,
                )
                for each in started
            ]
        return found
    for command in read_script(text, file).commands:
        started = _commands_of_words(command.words, command.doubt, file, 0, {})
        found += [each._replace(environment=(*command.environment, *each.environment)) for each in started]
    return found


def _commands_of_words(
    words: Sequence[Word], doubt: Doubt | None, file: str, depth: int, given: Environment
) -> Iterator[ServeCommand]:
    """The serve commands among some words, also inside `sh -c '…'`."""
    image: OriginValue | None = None
    for index, word in enumerate(words):
        behind, image = words[index + 1 :], image_fact(word.text, word.place) or image
        if PurePosixPath(word.text).name in SHELLS and depth < _NESTED_COMMANDS:
            inner = _text_of_shell(behind)
            for command in read_script(inner.text, file, given).commands if inner is not None else ():
                placed = [each._replace(place=inner.place) for each in command.words] if inner is not None else []
                for each in _commands_of_words(placed, command.doubt or doubt, file, depth + 1, given):
                    yield each._replace(environment=(*command.environment, *each.environment))
            if inner is not None:
                return
        starts, skipped = _started_program(word.text, [each.text for each in behind[:2]])
        if starts:
            yield ServeCommand(starts, tuple(behind[skipped:]), word.place, doubt, None, image)
            return


def _text_of_shell(behind: Sequence[Word]) -> Word | None:
    """The script that a shell receives as one word after -c."""
    for option, text in itertools.pairwise(behind[:4]):
        if re.fullmatch(r"-[a-z]*c", option.text):
            return text
    return None


def _started_program(word: str, behind: Sequence[str]) -> tuple[str, int]:
    """The program that a word starts, and the number of following words that belong to the program's name."""
    first, second = (*behind, "", "")[:2]
    name = PurePosixPath(word).name
    if word == "-m" and first in _MODULES:
        return _MODULES[first], 1
    if name in _PROGRAMS:
        return _PROGRAMS[name], 0
    if name == "vllm" and first == "serve":
        return VLLM, 1
    if name == "vllm" and (first, second) == ("bench", "serve"):
        return BENCHMARK, 2
    if name == "sglang" and first == "serve":
        return SGLANG, 1
    if name == "trtllm-serve":
        return TRT_LLM, int(first == "serve")
    return (VLLM, 0) if _IMAGES.search(word) else ("", 0)
