"""Combines the files of one job, and files that they include, into a scenario: training, serving or RL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any, NamedTuple, TypeVar

from costmodel.documents.reader.find_documents import find
from costmodel.documents.reader.folders import NO_FILES, as_named, is_near
from costmodel.documents.reader.foreign_readers import file_in, has_file, is_config
from costmodel.documents.reader.hub_names import name_words, nearest_shapes
from costmodel.documents.reader.library import DocumentReader, names, read
from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.model import Model
from costmodel.documents.text.files import file_text
from costmodel.documents.text.yaml_tree import Mapping as PlacedMapping
from costmodel.documents.text.yaml_tree import assigned
from costmodel.estimate.serving.predict_serving import REFUSALS, predict
from costmodel.exchange.detect import CONFIG, ENGINE_OPTIONS, RL_FORMATS, SERVING, detected, stated_format
from costmodel.exchange.foreign_models import imported_model
from costmodel.exchange.import_result import COUNTS, GivenSize, Imported, Loss, Origin, OriginValue
from costmodel.exchange.machine_shape import machine_format
from costmodel.exchange.rl.merge_rl import (
    RlText,
    add_base_values,
    facts_of_trainer,
    fill_references,
    merged_rl,
    set_path,
    stated_text,
)
from costmodel.exchange.rl.rl_format import RlFormat
from costmodel.exchange.serving.engine_files import merged_serving, read_option_file, read_serve_command
from costmodel.exchange.training import accelerate, deepspeed
from costmodel.exchange.training.accelerate import arguments_of, is_call
from costmodel.exchange.training.file_facts import Layer
from costmodel.exchange.training.formats import LAYERED, read_layer
from costmodel.exchange.training.merge_training import CONFIG_FILE, merged_training
from costmodel.exchange.training.published_configs import published_config
from costmodel.exchange.values import as_text
from costmodel.explore.import_export.import_command_line import is_typed_command
from costmodel.explore.scenario_from_flags import OF_LOADS, flag_assignment
from costmodel.explore.workload_flags import CAPPED, LOADS, keys_of
from costmodel.ground.errors import COMMAND_LINE, CostModelError, Fault, Place, fail

# --- several files of one training


_TAKEN = ("plan.", "workload.", "assume.", "stack.", "limits.")
_WHOLE = ("model", "stack")
_DEEPEST = 2  # files that name one another
_SHIPPED = "put your own file there if you changed it"
Read = TypeVar("Read")


class OpenedFile(NamedTuple):
    """A file of another tool: its name, text and format."""

    file: str
    text: str
    format: str


def open_foreign(name: str, stated: str = "") -> OpenedFile:
    """Opens a file of another tool: a path, a folder with config.json, '-' for standard input, or a typed command.

    stated: the short name of its format, where that is given
    """
    if is_typed_command(name):
        return OpenedFile(COMMAND_LINE, name, _format_of(name, COMMAND_LINE, stated))
    path = Path(name) if name == "-" else file_in("model", Path(name))
    text = file_text(str(path))
    file = "<stdin>" if name == "-" else as_named(path)
    return OpenedFile(file, text, CONFIG if is_config(text) and not stated else _format_of(text, file, stated))


def _format_of(text: str, file: str, stated: str) -> str:
    """The format of a text: of a launch file, or of the tool that printed the shape of a machine."""
    if stated:
        return stated_format(stated, text)
    try:
        return detected(text, file).name
    except CostModelError:
        tool = machine_format(text)
        if not tool:
            raise
        return tool


def training_scenario_of(files: Sequence[OpenedFile], size: GivenSize, assignments: Iterable[str]) -> Imported:
    """The training scenario that several files describe together."""
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
            layers += with_included_files(layer, opened_file.file, read_included_config, paths_of(files))
        else:
            sentence = f"{opened_file.format} is read alone, not beside other files"
            raise fail("X004", sentence, Place(opened_file.file), "give it by itself")
    if model is not None:
        _drop_name_of_written_shape(layers)
    layers.append(layer_of_settings(assignments))
    settle_size(layers, size)
    imported = merged_training(layers, files[-1].file, _layer_count(layers, model))
    return imported if model is None else with_written_model(imported, model)


def _drop_name_of_written_shape(layers: Sequence[Layer]) -> None:
    """Drops the name of a model if its shape is written out too, since the shape decides."""
    for layer in layers:
        named = layer.facts.get("model")
        if layer.format and named is not None:
            del layer.facts["model"]
            layer.losses.append(Loss("ignored", f"model {as_text(named.value)}: its shape is written out", named.place))


def config_origin(file: str) -> Origin:
    """Origin of values that are written in a model's config.json.

    file: its path
    """
    return Origin("file", CONFIG_FILE, Place(file))


def paths_of(files: Sequence[OpenedFile]) -> frozenset[Path]:
    """The paths of these files."""
    return frozenset(Path(opened_file.file).resolve() for opened_file in files if opened_file.file not in NO_FILES)


def with_included_files(
    layer: Layer, file: str, read_named: Callable[[str, str], Layer], given: frozenset[Path], depth: int = 0
) -> list[Layer]:
    """The values of a file, followed by those of the files that it includes.

    given: files that are read for themselves
    """
    layers = [layer]
    for name, place in layer.named if depth < _DEEPEST else ():
        shipped = None if any(map(has_file, _included_paths(name, file))) else published_config(name)
        if shipped is not None:
            layer.warnings.append(Fault("X006", f"{name} is not here: read as {shipped.owner} has it", place, _SHIPPED))
            layers.append(read_included_config(shipped.text, shipped.owner))
            continue
        text, path = included_text(name, file, place)
        if path.resolve() not in given:
            inner = read_without_quoting(read_named, text, path)
            layers += with_included_files(inner, str(path), read_named, given, depth + 1)
    return layers


def _included_paths(name: str, file: str) -> list[Path]:
    """Where a file may be that another file includes: beside that, or in the working folder."""
    return list(dict.fromkeys((Path(file).parent / name, Path(name))))


def included_text(name: str, file: str, place: Place) -> tuple[str, Path]:
    """The text and path of a file that another file includes."""
    paths = _included_paths(name, file)
    for path in paths:
        try:
            return file_text(str(path)), path
        except CostModelError as error:
            problem = error.faults[0].sentence
    hint = f"tried {' and '.join(map(str, paths))}: {problem}; put it there, or correct its path"
    raise fail("X002", f"the file names {name}, which cannot be read", place, hint)


def read_included_config(text: str, name: str) -> Layer:
    """The values of a JSON configuration of DeepSpeed, or of accelerate, which may include one."""
    return read_layer(text, name, deepspeed.TITLE if text.lstrip().startswith("{") else accelerate.TITLE)


def read_without_quoting(read: Callable[[str, str], Read], text: str, path: Path) -> Read:
    """Reads an included file; faults do not quote text from outside the working folder."""
    try:
        parsed = read(text, as_named(path))
    except CostModelError as error:
        raise CostModelError(*(_hide_private_path(fault, path) for fault in error.faults)) from None
    if isinstance(parsed, Layer):
        hide_private_faults(parsed)
    return parsed


def hide_private_faults(layer: Layer) -> None:
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
    """Computes the number of accelerators from files and options, and stores it in the last layer."""
    stated = {path: value for layer in layers for path, value in (layer.weak | layer.facts).items() if path in COUNTS}
    stated |= {path: value for layer in layers for path, value in layer.facts.items() if path in COUNTS}
    found = size.accelerators(stated)
    if isinstance(found, Fault):
        layers[-1].faults.append(found)
    elif found is not None and found is not stated.get("accelerators"):
        for layer in layers:
            layer.facts.pop("accelerators", None)
        layers[-1].facts["accelerators"] = found


def layer_of_settings(assignments: Iterable[str]) -> Layer:
    """The values of --set options given with the files; they override the files."""
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
    """The values that an option sets, by path; a mapping sets each of its values."""
    if isinstance(given, dict):
        each = (facts_of(f"{path}.{key}", value, option, place) for key, value in given.items())
        return {inner: fact for facts in each for inner, fact in facts.items()}
    value = list(given) if isinstance(given, list) else given
    return {path: OriginValue(value, Origin("assumed", f"{option}, given beside the file", place))}


def _layer_count(layers: Sequence[Layer], model: Imported | None) -> int | None:
    """The number of layers of the model; None if it is not known."""
    if model is not None:
        return sum(int(kind["count"]) for kind in model.document["layers"])
    named = [layer.facts["model"].value for layer in layers if "model" in layer.facts]
    if not named or not any("layers_per_stage" in layer.facts for layer in layers):
        return None
    stored: Model = read("model", str(named[-1]))
    return round(sum(kind.count for kind in stored.layers))


def with_written_model(imported: Imported, model: Imported) -> Imported:
    """The scenario with the whole model in the place of its name."""
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


# --- commands of serving engines with files beside them


Settle = Callable[[Sequence[Layer], str, Model | None, str], Imported]


def starts_serving(files: Sequence[OpenedFile]) -> bool:
    """Whether any of the files starts a serving engine."""
    return any(opened_file.format in (SERVING, *ENGINE_OPTIONS.values()) for opened_file in files)


def serving_scenario_of(
    files: Sequence[OpenedFile], size: GivenSize, assignments: Iterable[str], load: Mapping[str, str]
) -> Imported:
    """The serving scenario that several files describe together.

    load: flags such as rate and prompt, as they were typed
    """
    layers = list[Layer]()
    for opened_file in files:
        if opened_file.format == CONFIG:
            continue
        if opened_file.format == SERVING:
            layers += _layers_of_commands(opened_file, paths_of(files))
        elif opened_file.format in ENGINE_OPTIONS.values():
            engine = next(name for name, title in ENGINE_OPTIONS.items() if title == opened_file.format)
            layers.append(read_option_file(opened_file.text, opened_file.file, engine))
        else:
            sentence = f"{opened_file.format} trains, and another file serves"
            raise fail("X004", sentence, Place(opened_file.file), "import them apart")
    for given in (load_flags(load, "serving"), layer_of_settings(assignments)):
        replace_by_options(layers, given)
        layers.append(given)
    for layer in layers:  # processes of a program that an engine starts itself
        layer.weak = {path: value for path, value in layer.weak.items() if path not in COUNTS}
    settle_size(layers, size)
    return with_model_of_files(layers, files, merged_serving)


def _layers_of_commands(opened_file: OpenedFile, given: frozenset[Path]) -> list[Layer]:
    """The values of each engine command in a file, and of the option files that it includes."""
    layers = list[Layer]()
    for layer in read_serve_command(opened_file.text, opened_file.file):
        engine = str(layer.facts["stack"].value) if "stack" in layer.facts else ""

        def read_named(text: str, name: str, engine: str = engine) -> Layer:
            """The facts of a file that the command names."""
            return read_option_file(text, name, engine)

        layers += with_included_files(layer, opened_file.file, read_named, given)
    return layers


def with_model_of_files(layers: list[Layer], files: Sequence[OpenedFile], settle: Settle) -> Imported:
    """The scenario with its model: from a config.json, from the library, or reported as missing."""
    file, written = files[-1].file, next((file_given for file_given in files if file_given.format == CONFIG), None)
    if written is not None:
        config = imported_model(written.text, written.file)
        for layer in layers:
            named = layer.facts.pop("model", None)
            if named is not None:
                layer.losses.append(
                    Loss("ignored", f"model {as_text(named.value)}: its config.json is beside", named.place)
                )
        layers.append(Layer("", {"model": OriginValue(config.document["name"], config_origin(written.file))}))
        shape: Model = DocumentReader().checked("model", config.document, written.file)
        return with_written_model(settle(layers, file, shape, ""), config)
    model, shipped, missing = _library_model(_stated_model(layers))
    for layer in layers:
        if model is None:
            layer.facts.pop("model", None)
        elif (named := layer.facts.get("model")) is not None and named.value != shipped:
            words = f"{named.origin.text}: {name_words(str(named.value), shipped)}"
            layer.facts["model"] = named._replace(origin=named.origin._replace(text=words))
    imported = settle(layers, file, model, shipped)
    if missing is not None:
        other = [fault for fault in imported.missing if "the model" not in fault.sentence]
        imported = replace(imported, missing=(missing, *other))
    return imported


def _stated_model(layers: Sequence[Layer]) -> OriginValue | None:
    """The model that the user states, or else that a file names."""
    return next((layer.facts["model"] for layer in reversed(layers) if "model" in layer.facts), None)


def _library_model(stated: OriginValue | None) -> tuple[Model | None, str, Fault | None]:
    """The library model of a name, its library name, and a fault if there is none."""
    if stated is None:
        return None, "", None
    name = str(stated.value)
    try:
        return read("model", name), Path(find("model", name)).stem, None
    except CostModelError as error:
        if {fault.code for fault in error.faults} - {"D001", "D009"}:
            raise
        near = nearest_shapes(name, names("model"))
        hint = f"add its config.json, or --set model={near[0] if near else 'NAME'}"
        hint += f"; near are {', '.join(near)}" if near else " with one of costmodel list models"
        sentence = f"the model {as_text(name[:80])} is none of the library"
        return None, "", Fault("X002", sentence, stated.place or Place(""), hint)


def invalid_plan_warnings(case: ServingCase) -> tuple[Fault, ...]:
    """A warning for each reason why the plan of a command is invalid."""
    if case.scenario.plan is None:
        return ()
    try:
        refused = predict(case, bands=False).refused
    except CostModelError:  # which an estimate reports
        return ()
    place = case.place("plan.tp", "plan")
    return tuple(Fault(code, REFUSALS[code].title, place, REFUSALS[code].meaning) for code in refused)


def load_flags(flags: Mapping[str, str], kind: str) -> Layer:
    """The values that load flags such as --rate and --prompt state.

    >>> {path: fact.value for path, fact in load_flags({"rate": "8", "answer": "512"}, "serving").facts.items()}
    {'workload.rate': '8 /s', 'workload.output': 512}
    """
    layer, keys = Layer(""), keys_of(kind)
    for name, text in flags.items():
        if name not in keys:
            raise fail("C001", f"--{name} is for services, and the files are for {kind}", None, "leave it out")
        typed = flag_assignment(name, keys[name], text)
        layer.facts |= facts_of(keys[name], typed.value, f"--{name}", typed.place)
    return layer


def replace_by_options(layers: Sequence[Layer], given: Layer) -> None:
    """Removes from the files' values what options replace; the origin of each option names the replaced value.

    A length replaces its mean and spread, and one load another, with what belongs to that; of a rate
    with the most in flight, the other one stays.
    """
    stated = [facts for layer in layers for facts in (layer.facts, layer.weak)]
    loads = [load for load in LOADS if load in given.facts]
    there = {load for load in LOADS if any(load in facts for facts in stated)}
    lost = there - {*loads} if loads and not (there == {*CAPPED} > {*loads}) else set()
    lost |= {path for path in OF_LOADS if lost and path not in given.facts}
    taken: dict[str, tuple[str, OriginValue]] = {}  # by what is given: the path that it takes the place of, its value
    for facts in stated:
        for path in list(facts):
            for by in loads if path in lost else _keys_that_replace(path, given.facts):
                before = facts.pop(path, None)
                if before is not None:
                    taken.setdefault(by, (path, before))
    for by, (path, before) in taken.items():
        own = given.facts[by]
        name = "" if path == by else f"{path.removeprefix('workload.')} "
        spot = f" ({before.place.file}:{before.place.line})" if before.place and before.place.line else ""
        spot = spot or f" of {before.origin.text.partition(',')[0]}"
        words = f"{own.origin.text.partition(',')[0]}, in the place of {name}{as_text(before.value)}{spot}"
        given.facts[by] = own._replace(origin=Origin("assumed", words, own.place))


def _keys_that_replace(path: str, given: Mapping[str, OriginValue]) -> Iterator[str]:
    """The given keys that replace a workload key: the same key, a part of it, or a key that contains it."""
    for by in given if path.startswith("workload.") else ():
        if by == path or by.startswith(f"{path}.") or path.startswith(f"{by}."):
            yield by


# --- configurations of reinforcement learning with files beside them


_DEEPEST_OVERRIDES = 6  # configurations, each of which overrides the next


def starts_rl(files: Sequence[OpenedFile]) -> bool:
    """Whether any of the files starts reinforcement learning."""
    return any(opened_file.format in RL_FORMATS for opened_file in files)


def rl_scenario_of(
    files: Sequence[OpenedFile], size: GivenSize, assignments: Iterable[str], load: Mapping[str, str]
) -> Imported:
    """The RL scenario that several files describe together.

    load: the flags --prompt and --answer, as they were typed
    """
    stated = [opened_file for opened_file in files if opened_file.format in RL_FORMATS]
    if len(stated) > 1:
        sentence = f"{stated[1].format} beside {stated[0].format}"
        raise fail("X004", sentence, Place(stated[1].file), "give one; those that it overrides are read by their names")
    (first,) = stated
    layers = list[Layer]()
    for opened_file in files:
        if opened_file.format in LAYERED:
            layers.append(read_layer(opened_file.text, opened_file.file, opened_file.format))
        elif opened_file.format not in (CONFIG, first.format):
            sentence = f"{opened_file.format} is read alone, not beside {first.format}"
            raise fail("X004", sentence, Place(opened_file.file), "give it by itself")
    layers += _rl_layers(first, paths_of(files))
    for given in (load_flags(load, "rl"), layer_of_settings(assignments)):
        replace_by_options(layers, given)
        layers.append(given)
    settle_size(layers, size)
    return with_model_of_files(layers, files, merged_rl)


def _rl_layers(opened_file: OpenedFile, given: frozenset[Path]) -> list[Layer]:
    """The values of an RL configuration, of the files that it overrides, and of included trainer files."""
    entry = RL_FORMATS[opened_file.format]
    text = _rl_text(opened_file.text, opened_file.file, entry)
    losses = _add_overridden_configs(text, opened_file.file, entry, 0)
    left = fill_references(text.tree)
    layer = entry.read(text.tree, opened_file.file)
    for name in left:
        if name in entry.table and entry.table[name].fills:
            losses.append(Loss("not expressible", f"{name}: a resolver computes it", Place(opened_file.file)))
    layer.losses += losses
    layer.named += text.of_trainer
    layer.faults += text.faults
    layer.unless += text.unless
    hide_private_faults(layer)
    layers = with_included_files(layer, opened_file.file, read_included_config, given)
    for ahead in text.ahead:
        facts_of_trainer(ahead)
        ahead.weak = {path: value for path, value in ahead.weak.items() if path not in layer.weak}
        layer.join(ahead)
    return layers


def _rl_text(text: str, file: str, entry: RlFormat) -> RlText:
    """The parsed text of an RL file; a Python call states arguments as a command line does."""
    if entry.name != "trl" or not is_call(text):
        return stated_text(text, file, entry)
    called = arguments_of(text, file, entry.table)
    return RlText(called.tree, faults=called.faults)


def _add_overridden_configs(rl_text: RlText, file: str, entry: RlFormat, depth: int) -> list[Loss]:
    """Adds values of the configurations that a text overrides; returns what is lost of them."""
    losses = list[Loss]()
    for name, place in reversed(rl_text.named):
        if (own := entry.built_in.get(PurePath(name).stem)) is not None:
            stated = PlacedMapping()
            for path_of_key, value in own.items():
                set_path(stated, path_of_key, value, place)
            add_base_values(rl_text.tree, stated)
            continue
        try:
            text, path = included_text(name, file, place)
        except CostModelError:
            if PurePath(name).name != entry.base:
                raise
            sentence = f"{as_text(name[:80])} is missing: the defaults of {entry.version} are used"
            losses.append(Loss("approximated", sentence, place))
            continue
        if depth == _DEEPEST_OVERRIDES:
            raise fail(
                "X010", f"over {_DEEPEST_OVERRIDES} configurations override one another", place, "write the values out"
            )
        plain = Path(os.path.normpath(path))
        beneath = read_without_quoting(lambda text, name: stated_text(text, name, entry), text, plain)
        losses += _add_overridden_configs(beneath, str(plain), entry, depth + 1)
        rl_text.faults += beneath.faults
        add_base_values(rl_text.tree, beneath.tree)
    return losses
