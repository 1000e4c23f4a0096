"""Commands of serving engines with files beside them: their options, a benchmark, the model's config.json."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from costmodel.documents.reader.find_documents import find
from costmodel.documents.reader.hub_names import name_words, nearest_shapes
from costmodel.documents.reader.library import DocumentReader, names, read
from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.model import Model
from costmodel.estimate.serving.predict_serving import REFUSALS, predict
from costmodel.exchange.detect import CONFIG, ENGINE_OPTIONS, SERVING
from costmodel.exchange.foreign_models import imported_model
from costmodel.exchange.import_result import COUNTS, GivenSize, Imported, Loss, Origin, OriginValue
from costmodel.exchange.serving.engine_files import read_option_file, read_serve_command
from costmodel.exchange.serving.merge_serving import settled_serving
from costmodel.exchange.training.file_facts import Layer
from costmodel.exchange.values.foreign_values import shown
from costmodel.explore.flags.scenario_from_flags import OF_LOADS, flag_assignment
from costmodel.explore.flags.workload_flags import CAPPED, LOADS, keys_of
from costmodel.explore.import_export.import_training import (
    OpenedFile,
    config_origin,
    facts_of,
    given_beside,
    paths_of,
    settle_size,
    with_model,
    with_named,
)
from costmodel.ground.errors import CostModelError, Fault, Place, fail

Settle = Callable[[Sequence[Layer], str, Model | None, str], Imported]


def is_served(files: Sequence[OpenedFile]) -> bool:
    """Whether files start a serving engine."""
    return any(opened_file.format in (SERVING, *ENGINE_OPTIONS.values()) for opened_file in files)


def served(
    files: Sequence[OpenedFile], size: GivenSize, assignments: Iterable[str], load: Mapping[str, str]
) -> Imported:
    """The serving scenario of files that state parts of it.

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
    for given in (load_flags(load, "serving"), given_beside(assignments)):
        replace_stated(layers, given)
        layers.append(given)
    for layer in layers:  # processes of a program that an engine starts itself
        layer.weak = {path: value for path, value in layer.weak.items() if path not in COUNTS}
    settle_size(layers, size)
    return with_model_of(layers, files, settled_serving)


def _layers_of_commands(opened_file: OpenedFile, given: frozenset[Path]) -> list[Layer]:
    """The facts of each engine command in a file, and of the option files that it names."""
    layers = list[Layer]()
    for layer in read_serve_command(opened_file.text, opened_file.file):
        engine = str(layer.facts["stack"].value) if "stack" in layer.facts else ""

        def read_named(text: str, name: str, engine: str = engine) -> Layer:
            """The facts of a file that the command names."""
            return read_option_file(text, name, engine)

        layers += with_named(layer, opened_file.file, read_named, given)
    return layers


def with_model_of(layers: list[Layer], files: Sequence[OpenedFile], settle: Settle) -> Imported:
    """The scenario with its model: from a config.json, from the library, or reported as missing."""
    file, written = files[-1].file, next((file_given for file_given in files if file_given.format == CONFIG), None)
    if written is not None:
        config = imported_model(written.text, written.file)
        for layer in layers:
            named = layer.facts.pop("model", None)
            if named is not None:
                layer.losses.append(
                    Loss("ignored", f"model {shown(named.value)}: its config.json is beside", named.place)
                )
        layers.append(Layer("", {"model": OriginValue(config.document["name"], config_origin(written.file))}))
        shape: Model = DocumentReader().checked("model", config.document, written.file)
        return with_model(settle(layers, file, shape, ""), config)
    model, shipped, missing = _of_library(_stated_model(layers))
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
    """The model that is given beside the files, or that one of them names."""
    return next((layer.facts["model"] for layer in reversed(layers) if "model" in layer.facts), None)


def _of_library(stated: OriginValue | None) -> tuple[Model | None, str, Fault | None]:
    """The library model that a name stands for, its library name, and a fault where there is none."""
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
        sentence = f"the model {shown(name[:80])} is none of the library"
        return None, "", Fault("X002", sentence, stated.place or Place(""), hint)


def invalid_plan(case: ServingCase) -> tuple[Fault, ...]:
    """Warnings that the plan of a command cannot exist, as an estimate of it would refuse it."""
    if case.scenario.plan is None:
        return ()
    try:
        refused = predict(case, bands=False).refused
    except CostModelError:  # which an estimate reports
        return ()
    place = case.place("plan.tp", "plan")
    return tuple(Fault(code, REFUSALS[code].title, place, REFUSALS[code].meaning) for code in refused)


def load_flags(flags: Mapping[str, str], kind: str) -> Layer:
    """The facts that load flags such as --rate and --prompt state.

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


def replace_stated(layers: Sequence[Layer], given: Layer) -> None:
    """Removes from the files' facts what the options replace; the origin of each option names the first of these.

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
        words = f"{own.origin.text.partition(',')[0]}, in the place of {name}{shown(before.value)}{spot}"
        given.facts[by] = own._replace(origin=Origin("assumed", words, own.place))


def _keys_that_replace(path: str, given: Mapping[str, OriginValue]) -> Iterator[str]:
    """Given keys that replace a key of the workload: the key itself, a part of it, or a key that contains it."""
    for by in given if path.startswith("workload.") else ():
        if by == path or by.startswith(f"{path}.") or path.startswith(f"{by}."):
            yield by
