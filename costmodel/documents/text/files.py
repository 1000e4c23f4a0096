"""Reads the text of a file or of standard input, with a size limit, as UTF-8.

A YAML text is held to a small size, since its reader takes long and makes much of every word; a table is not.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

from costmodel.ground.errors import Place, fail

MAXIMUM_BYTES = 4_000_000
LARGEST_TABLE = 256_000_000  # bytes
_UNSEEN = {"Cc", "Cf", "Zl", "Zp"}  # letters that control, turn round or end a line
SEND = 'send its text: "texts": {"NAME": "…"}, and NAME in the place of the path'
_HINTS: dict[type[Exception], str] = {
    IsADirectoryError: "it is a folder; name a file in it",
    FileNotFoundError: "check its name and folder; costmodel init > mine.yaml writes a scenario to start from",
    PermissionError: "it may not be read by you",
}

_texts: list[Mapping[str, str]] = []  # of the question that is answered, in a program that opens no file for it
_found: set[str] = set()  # files of documents that such a program found by their names


@contextmanager
def only_texts(texts: Mapping[str, str]) -> Iterator[None]:
    """A context in which files that a question names are read from these texts, never from disk."""
    _texts.append(texts)
    try:
        yield
    finally:
        _texts.pop()


def is_text(name: str) -> bool:
    """Whether a name refers to a text that came with the question."""
    return bool(_texts) and name in _texts[-1]


def opens_files() -> bool:
    """Whether paths may be opened as files."""
    return not _texts


def may_look(path: str | os.PathLike[str]) -> bool:
    """Whether the program may check if a path exists."""
    return not _texts or str(path) in _found


def found_by_name(path: str | os.PathLike[str]) -> None:
    """Records a file that belongs to a document found by name."""
    if _texts:
        _found.add(str(path))


def file_text(path: str, place: Place | None = None, *, largest: int = MAXIMUM_BYTES) -> str:
    """The text of a file or of standard input, up to a maximum size."""
    shown, data = _place_of_path(path), _data(path, place, largest)
    if len(data) > largest:
        raise fail("D001", f"the file is over {largest / 1e6:.0f} MB", shown)
    return _decoded_text(data, shown)


def file_head(path: str, most: int) -> tuple[str, bool]:
    """The complete lines in the first bytes of a file or of standard input, and whether there is more."""
    shown, data = _place_of_path(path), _data(path, None, most)
    more = len(data) > most
    return _decoded_text(data[: data.rfind(b"\n", 0, most) + 1] if more else data, shown), more


def _place_of_path(path: str) -> Place:
    return Place("<stdin>" if path == "-" else path)


def _data(path: str, place: Place | None, largest: int) -> bytes:
    """The bytes of a file; one byte more than the maximum if it is larger."""
    shown = _place_of_path(path)
    if not path.isprintable() and any(unicodedata.category(letter) in _UNSEEN for letter in path):
        raise fail("D001", "the name of the file holds unprintable characters", shown, "rename the file")
    if is_text(path):
        return _texts[-1][path].encode("utf-8", "replace")[: largest + 1]
    if not may_look(path):
        raise fail("H002", f"no file is opened for a question, and '{path}' is none of its texts", place or shown, SEND)
    try:
        if path != "-":
            with open(path, "rb") as file:
                return file.read(largest + 1)
        if sys.stdin is None:
            raise fail("D001", "there is no standard input", shown)
        return _read_standard_input(sys.stdin, largest)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        named = f"'{path}'" if place else "the file"
        hint = _HINTS.get(type(error), "name a file that can be read")
        if os.path.isfile(os.path.join(path, "config.json")):
            hint = f"it is a folder with a config.json: --model {path} names the model in it"
        raise fail("D001", f"{named} cannot be read: {reason}", place or shown, hint) from None


def _decoded_text(data: bytes, shown: Place) -> str:
    """The text of UTF-8 bytes; a fault with the place of the first byte that is not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = len(data[data.rfind(b"\n", 0, error.start) + 1 : error.start].decode("utf-8", "replace")) + 1
        place = Place(shown.file, line, column)
        raise fail("D001", "the file is not UTF-8 text", place, "save it as UTF-8") from None


def digest(text: str) -> str:
    """A fingerprint of a text: twelve characters of its hash."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@functools.lru_cache(maxsize=1)
def _read_standard_input(stream: TextIO, largest: int) -> bytes:
    """The content of standard input, which can be read only once."""
    return stream.buffer.read(largest + 1) or b""  # nothing comes from a stream that does not wait
