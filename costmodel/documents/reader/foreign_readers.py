"""Reads models in other formats where a costmodel document is expected, and traces of requests.

This floor does not know those formats. The package hands their readers in with `register`, by the kind of document
that they give, so that every process has them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Any

from costmodel.documents.schemas.default_values import Assumption
from costmodel.documents.text.files import is_text, may_look
from costmodel.ground.record import record

FILE = "config.json"  # what a folder of a model holds
BESIDE = "hf_quant_config.json"  # how its checkpoint was quantised, of modelopt
_OURS = re.compile(r'"schema"\s*:\s*"costmodel/([\w-]+)/')
_OF_TRANSFORMERS = re.compile(r'"(architectures|model_type|transformers_version)"\s*:')


@record
class Foreign:
    """A document made from another format: format, tree, assumed values, losses and warnings."""

    format: str
    tree: Any
    assumed: tuple[Assumption, ...] = ()
    remarks: tuple[str, ...] = field(default=())
    holds: str = "model"


ReadForeign = Callable[[str, str], Foreign]  # of a text and the name of its file
IsForeign = Callable[[str], bool]  # of a text: a file, or a command as it is typed
_READERS: dict[str, ReadForeign] = {}
_OF_OTHERS: list[IsForeign] = []


def register(kind: str, reader: ReadForeign) -> None:
    """Registers a reader of another format for a kind of document."""
    _READERS[kind] = reader


def reader_of(kind: str, path: Path, text: str) -> ReadForeign | None:
    """The reader for a file in another format; None for costmodel's own documents."""
    return None if path.suffix != ".json" or _OURS.search(text) else _READERS.get(kind)


def register_programs(is_foreign: IsForeign) -> None:
    """Registers a function that recognises texts that start another program."""
    _OF_OTHERS.append(is_foreign)


def is_of_other_program(text: str) -> bool:
    """Whether a text starts another program, and `import` reads it; a config.json is a model."""
    return not is_config(text) and any(is_foreign(text) for is_foreign in _OF_OTHERS)


def read_foreign(kind: str, text: str, file: str) -> Foreign:
    """Reads a text in another format as a document of a kind."""
    return _READERS[kind](text, file)


def is_config(text: str) -> bool:
    """Whether a text looks like a config.json of transformers."""
    return _OF_TRANSFORMERS.search(text) is not None and _OURS.search(text) is None


def kind_of_ours(text: str) -> str:
    """The kind of a costmodel document in JSON; empty for any other text.

    >>> kind_of_ours('{"schema": "costmodel/model/v1"}')
    'model'
    """
    match = _OURS.search(text)
    return "" if match is None else match[1]


def file_in(kind: str, path: Path) -> Path:
    """The file that a path names; for a model folder, its config.json."""
    return path / FILE if kind in _READERS and may_look(path) and path.is_dir() else path


def file_beside(path: Path) -> Path | None:
    """The file with quantisation settings beside a config.json; None if there is none."""
    beside = path.with_name(BESIDE) if path.name == FILE else None
    return beside if beside is not None and has_file(beside) else None


def has_file(path: Path) -> bool:
    """Whether a path can be read: as a file, or as a text that a caller sent under that name."""
    return is_text(str(path)) or (may_look(path) and os.path.isfile(path))
