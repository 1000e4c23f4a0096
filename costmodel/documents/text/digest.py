"""Digests in files that the program writes and reads again, to detect changed files.

A digest is over everything the file holds, whatever keys those are: a version that adds keys needs no new schema, and
reads what older versions wrote, as they read what it writes. Layout and the order of keys do not count.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import costmodel
from costmodel.ground.errors import CostModelError, Fault, Place, fail
from costmodel.ground.parsing import late_pattern

DIGEST = "digest"
_VERSION = "costmodel"  # the version that wrote a file; it moves whenever the keys of results do
_ASIDE = (DIGEST, "elapsed_s")  # what differs between two runs that give the same answer
_OPENING = ("schema", _VERSION)


def sealed(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The tree with its digest, which follows the opening keys of the file."""
    opening = {key: tree[key] for key in _OPENING if key in tree} | {DIGEST: digest_of(tree)}
    return {**opening, **{key: value for key, value in tree.items() if key not in opening}}


def digest_of(tree: Mapping[str, Any]) -> str:
    """A digest of the contents of a file: sixteen characters.

    >>> digest_of({"a": 8.0, "b": "x"}) == digest_of({"b": "x", "a": 8, "digest": "any"})
    True
    >>> digest_of({"a": 8.0}) == digest_of({"a": 8.1})
    False
    """
    held = {str(key): _normal_form(value) for key, value in tree.items() if key not in _ASIDE}
    text = json.dumps(held, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_sealed(tree: Mapping[str, Any]) -> bool:
    """Whether a file matches its digest."""
    return tree.get(DIGEST) == digest_of(tree)


def check_seal(tree: Mapping[str, Any], what: str, file: str, hint: str) -> None:
    """A fault for a file whose digest is missing or does not match its content.

    Another version may compute the digest differently, so only a file of this version is reported as changed.
    """
    if is_sealed(tree):
        return
    if other := written_by_another(tree, what, file):
        raise CostModelError(other)
    if DIGEST not in tree:
        place = getattr(tree, "place", None) or Place(file)
        raise fail("D020", f"this {what} has no digest, so it may have been changed", place, hint)
    place = getattr(tree[DIGEST], "place", None) or Place(file)
    raise fail("D020", f"this {what} was changed after it was written: its digest is of other content", place, hint)


def written_by_another(tree: Mapping[str, Any], what: str, file: str) -> Fault | None:
    """The fault for a file that another version wrote, to use if it cannot be read; None for a file of this version."""
    version = tree.get(_VERSION)
    theirs, ours = _order(version), _order(costmodel.__version__)
    if not theirs or theirs == ours:
        return None
    age = "an older" if theirs < ours else "a newer"
    sentence = f"this {what} was written by {age} costmodel ({version}), and this is {costmodel.__version__}"
    place = getattr(version, "place", None) or Place(file)
    return Fault("D020", sentence, replace(place, private=False, text=""), _ANEW[what])  # a version is no secret


_ANEW = {
    "baseline": "write it anew: costmodel check SCENARIO --against FILE --update",
    "result": "write it anew with --json, or read it with the version that wrote it",
}
_RELEASE = late_pattern(r"(\d+)\.(\d+)\.(\d+)(?:\.dev(\d+))?", re.ASCII)


def _order(version: object) -> tuple[float, ...]:
    """A version in sortable form; empty if the text is not a version.

    >>> _order("0.1.0") < _order("0.2.0.dev1") < _order("0.2.0.dev10") < _order("0.2.0")
    True
    """
    match = _RELEASE.fullmatch(str(version))
    return tuple(float(part) if part else math.inf for part in match.groups()) if match else ()


def _normal_form(value: Any) -> Any:
    """A value in normal form for the digest: 8 and 8.0 are equal."""
    if isinstance(value, Mapping):
        return {str(key): _normal_form(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_normal_form(inner) for inner in value]
    if isinstance(value, float):
        return int(value) if value.is_integer() else float(value)
    return value
