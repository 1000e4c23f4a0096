"""Parameters, weights and training states of a model alone, before a plan is chosen."""

from __future__ import annotations

import os
import shlex
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from costmodel.documents.reader.find_documents import is_path, of_path, said_first
from costmodel.documents.reader.foreign_readers import Foreign, file_in, has_file, is_config, kind_of_ours
from costmodel.documents.reader.hub_names import is_hub_name, shape_of
from costmodel.documents.reader.library import DocumentReader, names
from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.text.files import file_text
from costmodel.equations.memory.states import gradient_bytes, optimizer_bytes, weight_bytes
from costmodel.estimate.model.mixers.mixer import CacheWidth
from costmodel.estimate.model.mixers.mixing_half import CacheKind, cache_kinds, mixer_cache, token_bytes
from costmodel.estimate.model.shards import model_active_parameters, model_parameters
from costmodel.ground.record import record

if TYPE_CHECKING:
    from costmodel.documents.schemas.model import Model
    from costmodel.ground.counts import Zero
    from costmodel.ground.equation import Number

# Bytes of a weight, a gradient, a master copy and the optimizer's states of one parameter.
RECIPES = (
    ("bf16, fp32 gradients", 2.0, 4.0, 4.0, 8.0),
    ("mixed (ZeRO paper)", 2.0, 2.0, 4.0, 8.0),
    ("fp32", 4.0, 4.0, 0.0, 8.0),
)
STAGES: tuple[Zero, ...] = (0, 1, 2, 3)
DEGREES = (8.0, 64.0)
WIDTHS = CacheWidth(2.0, 4.0, 2.0)  # of a cache in 16 bits, with states in fp32
SERVED = 8192.0  # tokens of a sequence whose cache is shown


@record
class RecipeStates:
    """Bytes under one precision: of the weights, and of all training states of a rank by dp and ZeRO stage."""

    title: str
    weights: Number
    kept: dict[tuple[float, Zero], Number]


@record
class ModelMemory:
    """The memory of a model before a layout is chosen."""

    named: str  # by its path as it was asked for, or by its name
    model: Model
    parameters: Number
    active: Number | None
    recipes: tuple[RecipeStates, ...]
    cache: tuple[CacheKind, ...]  # in 16 bits, all heads once: bytes of a token, and of a sequence of so many
    foreign: dict[str, Foreign] = field(default_factory=dict)  # its file, where that is in another format
    twin: str = ""  # the model of the library that has the shape of that file
    served: float = SERVED  # tokens of that sequence
    hub: dict[str, str] = field(default_factory=dict)  # the shipped model by the name asked for

    @property
    def assumed(self) -> Assumption:
        """The assumption that the model is trained, with the command that asks for serving."""
        serving = shlex.join(["costmodel", "memory", "--model", self.named, "--stack", "vllm"])
        return Assumption("workload.kind", "training", f"to serve it, {serving}")


def is_model(name: str) -> bool:
    """Whether a name or file is a model rather than a scenario."""
    if is_hub_name(name):
        return True
    if is_path(name) or name in (os.curdir, os.pardir):
        path = file_in("model", Path(name))
        if not has_file(path):
            return bool(of_path(name, path))
        text = file_text(str(path))
        return (
            is_config(text)
            or kind_of_ours(text) == "model"
            or said_first(text, "schema").startswith("costmodel/model/")
        )
    models = names("model")
    return (name in models or bool(shape_of(name, models))) and name not in names("scenario")


def model_memory(name: str) -> ModelMemory:
    """Parameters and states of a model by name or path."""
    reader = DocumentReader()
    model = reader.document("model", name)
    parameters = model_parameters(model)
    active = model_active_parameters(model) if model.has_experts else None
    states = tuple(_training_states(parameters, *recipe) for recipe in RECIPES)
    named = name if is_path(name) and not is_hub_name(name) else model.name
    held = (lambda kind: token_bytes(kind, WIDTHS), lambda kind: mixer_cache(kind, 1.0, SERVED, WIDTHS))
    cache = tuple(cache_kinds(model, held))
    twin = _same_shape_in_library(model) if reader.foreign else ""
    return ModelMemory(named, model, parameters, active, states, cache, reader.foreign, twin, hub=reader.hub)


def _same_shape_in_library(model: Model) -> str:
    """The name of a library model with the same shape; empty if there is none."""
    from costmodel.exchange.write_yaml import library_twin  # for foreign files alone

    return library_twin(model)


def _training_states(
    parameters: Number, title: str, weight: float, gradient: float, master: float, moments: float
) -> RecipeStates:
    """Bytes of weights and of all training states under one precision, by dp and ZeRO stage."""

    def kept(dp: float, zero: Zero) -> Number:
        """Bytes of all states on a rank."""
        return (
            weight_bytes(parameters, weight, weight, dp, zero=zero, sharded_master=False)
            + gradient_bytes(parameters, gradient, dp, zero=zero)
            + optimizer_bytes(parameters, master, moments, dp, zero=zero)
        )

    weights = weight_bytes(parameters, weight, weight, 1.0, zero=0, sharded_master=False)
    return RecipeStates(title, weights, {(dp, zero): kept(dp, zero) for dp in DEGREES for zero in STAGES})
