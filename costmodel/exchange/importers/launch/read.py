"""The layer that a text of one of the launch formats is."""

from __future__ import annotations

from costmodel.exchange.formats import (
    ACCELERATE,
    ARGUMENTS,
    AXOLOTL,
    BRIDGE,
    DEEPSPEED,
    LLAMA_FACTORY,
    MAXTEXT,
    NANOTRON,
    TORCHTITAN,
    TORCHTUNE,
)
from costmodel.exchange.importers.launch.accelerate import read_accelerate
from costmodel.exchange.importers.launch.argument_texts import arguments_of, is_call, is_command
from costmodel.exchange.importers.launch.axolotl import read_axolotl
from costmodel.exchange.importers.launch.bridge import overrides_tree, read_bridge
from costmodel.exchange.importers.launch.deepspeed import read_deepspeed
from costmodel.exchange.importers.launch.layer import Layer
from costmodel.exchange.importers.launch.llama_factory import TABLE as OF_LLAMA_FACTORY
from costmodel.exchange.importers.launch.llama_factory import read_llama_factory
from costmodel.exchange.importers.launch.maxtext import read_maxtext
from costmodel.exchange.importers.launch.nanotron import read_nanotron
from costmodel.exchange.importers.launch.recipe_text import recipe_tree
from costmodel.exchange.importers.launch.texts import is_toml, tree_of
from costmodel.exchange.importers.launch.torchtitan import flags_tree, read_torchtitan
from costmodel.exchange.importers.launch.torchtune import read_torchtune
from costmodel.exchange.importers.launch.training_arguments import TABLE as OF_ARGUMENTS
from costmodel.exchange.importers.launch.training_arguments import read_training_arguments, with_launcher
from costmodel.exchange.values.placed_values import as_placed

LAYERED = (AXOLOTL, LLAMA_FACTORY, BRIDGE, DEEPSPEED, ACCELERATE, ARGUMENTS, TORCHTITAN, NANOTRON, TORCHTUNE, MAXTEXT)
_TREES = {
    DEEPSPEED: read_deepspeed,
    ACCELERATE: read_accelerate,
    ARGUMENTS: read_training_arguments,
    AXOLOTL: read_axolotl,
    LLAMA_FACTORY: read_llama_factory,
    NANOTRON: read_nanotron,
    TORCHTUNE: read_torchtune,
    MAXTEXT: read_maxtext,
}

WORDS = {ARGUMENTS: OF_ARGUMENTS, LLAMA_FACTORY: OF_LLAMA_FACTORY}  # tables of what commands may state too


def read_layer(text: str, file: str, format: str) -> Layer:
    """What a text of a named format states."""
    if format in (ARGUMENTS, LLAMA_FACTORY) and (is_call(text) or is_command(text, WORDS[format])):
        stated = arguments_of(text, file, WORDS[format])
        return with_launcher(_TREES[format](stated.tree, file), stated)
    if format in _TREES:
        return _TREES[format](tree_of(text, file), file)
    if format == BRIDGE:
        return read_bridge(overrides_tree(text, file), file)
    if is_toml(text):
        return read_torchtitan(tree_of(text, file), file, "toml")
    if "--training." in text or "--parallelism." in text:
        return read_torchtitan(as_placed(flags_tree(text), file), file, "flags")
    return read_torchtitan(recipe_tree(text, file), file, "recipe")
