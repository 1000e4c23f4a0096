"""Reads and writes training formats: a text as facts, and a job as a file that is read back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, get_args, get_origin

from costmodel.documents.schemas.model import Model
from costmodel.documents.schemas.scenario import Plan
from costmodel.exchange.import_result import Imported, Origin, OriginValue
from costmodel.exchange.megatron.scenario import FORMAT as MEGATRON
from costmodel.exchange.megatron.scenario import read_options
from costmodel.exchange.training import (
    accelerate,
    axolotl,
    bridge,
    deepspeed,
    llama_factory,
    maxtext,
    nanotron,
    torchtitan,
    torchtune,
    transformers,
)
from costmodel.exchange.training.accelerate import arguments_of, is_call, is_command
from costmodel.exchange.training.config_text import is_toml, recipe_tree, tree_of
from costmodel.exchange.training.file_facts import Layer
from costmodel.exchange.training.job import (
    Job,
    TrainingFormat,
    TrainingRemarks,
    check_plan,
    check_stack,
    check_workload,
    effective_keys,
    keys_of_program,
)
from costmodel.exchange.training.merge_training import UNDER_TRANSFORMERS, merged_training
from costmodel.exchange.values import as_placed
from costmodel.exchange.write_yaml import model_shape
from costmodel.ground.errors import CostModelError, Fault
from costmodel.ground.record import record

# --- the formats that start a training, and the layer that a text of one of them is


_TREES = {
    deepspeed.TITLE: deepspeed.read_deepspeed,
    accelerate.TITLE: accelerate.read_accelerate,
    transformers.TITLE: transformers.read_training_arguments,
    axolotl.TITLE: axolotl.read_axolotl,
    llama_factory.TITLE: llama_factory.read_llama_factory,
    nanotron.TITLE: nanotron.read_nanotron,
    torchtune.TITLE: torchtune.read_torchtune,
    maxtext.TITLE: maxtext.read_maxtext,
}
_MODULES = (
    bridge, deepspeed, accelerate, transformers, torchtitan, axolotl, llama_factory, torchtune, nanotron, maxtext,
)  # fmt: skip
LAYERED: dict[str, TrainingFormat] = {module.TITLE: module.FORMAT for module in _MODULES}
# Formats whose options commands may state too.
_OF_COMMANDS = {module.TITLE: module.TABLE for module in (transformers, llama_factory)}


def read_layer(text: str, file: str, title: str) -> Layer:
    """The facts that a text of a known format states."""
    if title in _OF_COMMANDS and (is_call(text) or is_command(text, _OF_COMMANDS[title])):
        stated = arguments_of(text, file, _OF_COMMANDS[title])
        return transformers.with_launcher(_TREES[title](stated.tree, file), stated)
    if title in _TREES:
        return _TREES[title](tree_of(text, file), file)
    if title == bridge.TITLE:
        return bridge.read_bridge(bridge.overrides_tree(text, file), file)
    if is_toml(text):
        return torchtitan.read_torchtitan(tree_of(text, file), file, "toml")
    if "--training." in text or "--parallelism." in text:
        return torchtitan.read_torchtitan(as_placed(torchtitan.flags_tree(text), file), file, "flags")
    return torchtitan.read_torchtitan(recipe_tree(text, file), file, "recipe")


# --- A job as the file of a format, checked before it is written and read back


TARGETS: dict[str, TrainingFormat] = {
    entry.name: entry for entry in (MEGATRON, *LAYERED.values()) if entry.write is not None
}


@record
class Exported:
    """An exported file: its text, keys of the scenario that it cannot express, and notes for its reader."""

    target: TrainingFormat
    text: str
    faults: tuple[Fault, ...]
    notes: tuple[str, ...]


def exported_training(target: TrainingFormat, job: Job) -> Exported:
    """The job in a format, checked by reading it back if the format can express it."""
    remarks = TrainingRemarks(job)
    check_stack(target, remarks, TARGETS.values())
    check_plan(target, remarks)
    check_workload(target, remarks)
    text = target.write(job, remarks) if target.write is not None else ""
    if not remarks.faults:
        check_read_back(target, text, remarks)
    calls = [
        f"the program has to state {', '.join(keys)}: {call}" for call, keys in keys_of_program(target, job).items()
    ]
    notes = [*calls, *_unwritten_keys_note(target, job), *remarks.notes]
    faults = tuple(_with_writable_values(target, job, fault) for fault in remarks.faults)
    return Exported(target, text, faults, tuple(notes))


def _with_writable_values(target: TrainingFormat, job: Job, fault: Fault) -> Fault:
    """The fault of a plan key with the values that the format writes as its hint, if it has none."""
    path = fault.place.path if fault.place is not None else ""
    key = path.removeprefix("plan.")
    if fault.hint or key == path or target.write is None:
        return fault
    writable = []
    for value in _values_to_try(key):
        remarks = TrainingRemarks(replace(job, plan=job.plan.model_copy(update={key: value})))
        check_plan(target, remarks)
        target.write(remarks.job, remarks)
        if all(other.place is None or other.place.path != path for other in remarks.faults):
            writable.append(f"--set {path}={value if isinstance(value, str) else json.dumps(value)}")
    return replace(fault, hint=" or ".join(writable))


def _values_to_try(key: str) -> list[Any]:
    """The choices of a plan key; none of a size or of a list.

    >>> _values_to_try("cp_type"), _values_to_try("sequence_parallel"), _values_to_try("tp")
    (['p2p', 'all-gather', 'a2a'], [True, False], [])
    """
    kinds: list[Any] = [Plan.model_fields[key].annotation]
    found: list[Any] = []
    for kind in kinds:
        named = get_origin(kind) is Literal
        found += get_args(kind) if named else [True, False] if kind is bool else []
        kinds += () if named or get_origin(kind) is list else get_args(kind)
    return found


def _unwritten_keys_note(target: TrainingFormat, job: Job) -> list[str]:
    """A note on the keys of the scenario that no training file states, such as a price."""
    overlap = {f"assume.overlap.{key}" for key, value in job.assume.overlap if value is not None}
    experts = {f"assume.experts.{key}" for key, value in job.assume.experts if value is not None}
    experts -= {"assume.experts.deduplicated", "assume.experts.capacity"} if target.name == "megatron" else set()
    price = {"assume.price"} if job.assume.price is not None else set()
    remarks = sorted(overlap | experts | price)
    return [f"not stated by this file: {', '.join(remarks)}"] if remarks else []


_FILE = "export"  # what the text is called while it is read
_PAIRS = (("accelerate", transformers.FORMAT), ("hf", accelerate.FORMAT))  # two files that start one job
_WORKLOAD = ("sequence", "global_batch", "precision", "gradients", "optimizer")


# Stacks that train models of transformers, with the engine that a file states.
_ENGINES = {stack: (engine,) for engine, stack in UNDER_TRANSFORMERS.items()}


def check_read_back(target: TrainingFormat, text: str, remarks: TrainingRemarks) -> None:
    """Records a fault for every key that the text states differently or leaves out."""
    job = remarks.job
    try:
        found = read_back(target, text, job)
    except CostModelError as error:
        for fault in error.faults:
            remarks.refuse("plan", f"the file would break a rule of its own format: {fault.sentence}", fault.hint)
        return
    for fault in found.missing:
        remarks.refuse("plan", f"read back, the file leaves something open: {fault.sentence}")
    for loss in found.losses:
        if loss.kind != "ignored":
            remarks.note(f"read back, {loss.kind}: {loss.sentence}")
    for path, ours, theirs in differing_keys(found.document, job):
        remarks.refuse(path, f"{ours} comes back as {theirs}")


def differing_keys(document: dict[Any, Any], job: Job) -> Iterator[tuple[str, object, object]]:
    """Keys that differ between a document read back and the job, with both values."""
    experts = job.model.has_experts
    ours = effective_keys(job.plan, experts=experts)
    theirs = effective_keys(Plan.model_validate(document["plan"]), experts=experts)
    for key in sorted(ours.keys() | theirs.keys()):
        if ours.get(key) != theirs.get(key):
            yield f"plan.{key}", ours.get(key), theirs.get(key)
    wanted = job.workload.model_dump() | {"gradients": job.gradients, "optimizer": job.optimizer}
    for key in _WORKLOAD:
        if key in document["workload"] and document["workload"][key] != wanted[key]:
            yield f"workload.{key}", wanted[key], document["workload"][key]
    same = {job.stack, UNDER_TRANSFORMERS.get(job.stack), *_ENGINES.get(job.stack, ())}
    if document.get("stack", job.stack) not in same:
        yield "stack", job.stack, document["stack"]
    if "model" in document and model_shape(Model.model_validate(document["model"])) != model_shape(job.model):
        yield "model", "the shape of the model", "another"


def read_back(target: TrainingFormat, text: str, job: Job) -> Imported:
    """The scenario read back from a text, with the facts of its program and of a companion file."""
    if target.name == "megatron":
        return read_options(text, _FILE)
    layers = [read_layer(text, _FILE, target.title)]
    for name, other in _PAIRS:
        if name == target.name and other.write is not None:
            layers.append(read_layer(other.write(job, TrainingRemarks(job)), _FILE, other.title))
    known = Origin("assumed", "the program states it")
    given = {
        "accelerators": OriginValue(job.accelerators, known),
        "workload.sequence": OriginValue(round(job.workload.sequence), known),
        "model": OriginValue(job.model.name, known),
    }
    given |= {
        f"plan.{key}": OriginValue(value, known)
        for key, value in job.effective.items()
        if f"plan.{key}" in target.calls
    }
    found = merged_training([*layers, Layer("", given)], _FILE, round(sum(kind.count for kind in job.model.layers)))
    del found.document["model"]
    return found
