"""The formats that start a training, and the layer that a text of one of them is."""

from __future__ import annotations

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
from costmodel.exchange.training.config_text import is_toml, tree_of
from costmodel.exchange.training.file_facts import Layer
from costmodel.exchange.training.job import TrainingFormat
from costmodel.exchange.training.recipe_text import recipe_tree
from costmodel.exchange.values.foreign_values import as_placed

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
