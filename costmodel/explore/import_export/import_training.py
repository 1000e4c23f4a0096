"""Several files of one training: each a layer, with the files that they name, the model and what is given beside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from costmodel.documents.reader.folders import NO_FILES, as_named, is_near
from costmodel.documents.reader.foreign_readers import file_in, is_config
from costmodel.documents.reader.library import read
from costmodel.documents.schemas.model import Model
from costmodel.documents.text.files import file_text
from costmodel.documents.text.yaml_tree import assigned
from costmodel.exchange.detect import CONFIG, detected, stated_format
from costmodel.exchange.foreign_models import imported_model
from costmodel.exchange.import_result import COUNTS, GivenSize, Imported, Loss, Origin, OriginValue
from costmodel.exchange.machine_shape import machine_format
from costmodel.exchange.training import accelerate, deepspeed
from costmodel.exchange.training.file_facts import Layer
from costmodel.exchange.training.formats import LAYERED, read_layer
from costmodel.exchange.training.merge_training import CONFIG_FILE, settled
from costmodel.exchange.values.foreign_values import shown
from costmodel.explore.import_export.import_command_line import is_typed_command
from costmodel.ground.errors import COMMAND_LINE, CostModelError, Fault, Place, fail

_TAKEN = ("plan.", "workload.", "assume.", "stack.", "limits.")
_WHOLE = ("model", "stack")
_DEEPEST = 2  # files that name one another
Read = TypeVar("Read")


class OpenedFile(NamedTuple):
    """A foreign file with its format."""

    file: str
    text: str
    format: str


def opened(name: str, stated: str = "") -> OpenedFile:
    """A file by its path, a folder with a config.json, standard input by '-', or a command that is typed whole.

    stated: the short name of its format, where that is given
    """
    if is_typed_command(name):
        return OpenedFile(COMMAND_LINE, name, _format_of(name, COMMAND_LINE, stated))
    path = Path(name) if name == "-" else file_in("model", Path(name))
    text = file_text(str(path))
    file = "<stdin>" if name == "-" else as_named(path)
    return OpenedFile(file, text, CONFIG if is_config(text) and not stated else _format_of(text, file, stated))


def _format_of(text: str, file: str, stated: str) -> str:
    """The format of a launch file, or the tool that printed the shape of a machine."""
    if stated:
        return stated_format(stated, text)
    try:
        return detected(text, file).name
    except CostModelError:
        tool = machine_format(text)
        if not tool:
            raise
        return tool


def layered(files: Sequence[OpenedFile], size: GivenSize, assignments: Iterable[str]) -> Imported:
    """The scenario that several files describe together."""
    layers, model = list[Layer](), None
    for opened_file in files:
        if opened_file.format == CONFIG:
            model = imported_model(opened_file.text, opened_file.file)
            layers.append(Layer("", {"model": OriginValue(model.document["name"], config_origin(opened_file.file))}))
        elif opened_file.format in LAYERED:
            layer = read_layer(opened_file.text, opened_file.file, opened_file.format)
            if layer.written is not None and model is None:
                model = layer.written
                name = OriginValue(model.document["name"], config_origin(opened_file.file))
                layers.append(Layer("", {"model": name}))
            layers += with_named(layer, opened_file.file, read_named, paths_of(files))
        else:
            sentence = f"{opened_file.format} is read alone, not beside other files"
            raise fail("X004", sentence, Place(opened_file.file), "give it by itself")
    if model is not None:
        _named_by_shape(layers)
    layers.append(given_beside(assignments))
    settle_size(layers, size)
    imported = settled(layers, files[-1].file, _depth(layers, model))
    return imported if model is None else with_model(imported, model)


def _named_by_shape(layers: Sequence[Layer]) -> None:
    """Drops the name of a model if its shape is also written out, since the shape counts."""
    for layer in layers:
        named = layer.facts.get("model")
        if layer.format and named is not None:
            del layer.facts["model"]
            layer.losses.append(Loss("ignored", f"model {shown(named.value)}: its shape is written out", named.place))


def config_origin(file: str) -> Origin:
    """Origin of values that are written in a model's config.json.

    file: its path
    """
    return Origin("file", CONFIG_FILE, Place(file))


def paths_of(files: Sequence[OpenedFile]) -> frozenset[Path]:
    """The paths of files that are given."""
    return frozenset(Path(opened_file.file).resolve() for opened_file in files if opened_file.file not in NO_FILES)


def with_named(
    layer: Layer, file: str, read_named: Callable[[str, str], Layer], given: frozenset[Path], depth: int = 0
) -> list[Layer]:
    """The facts of a file, followed by those of the files that it names.

    given: files that are read for themselves
    """
    layers = [layer]
    for name, place in layer.named if depth < _DEEPEST else ():
        text, path = named_text(name, file, place)
        if path.resolve() not in given:
            inner = unquoted(read_named, text, path)
            layers += with_named(inner, str(path), read_named, given, depth + 1)
    return layers


def named_text(name: str, file: str, place: Place) -> tuple[str, Path]:
    """The text of a file that another one names."""
    paths = list(dict.fromkeys((Path(file).parent / name, Path(name))))
    for path in paths:
        try:
            return file_text(str(path)), path
        except CostModelError as error:
            problem = error.faults[0].sentence
    hint = f"tried {' and '.join(map(str, paths))}: {problem}; put it there, or correct its path"
    raise fail("X002", f"the file names {name}, which cannot be read", place, hint)


def read_named(text: str, name: str) -> Layer:
    """A configuration of DeepSpeed, in JSON, or of accelerate, which may name one."""
    return read_layer(text, name, deepspeed.TITLE if text.lstrip().startswith("{") else accelerate.TITLE)


def unquoted(read: Callable[[str, str], Read], text: str, path: Path) -> Read:
    """A file that another one names; faults show no text of files outside the working folder."""
    try:
        parsed = read(text, as_named(path))
    except CostModelError as error:
        raise CostModelError(*(_hide_private_path(fault, path) for fault in error.faults)) from None
    if isinstance(parsed, Layer):
        quoted_near(parsed)
    return parsed


def quoted_near(layer: Layer) -> None:
    """Marks faults in files outside the working folder as private, so that their text is not shown."""
    layer.faults = [_hide_private_path(fault) for fault in layer.faults]
    layer.unless = [(key, _hide_private_path(fault)) for key, fault in layer.unless]
    layer.warnings = [_hide_private_path(fault) for fault in layer.warnings]


def _hide_private_path(fault: Fault, path: Path | None = None) -> Fault:
    """The fault, marked private if its file is outside the working folder, so that its text is not shown."""
    place = fault.place or (Place(str(path)) if path is not None else None)
    if place is None or is_near(place.file):
        return fault
    return replace(fault, place=replace(place, private=True))


def settle_size(layers: list[Layer], size: GivenSize) -> None:
    """Adds the number of accelerators, from files and options, to the last file's facts."""
    stated = {path: value for layer in layers for path, value in (layer.weak | layer.facts).items() if path in COUNTS}
    stated |= {path: value for layer in layers for path, value in layer.facts.items() if path in COUNTS}
    found = size.accelerators(stated)
    if isinstance(found, Fault):
        layers[-1].faults.append(found)
    elif found is not None and found is not stated.get("accelerators"):
        for layer in layers:
            layer.facts.pop("accelerators", None)
        layers[-1].facts["accelerators"] = found


