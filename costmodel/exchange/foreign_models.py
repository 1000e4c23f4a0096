"""Models in foreign formats, such as a config.json, where a scenario or a command names a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePath

from costmodel.documents.reader.foreign_readers import FILE, Foreign, file_beside
from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.text.files import file_text
from costmodel.exchange.detect import detected
from costmodel.exchange.huggingface import read_config
from costmodel.exchange.import_result import Imported, Loss
from costmodel.exchange.values import as_text
from costmodel.ground.errors import CostModelError

_HUB = "models--"  # how the cache of the hub names the folder of a model
_FIXED = {"schema", "name", "title", "source", "sources"}  # keys that state where a document is from


def read_model(text: str, file: str) -> Foreign:
    """The model that a file states, including values from its format or class."""
    found = imported_model(text, file)
    return Foreign(found.format, found.document, tuple(_assumed_values(found)), tuple(_remarks(found)))


def imported_model(text: str, file: str) -> Imported:
    """The model document of a config.json; a fault names the detected format of any other file."""
    try:
        return read_config(text, file, model_name_in_path(file), beside=_settings_beside(file))
    except CostModelError as error:
        if {fault.code for fault in error.faults} == {"X001"}:
            detected(text, file)
        raise


def _settings_beside(file: str) -> tuple[str, str] | None:
    """Text and name of the file with quantisation settings beside a config.json, if there is one."""
    path = file_beside(Path(file))
    return None if path is None else (file_text(str(path)), str(path))


def model_name_in_path(file: str) -> str:
    """The model name in a file path: the folder name, or the file name if it is not config.json; else empty.

    >>> model_name_in_path("qwen3-8b/config.json"), model_name_in_path("mine.json"), model_name_in_path("config.json")
    ('qwen3-8b', 'mine', '')
    >>> model_name_in_path("hub/models--Qwen--Qwen3-8B/snapshots/895c/config.json")
    'Qwen3-8B'
    """
    path = PurePath(file)
    cached = [part.rpartition("--")[2] for part in path.parts if part.startswith(_HUB)]
    name = path.stem if path.name != FILE else (cached or [path.parent.name])[-1]
    return as_text(re.sub(r"\s+", " ", name)).strip("'")


def _assumed_values(found: Imported) -> list[Assumption]:
    """Values that the file does not state: assumed, left at a default, or fixed by the class."""
    return [
        Assumption(f"model.{path}", as_text(_leaf_at(found.document, path)).strip("'"), origin.text)
        for kind in ("assumed", "default", "class")
        for path, origin in found.origins.items()
        if origin.kind == kind and path.split(".")[0] not in _FIXED
    ]


def _leaf_at(tree: object, path: str) -> object:
    for part in path.split("."):
        tree = tree[int(part)] if isinstance(tree, list) else tree[part]  # type: ignore[index]
    return tree


def _remarks(found: Imported) -> list[str]:
    """Losses that change an answer, options that the file leaves out, and warnings."""
    weighty = [loss for loss in found.losses if loss.kind != "ignored"]
    warned = (f"{fault.code}: {fault.with_near_word}" for fault in found.warnings)
    return [*map(loss_words, weighty), *_left_out(found), *warned]


def _left_out(found: Imported) -> Iterator[str]:
    """Options that the file leaves out, with the defaults of their class."""
    values: dict[str, dict[str, str]] = {}
    for path, origin in found.origins.items():
        option, is_default, owner = origin.text.partition(": default of ")
        if origin.kind == "default" and is_default and path.split(".")[0] not in _FIXED:
            values.setdefault(owner, {}).setdefault(option, as_text(_leaf_at(found.document, path)).strip("'"))
    for owner, left in values.items():
        named = ", ".join(f"{option} {value}" for option, value in left.items())
        yield f"left out, so the default of {owner}: {named}"


def loss_words(loss: Loss) -> str:
    """A loss as text: its kind, its sentence and the parameters left out."""
    more = f" ({loss.parameters:+,.0f} parameters)" if loss.parameters else ""
    return f"{loss.kind}: {loss.sentence}{more}"
