"""Digests in files that the program writes and reads again, to detect changed files.

A digest is over everything the file holds, whatever keys those are: a version that adds keys needs no new schema, and
reads what older versions wrote, as they read what it writes. Layout and the order of keys do not count.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from costmodel.ground.errors import Place, fail

DIGEST = "digest"
_ASIDE = (DIGEST, "elapsed_s")  # what differs between two runs that give the same answer
_OPENING = ("schema", "costmodel")


def sealed(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The same with its digest, behind what opens a file."""
    opening = {key: tree[key] for key in _OPENING if key in tree} | {DIGEST: digest_of(tree)}
    return {**opening, **{key: value for key, value in tree.items() if key not in opening}}


def digest_of(tree: Mapping[str, Any]) -> str:
    """A digest of the contents of a file, sixteen letters.

    >>> digest_of({"a": 8.0, "b": "x"}) == digest_of({"b": "x", "a": 8, "digest": "any"})
    True
    >>> digest_of({"a": 8.0}) == digest_of({"a": 8.1})
    False
    """
    held = {str(key): _plain(value) for key, value in tree.items() if key not in _ASIDE}
    text = json.dumps(held, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_sealed(tree: Mapping[str, Any]) -> bool:
    """Whether a file matches its digest."""
    return tree.get(DIGEST) == digest_of(tree)


def check_seal(tree: Mapping[str, Any], what: str, file: str, hint: str) -> None:
    """A fault for a file that was changed after it was written, or has no digest."""
    if is_sealed(tree):
        return
    if DIGEST not in tree:
        place = getattr(tree, "place", None) or Place(file)
        raise fail("D020", f"this {what} has no digest, so it may have been changed", place, hint)
    place = getattr(tree[DIGEST], "place", None) or Place(file)
    raise fail("D020", f"this {what} was changed after it was written: its digest is of other content", place, hint)


def _plain(value: Any) -> Any:
    """A value as it counts: a whole number is the same with a point as without."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return int(value) if value.is_integer() else float(value)
    return value
