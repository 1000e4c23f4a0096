"""Finds documents by name, accelerators by other spellings, stacks by an engine's release; reads first lines."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from costmodel.documents.keys.field_aliases import STACK_ALIASES, STACKS
from costmodel.documents.keys.paths import at
from costmodel.documents.keys.suggestions import alike, holds, nearest
from costmodel.documents.reader.dense_models import dense_model
from costmodel.documents.reader.folders import (
    FOLDER_OF,
    SUFFIXES,
    as_named,
    import_hint,
    is_file,
    names,
    places,
    plural,
    shown_file,
)
from costmodel.documents.reader.foreign_readers import BESIDE, FILE, file_in, has_file, is_of_other_program
from costmodel.documents.reader.hub_names import is_hub_name, nearest_shapes, shape_of, squeezed
from costmodel.documents.text.files import SEND, file_text, found_by_name, is_text, may_look, opens_files
from costmodel.documents.text.yaml_tree import read_tree
from costmodel.ground.errors import COMMAND_LINE, CostModelError, Place, fail, quoted_value
from costmodel.ground.parsing import UnitError, late_pattern, parse

# --- spellings of accelerators in tables and drivers, resolved to the names of documents


# Names that match no document.
OTHER = {
    "gh200480gb": "gh200-96",  # 480 and 120 GB are its processor's
    "gh200120gb": "gh200-96",
    "h203e": "h20-141",
    "a6000ada": "rtx6000-ada",
    "qrtx8000": "rtx8000",
    "rtxproserver6000": "rtx-pro-6000-server",
    "spark": "gb10",
    "vr200": "rubin",
    "r200": "rubin",
    "mi200gcd": "mi250x-gcd",
    "tpuv5litepod": "tpu-v5e",
    "trillium": "tpu-v6e",
    "ironwood": "tpu-v7",
    "tpu7x": "tpu-v7",
    "tpuv8t": "tpu-8t",
    "trainium": "trn1",
    "trainium1": "trn1",
    "trainium2": "trn2",
    "trainium3": "trn3",
}
USUAL = {"a100": 80, "gh200": 96, "h20": 96, "v100": 16}  # GB of a part sold with more than one size of memory
_DROPPED = late_pattern(  # words that do not distinguish two accelerators
    r"\b(nvidia|amd|intel|google|aws|cloud|geforce|quadro|instinct|habana|tesla|tensor core|gpu|[hd]gx|"
    r"blackwell|grace|vera|workstation|edition|generation)\b|\brtx[ -]*(?=a\d)"
)
_BARE = late_pattern(r"(?=\d{4})")  # a card named by its number alone
_BETWEEN = " -_/:"
_NAME = late_pattern(r"(?P<part>[a-z\d-]+?)(?:-(?P<form>sxm|pcie|nvl|gcd)\d?)?(?:-(?P<memory>\d{2,3}))?")
_BESIDE = late_pattern(
    r"\bsxm\d?\b|\bpcie\b|\bnvl\d*\b|\bgcd\b|\boam\b|\bhbm\de?\b|\bsuperchip\b|\btrillium\b|\bironwood\b|"
    r"\b\d+ ?g(?:i?b)?\b|(?<=[-_ ])\d{2,3}$|[^a-z0-9]"
)
_AS_SOLD = 0.12  # of a logarithm: how far the GB of a name lie from those of the datasheet, which may be GiB
_FORM = late_pattern(r"sxm|pcie|nvl(?!\d)|gcd")
_MEMORY = late_pattern(r"(?<!\d)(\d+)(?: ?g(?:i?b)?\b|(?<=[-_ ]\d\d)$)")


def accelerator_meant(
    spelling: str, memory: float | None, known: frozenset[str], capacity: Callable[[str], float]
) -> str:
    """The accelerator that a spelling stands for; its memory in GB decides between variants. Empty if none fits.

    known: the names of all accelerators. capacity: gives the memory of an accelerator [B], to compare with a stated
    size
    """
    stated = _DROPPED.sub(" ", spelling.lower().replace("_", " ")).strip(_BETWEEN)
    stated = f"rtx{stated}" if _BARE.match(stated) else stated
    key = squeezed(stated)
    exact = _names_without_separators(known).get(key) or OTHER.get(key, "")
    if exact and (memory is None or _distance_of_sizes(memory, capacity(exact)) < _AS_SOLD):
        return exact
    return _nearest(stated, memory, known, capacity) or exact


@functools.lru_cache(maxsize=8)
def _names_without_separators(known: frozenset[str]) -> dict[str, str]:
    return {squeezed(name): name for name in sorted(known)}


def _nearest(stated: str, memory: float | None, known: frozenset[str], capacity: Callable[[str], float]) -> str:
    """The accelerator that a spelling names, with the stated form factor and memory, else the most common variant."""
    parts = {name: found for name in sorted(known) if (found := _NAME.fullmatch(name))}
    matches = [found["part"] for found in parts.values() if re.match(_name_pattern(found["part"]), stated)]
    if not matches:
        return ""
    part = max(matches, key=len)
    behind = re.sub(_name_pattern(part), " ", stated, count=1)
    if _BESIDE.sub("", behind):
        return ""
    form, named = _FORM.search(behind), _MEMORY.search(behind)
    wanted = form[0] if form else "sxm"
    of = {name: found for name, found in parts.items() if found["part"] == part}
    fitting = {name: found for name, found in of.items() if (found["form"] or wanted) == wanted}
    size = float(named[1]) if named else memory
    if size is None and part in USUAL:
        fitting = {name: found for name, found in fitting.items() if found["memory"] in (None, str(USUAL[part]))}
    if size is None:
        return min(fitting, default="")
    apart = {name: _distance_of_sizes(size, capacity(name)) for name in fitting}
    nearest = min(apart, key=lambda name: apart[name], default="")
    return nearest if nearest and apart[nearest] < _AS_SOLD else ""


def _distance_of_sizes(gigabytes: float, capacity: float) -> float:
    """The distance between a memory size in GB and a capacity, as an absolute logarithm."""
    return abs(math.log(gigabytes * 1e9 / capacity))


def _name_pattern(part: str) -> str:
    """A pattern for the name of a part, with optional separators, that does not continue with another name."""
    return r"[\s_-]*".join(map(re.escape, part.replace("-", ""))) + r"(?![a-z0-9])|" + re.escape(part) + r"(?=sxm|pcie)"


# --- which stack of an engine describes one of its releases


_DIGITS = 9  # of a part of a release
_OF_RELEASE = late_pattern(r"(?P<engine>[a-z][a-z-]*?)(?:==|[-@ ])v?(?P<release>\d+(?:\.\d+)*[\w.]*)")
_VERSION, _TITLE = late_pattern(r"^  version: *(.+)$", re.M), late_pattern(r"^title: *(.+)$", re.M)


class StackOfRelease(NamedTuple):
    """The stack for a release: its name, its title with the releases it describes, and whether this one is included."""

    stack: str
    title: str
    described: bool


def stack_of_release(engine: str, release: str) -> StackOfRelease | None:
    """The newest stack of an engine that starts at or before a release, else its oldest; None for other engines.

    A text without a release counts as the newest release.

    >>> stack_of_release("vllm", "v0.11.2")
    StackOfRelease(stack='vllm-0.16', title='vLLM 0.6 to 0.16', described=True)
    >>> stack_of_release("vllm", "9.0").described
    False
    """
    asked, stacks = _numbers(release), _stacks(engine)
    if not stacks:
        return None
    earlier = [stack for stack in stacks if stack[0] <= asked] if asked else stacks
    first, last, name, title = (earlier or stacks[:1])[-1]
    return StackOfRelease(name, title, first <= asked and asked[: len(last)] <= last)


def stack_meant(name: str) -> str:
    """The stack for an engine release in a name such as vllm-0.24; empty for any other name.

    >>> stack_meant("vllm-0.24"), stack_meant("vLLM==0.19.1"), stack_meant("megatron-2021")
    ('vllm-0.24', 'vllm-0.20', '')
    """
    stated = _OF_RELEASE.fullmatch(name.lower())
    stack = stack_of_release(stated["engine"], stated["release"]) if stated else None
    return stack.stack if stack is not None else ""


@functools.cache
def _stacks(engine: str) -> list[tuple[tuple[int, ...], tuple[int, ...], str, str]]:
    """First and last release, name and title of each stack of an engine, oldest first."""
    releases = []
    for name in names("stack"):
        if name == engine or re.fullmatch(rf"{re.escape(engine)}-[\d.]+", name):
            text = next((file_text(str(path)) for path in places("stack", name) if is_file(path)), "")
            version, title = _VERSION.search(text), _TITLE.search(text)
            ends = re.findall(r"[\d.]+", version[1]) if version and "kind: serving" in text else ()
            if ends and title:
                releases.append((_numbers(ends[0]), _numbers(ends[-1]), name, title[1]))
    return sorted(releases)


def _numbers(release: str) -> tuple[int, ...]:
    """The leading numbers of a release.

    >>> _numbers("v0.4.6.post1"), _numbers("latest")
    ((0, 4, 6), ())
    """
    match = re.match(r"v?(\d+(?:\.\d+)*)", release)
    return tuple(int(part[:_DIGITS]) for part in match[1].split(".")) if match else ()


_OURS = late_pattern(r"""costmodel/\w|(?m:^["' ]*workload\b)""")  # in a document, or a scenario without its schema


# --- finds documents by name, and reads their first lines without checking the rest


def is_path(name: str) -> bool:
    """Whether a name is a path to a file rather than the name of a document."""
    return name.endswith(SUFFIXES) or os.sep in name


def find(kind: str, name: str, place: Place | None = None) -> Path:
    """The file of a document by name or path; a fault if there is none."""
    if kind == "scenario":
        _refuse_other_programs(name, place)
    if is_hub_name(name):
        if kind != "model":
            raise _unknown_document(kind, name, place)
        return find(kind, _model_of_hub(name, place))
    if is_text(name):
        return Path(name)
    if is_path(name) or (kind == "model" and name in (os.curdir, os.pardir)):
        if not opens_files():
            _allow_own(name, place)
        path = file_in(kind, folder_of(place) / name)
        shape = of_path(name, path) if kind == "model" else ""
        return find(kind, shape) if shape else path
    for path in places(kind, name):
        if is_file(path):
            found_by_name(path)
            return path
    if kind == "stack" and (stack := STACK_ALIASES.get(name.lower()) or stack_meant(name)):
        return find(kind, stack)
    if kind == "model" and (shape := by_spelling(name)):
        return find(kind, shape)
    raise _unknown_document(kind, name, place)


def _refuse_other_programs(name: str, place: Place | None) -> None:
    """Raises a fault for a file of another program, or for its command as text, in the place of a scenario."""
    path = folder_of(place) / name
    is_file = has_file(path)
    hint = import_hint(name) if is_file else ""
    if not hint:
        is_command = not is_file and len(name.split()) > 1
        text = name if is_command else file_text(str(path)) if is_file and name.endswith(SUFFIXES) else ""
        if not text or _OURS.search(text) or not is_of_other_program(text):
            return
        hint = f"costmodel import {shlex.quote(name)} --gpu NAME -o mine.yaml makes a scenario of it"
    sentence = f"{quoted_value(name)} is a {'file' if is_file else 'command'} of another program"
    raise fail("D009", f"{sentence}, and a scenario is expected here", place or Place(COMMAND_LINE), hint)


def by_spelling(name: str) -> str:
    """The shipped model that a bare name spells otherwise, as `Qwen3-8B`; empty if there is none, or a file of it."""
    is_other = is_path(name) or is_hub_name(name) or name in names("model")
    return "" if is_other or has_file(Path(name)) or has_file(Path(f"{name}.yaml")) else shape_of(name, names("model"))


def _allow_own(name: str, place: Place | None) -> None:
    """Allows a path that a found document states within its folder; a fault for any other path."""
    path = folder_of(place) / name
    within = place is not None and place.line and may_look(shown_file(place.file)) and not os.path.isabs(name)
    if not within or not path.resolve().is_relative_to(folder_of(place).resolve()):
        raise fail("H002", f"no file is opened for a question, and '{name}' is none of its texts", place, SEND)
    for file in (path, path / FILE, path.with_name(BESIDE), path / BESIDE):
        found_by_name(file)


def of_path(name: str, path: Path) -> str:
    """The shipped model whose name a path ends with, if the path does not exist; else empty."""
    is_own = not is_path(name) or name.endswith(SUFFIXES) or (may_look(path) and path.exists())
    return "" if is_own else shape_of(name, names("model"))


def _model_of_hub(name: str, place: Place | None) -> str:
    """The shipped model for a name on the hub, or a fault."""
    known = names("model")
    if shape := shape_of(name, known):
        return shape
    close = [f"'{each}'" for each in nearest_shapes(name, known)]
    meant = " or ".join(filter(None, (", ".join(close[:-1]), *close[-1:])))
    hint = f"did you mean {meant}? " if meant else ""
    hint += "costmodel list models shows them all; costmodel show llama-3.1-8b > mine.yaml is one to change"
    sentence = f"no shipped model goes by {quoted_value(name)}, and Hugging Face's hub is not read"
    raise fail("D009", sentence, place or Place(COMMAND_LINE), hint)


_OF_DATASHEET = {
    kind: f"; of another, state its datasheet: costmodel show {like} > hardware/{folder}/mine.yaml is one to change"
    for kind, like, folder in (("accelerator", "h100-sxm", "accelerators"), ("node", "dgx-h100", "nodes"))
}


def _unknown_document(kind: str, name: str, place: Place | None) -> CostModelError:
    """A fault for an unknown document name, with a suggestion."""
    known = names(kind)
    of_size = _models_of_size(kind, name, known)
    close = "" if of_size else _document_meant(kind, name, known)
    hint = (
        f"did you mean {close}?"
        if close
        else _shape_meant(kind, name)
        or of_size
        or f"costmodel list {plural(kind)} shows them all{_OF_DATASHEET.get(kind, '')}"
    )
    other = next((other for other in FOLDER_OF if other != kind and name in names(other)), None)
    model = name if other == "model" else shape_of(name, names("model")) if is_hub_name(name) else ""
    if model and kind == "scenario":
        sentence = f"{quoted_value(name)} is a model, and a scenario is expected here"
        close = f"did you mean {close}? " if close.strip("'").startswith(model) else ""
        hint = f"{close}costmodel estimate --model {model}, or any scenario with --set model={model}"
        return fail("D009", sentence, place or Place(COMMAND_LINE), hint)
    what = "table of measured runs" if kind == "measured" else kind
    sentence = f"there is no {what} named {quoted_value(name)}" + (
        f"; '{name}' is the name of a{'n' if other[0] in 'ae' else ''} {other}" if other else ""
    )
    file = next((file for file in (name, f"{name}.yaml") if name and has_file(Path(file))), "")
    if file:
        hint = f"for the file write .{os.sep}{file}"
    elif kind == "scenario" and "=" in name:
        settings = [_option_meant(*part.partition("=")[::2]) for part in name.split(",")]
        hint = f"settings are options: {' '.join(settings)}" if all(settings) else hint
    elif kind == "model" and name and has_file(file_in(kind, Path(name))):
        hint = f"for the folder write .{os.sep}{name}"
    elif kind == "scenario" and name and has_file(Path(name, FILE)):
        hint = f"it is a folder with a config.json: --model {name} names the model in it"
    elif name and may_look(name) and os.path.isdir(name):
        hint = f"'{name}' is a folder; name a file in it"
    return fail("D009", sentence, place or Place(COMMAND_LINE), hint)


# Names of the flags that describe a job, of any workload.
FLAGS = (
    "answer batch budget burstiness concurrency deadline dtype gpus iterations longest model node price prompt prompts "
    "rate rl rollout safe samples sequence stack tokens tpot trace trainer ttft users"
)


def _option_meant(name: str, value: str) -> str:
    """The option for a setting that is given as name=value; empty for an unknown name.

    >>> _option_meant("gpus", "8"), _option_meant("tp", "4"), _option_meant("workload.sequence", "4096")
    ('--gpus 8', '--set plan.tp=4', '--set workload.sequence=4096')
    """
    from costmodel.documents.schemas.rl import RlPlan
    from costmodel.documents.schemas.serving import ServingPlan

    if name in FLAGS.split():
        return f"--{name} {value}"
    key = f"plan.{name}" if name in {**RlPlan.model_fields, **ServingPlan.model_fields} else name
    return f"--set {key}={value}" if "." in key else ""


def _shape_meant(kind: str, name: str) -> str:
    """The hint for a model name that is given where a scenario is expected; else empty."""
    known = names("model")
    close = (shape_of(name, known) or nearest(name, known)) if kind == "scenario" else ""
    meant = close and (squeezed(name) in squeezed(close) or holds(close, name))
    return f"did you mean the model '{close}'? costmodel estimate --model {close}" if meant else ""


def folder_of(place: Place | None) -> Path:
    """The folder to which a path at a place is relative: that of its file, or the working folder for the command line.

    >>> str(folder_of(Place("jobs/mine.yaml", 3))), str(folder_of(Place("command line")))
    ('jobs', '.')
    """
    return shown_file(place.file).parent if place is not None and place.line else Path()


def _document_meant(kind: str, name: str, known: Sequence[str]) -> str:
    """The document that a misspelled name may stand for, in quotes; empty if none is near."""
    if kind == "model" and (shape := shape_of(name, known)):
        return f"'{shape}'"
    if kind == "stack" and name.lower() in STACKS:
        return STACKS[name.lower()]
    if kind in ("accelerator", "node") and (part := _accelerator_or_node(kind, name)):
        return f"'{part}'"
    if kind == "accelerator" and (flags := _counted_flags(name)):
        return flags
    low = name.lower()
    if low in known:
        return f"'{low}'"
    near = alike(low, known, _STACKS, 0.6) if kind == "stack" else []
    if len(near) > 1:
        *first, last = (f"'{each}' ({title_of(kind, each).partition(',')[0]})" for each in near)
        return f"{', '.join(first)} or {last}"
    close = nearest(low, known, 0.6) or next((it for it in known if low and it.startswith(low)), "")
    return f"'{close}'" if close else _node_flag(name) if kind == "accelerator" else ""


def _models_of_size(kind: str, name: str, known: Sequence[str]) -> str:
    """The shipped models of a size such as 30B, and a dense shape of it; empty for other names."""
    size = _SIZE.fullmatch(name) if kind == "model" else None
    if size is None:
        return ""
    sized = [f"'{each}'" for each in known if each.endswith(f"-{name.lower()}") and not _TWO_SIZES.search(each)]
    shape = dense_model(float(size[1]) * 1e9)
    dense = f"a dense model of {shape.parameters / 1e9:.3g} B, as Llama 3 is built: --model {shape.name}"
    return f"of that size: {', '.join(sized[:_OF_SIZE])}; {dense}" if sized else dense


_OF_SIZE = 5  # models that a hint names
_TWO_SIZES = late_pattern(r"\db-\d+b\Z")  # of a mixture of experts: active and all parameters
_SIZE = re.compile(r"(\d{1,3}(?:\.\d+)?) ?[bB]")
_STACKS = 3  # near names of software, which differ by their titles


_COUNTED = re.compile(r"(?:(?P<ahead>\d+) ?[x×] ?)?(?P<part>.+?)(?:[x×:](?P<after>\d+))?", re.IGNORECASE)


def _counted_flags(name: str) -> str:
    """The flags for a count of accelerators written in one word, as 8xH100; empty for another name."""
    match = _COUNTED.fullmatch(name.strip())
    count = match and (match["ahead"] or match["after"])
    part = _accelerator_or_node("accelerator", match["part"]) if match and count else ""
    return f"--gpu {part} --gpus {count}" if part else ""


def _node_flag(name: str) -> str:
    """The flag for a node whose title has the name, as p5.48xlarge; empty for another name."""
    word = squeezed(name.lower())
    node = next((each for each in names("node") if word and word in squeezed(title_of("node", each).lower())), "")
    return f"--node {node}" if node else ""


def _accelerator_or_node(kind: str, name: str) -> str:
    """The accelerator (or its default node) that a spelling such as `8x H100` stands for; empty if none fits."""
    with contextlib.suppress(CostModelError, UnitError):  # of documents that are not asked about
        spelling = re.sub(r"^\d+ ?[x×] ?", "", name) if kind == "node" else name
        part = accelerator_meant(spelling, None, frozenset(names("accelerator")), _memory_capacity)
        return part if kind == "accelerator" or not part else str(at(_tree_of(part), "found_in.node") or "")
    return ""


def _tree_of(accelerator: str) -> Any:
    """The tree of an accelerator's document, not validated."""
    return read_tree(file_text(str(find("accelerator", accelerator))), accelerator)[0]


def _memory_capacity(accelerator: str) -> float:
    return parse(str(at(_tree_of(accelerator), "memory.capacity")), "B")


def title_of(kind: str, name: str) -> str:
    """The title of a document, read without validating the rest."""
    try:
        return said_first(file_text(str(find(kind, name))), "title")
    except CostModelError as error:
        return error.faults[0].sentence


def by_maker(kind: str) -> list[str]:
    """The names of all documents of a kind; accelerators and nodes are sorted by maker and year."""
    makers = {"accelerator": "vendor", "node": "provider"}
    if kind not in makers:
        return names(kind)

    def maker_and_year(name: str) -> tuple[str, str, str]:
        """Sort key of a document: maker, year and name."""
        text = _text_or_nothing(kind, name)
        chip = said_first(text, "accelerator") if kind == "node" else ""
        year = said_first(_text_or_nothing("accelerator", chip) if chip else text, "year")
        return said_first(text, makers[kind]).casefold(), year, name

    return sorted(names(kind), key=maker_and_year)


def _text_or_nothing(kind: str, name: str) -> str:
    """The text of a named document; empty if its file cannot be read."""
    try:
        return file_text(str(find(kind, name)))
    except CostModelError:
        return ""


def said_first(text: str, key: str) -> str:
    """The text after the first line `key:` of a document, read without parsing the rest."""
    written = (line.removeprefix(f"{key}:").strip() for line in text.splitlines() if line.startswith(f"{key}:"))
    return next((value.strip(value[:1]) if value[:1] in ("'", '"') else value for value in written), "")


def text_of(name: str, *, fitted: bool = False) -> list[tuple[str, str, str]]:
    """Kind, file and text of every document of a name; its efficiency fit if asked for, or if there is nothing else."""
    name = _model_of_hub(name, None) if is_hub_name(name) else name
    if not any(name in names(kind) for kind in FOLDER_OF):
        name = by_spelling(name) or name
    kinds = [kind for kind in FOLDER_OF if name in names(kind) and (kind == "efficiency") == fitted]
    kinds = kinds or [kind for kind in FOLDER_OF if name in names(kind)]
    if not kinds:
        known = sorted({known for kind in FOLDER_OF for known in names(kind)})
        close = alike(name, known, 3, 0.4)
        hint = f"did you mean {' or '.join(close)}?" if close else "costmodel list shows them all"
        raise fail("D009", f"there is no document named '{name}'", Place(COMMAND_LINE), hint)
    paths = [(kind, find(kind, name)) for kind in kinds]
    return [(kind, as_named(path), file_text(str(path))) for kind, path in paths]