def given_beside(assignments: Iterable[str]) -> Layer:
    """The layer of the options given with the files, which override them."""
    layer = Layer("")
    for text in assignments:
        path, equals, value = text.partition("=")
        if not equals or not (path in _WHOLE or path.startswith(_TAKEN)):
            hint = "for example --set model=llama-3.1-8b or --set workload.sequence=4096"
            raise fail("C001", f"'{text}' sets no key of model, stack, plan or workload", None, hint)
        _, given = assigned(path, value, "--set")
        layer.facts |= facts_of(path, given, "--set")
    return layer


def facts_of(path: str, given: Any, option: str, place: Place | None = None) -> dict[str, OriginValue]:
    """The values that an option gives, by path: a single value, or each value of a mapping."""
    if isinstance(given, dict):
        each = (facts_of(f"{path}.{key}", value, option, place) for key, value in given.items())
        return {inner: fact for facts in each for inner, fact in facts.items()}
    value = list(given) if isinstance(given, list) else given
    return {path: OriginValue(value, Origin("assumed", f"{option}, given beside the file", place))}


def _depth(layers: Sequence[Layer], model: Imported | None) -> int | None:
    """The number of layers of the model; None if it is not known."""
    if model is not None:
        return sum(int(kind["count"]) for kind in model.document["layers"])
    named = [layer.facts["model"].value for layer in layers if "model" in layer.facts]
    if not named or not any("layers_per_stage" in layer.facts for layer in layers):
        return None
    stored: Model = read("model", str(named[-1]))
    return round(sum(kind.count for kind in stored.layers))


def with_model(imported: Imported, model: Imported) -> Imported:
    """The scenario with the model written out in the place of its name."""
    document = imported.document
    document["model"] = model.document
    origins = {path: origin for path, origin in imported.origins.items() if path != "model"}
    origins |= {f"model.{path}": origin for path, origin in model.origins.items()}
    losses, warnings = (*model.losses, *imported.losses), (*model.warnings, *imported.warnings)
    name = " with ".join(filter(None, (model.format, imported.format)))
    keys = (*model.keys, *imported.keys)
    return replace(
        imported, format=name, document=document, origins=origins, losses=losses, warnings=warnings, keys=keys
    )
