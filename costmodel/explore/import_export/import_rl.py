"""Configurations of reinforcement learning with files beside them: those they override, the trainer's, the model's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath

from costmodel.documents.text.yaml_tree import Mapping as PlacedMapping
from costmodel.exchange.detect import CONFIG, RL_FORMATS
from costmodel.exchange.import_result import GivenSize, Imported, Loss
from costmodel.exchange.rl.merge_rl import as_trainer, settled_rl
from costmodel.exchange.rl.rl_config_text import RlText, fill_references, put_beneath, put_word, stated_text
from costmodel.exchange.rl.rl_format import RlFormat
from costmodel.exchange.training.accelerate import arguments_of, is_call
from costmodel.exchange.training.file_facts import Layer
from costmodel.exchange.training.formats import LAYERED, read_layer
from costmodel.exchange.values.foreign_values import shown
from costmodel.explore.import_export.import_serving import load_flags, replace_stated, with_model_of
from costmodel.explore.import_export.import_training import (
    OpenedFile,
    given_beside,
    named_text,
    paths_of,
    quoted_near,
    read_named,
    settle_size,
    unquoted,
    with_named,
)
from costmodel.ground.errors import CostModelError, Place, fail

_DEEPEST = 6  # configurations, each of which overrides the next


def is_reinforced(files: Sequence[OpenedFile]) -> bool:
    """Whether files start reinforcement learning."""
    return any(opened_file.format in RL_FORMATS for opened_file in files)


def rl_of_files(
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
    layers += _layers(first, paths_of(files))
    for given in (load_flags(load, "rl"), given_beside(assignments)):
        replace_stated(layers, given)
        layers.append(given)
    settle_size(layers, size)
    return with_model_of(layers, files, settled_rl)


def _layers(opened_file: OpenedFile, given: frozenset[Path]) -> list[Layer]:
    """The facts of an RL configuration, of the files that it overrides, and of trainer files that it names."""
    entry = RL_FORMATS[opened_file.format]
    text = _text(opened_file.text, opened_file.file, entry)
    losses = _with_those_beneath(text, opened_file.file, entry, 0)
    left = fill_references(text.tree)
    layer = entry.read(text.tree, opened_file.file)
    for name in left:
        if name in entry.table and entry.table[name].fills:
            losses.append(Loss("not expressible", f"{name}: a resolver computes it", Place(opened_file.file)))
    layer.losses += losses
    layer.named += text.of_trainer
    layer.faults += text.faults
    layer.unless += text.unless
    quoted_near(layer)
    layers = with_named(layer, opened_file.file, read_named, given)
    for ahead in text.ahead:
        as_trainer(ahead)
        ahead.weak = {path: value for path, value in ahead.weak.items() if path not in layer.weak}
        layer.join(ahead)
    return layers


def _text(text: str, file: str, entry: RlFormat) -> RlText:
    """A text in any form; a call in Python states arguments as a command does."""
    if entry.name != "trl" or not is_call(text):
        return stated_text(text, file, entry)
    called = arguments_of(text, file, entry.table)
    return RlText(called.tree, faults=called.faults)


def _with_those_beneath(rl_text: RlText, file: str, entry: RlFormat, depth: int) -> list[Loss]:
    """Adds the values of the configurations that a text overrides; returns the losses among them."""
    losses = list[Loss]()
    for name, place in reversed(rl_text.named):
        if (own := entry.built_in.get(PurePath(name).stem)) is not None:
            stated = PlacedMapping()
            for path_of_key, value in own.items():
                put_word(stated, path_of_key, value, place)
            put_beneath(rl_text.tree, stated)
            continue
        try:
            text, path = named_text(name, file, place)
        except CostModelError:
            if PurePath(name).name != entry.base:
                raise
            sentence = f"{shown(name[:80])} is missing: the defaults of {entry.version} are used"
            losses.append(Loss("approximated", sentence, place))
            continue
        if depth == _DEEPEST:
            raise fail("X010", f"over {_DEEPEST} configurations override one another", place, "write the values out")
        plain = Path(os.path.normpath(path))
        beneath = unquoted(lambda text, name: stated_text(text, name, entry), text, plain)
        losses += _with_those_beneath(beneath, str(plain), entry, depth + 1)
        rl_text.faults += beneath.faults
        put_beneath(rl_text.tree, beneath.tree)
    return losses
