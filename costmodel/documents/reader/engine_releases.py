"""Which stack of an engine describes one of its releases."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from costmodel.documents.reader.folders import is_file, names, places
from costmodel.documents.text.files import file_text
from costmodel.ground.parsing import late_pattern

_DIGITS = 9  # of a part of a release
_OF_RELEASE = late_pattern(r"(?P<engine>[a-z][a-z-]*?)(?:==|[-@ ])v?(?P<release>\d+(?:\.\d+)*[\w.]*)")
_VERSION, _TITLE = late_pattern(r"^  version: *(.+)$", re.M), late_pattern(r"^title: *(.+)$", re.M)


class StackOfRelease(NamedTuple):
    """The stack for a release: its name, its title with the releases it describes, and whether this one is included."""

    stack: str
    title: str
    described: bool


def stack_of_release(engine: str, release: str) -> StackOfRelease | None:
    """The newest stack of an engine that starts at or before a release, else its oldest; None for other engines.

    A text without a release counts as the newest release.

    >>> stack_of_release("vllm", "v0.11.2")
    StackOfRelease(stack='vllm-0.16', title='vLLM 0.6 to 0.16', described=True)
    >>> stack_of_release("vllm", "9.0").described
    False
    """
    asked, stacks = _numbers(release), _stacks(engine)
    if not stacks:
        return None
    earlier = [stack for stack in stacks if stack[0] <= asked] if asked else stacks
    first, last, name, title = (earlier or stacks[:1])[-1]
    return StackOfRelease(name, title, first <= asked and asked[: len(last)] <= last)


def stack_meant(name: str) -> str:
    """The stack for an engine release in a name such as vllm-0.24; empty for any other name.

    >>> stack_meant("vllm-0.24"), stack_meant("vLLM==0.19.1"), stack_meant("megatron-2021")
    ('vllm-0.24', 'vllm-0.20', '')
    """
    stated = _OF_RELEASE.fullmatch(name.lower())
    stack = stack_of_release(stated["engine"], stated["release"]) if stated else None
    return stack.stack if stack is not None else ""


@functools.cache
def _stacks(engine: str) -> list[tuple[tuple[int, ...], tuple[int, ...], str, str]]:
    """First and last release, name and title of each stack of an engine, oldest first."""
    releases = []
    for name in names("stack"):
        if name == engine or re.fullmatch(rf"{re.escape(engine)}-[\d.]+", name):
            text = next((file_text(str(path)) for path in places("stack", name) if is_file(path)), "")
            version, title = _VERSION.search(text), _TITLE.search(text)
            ends = re.findall(r"[\d.]+", version[1]) if version and "kind: serving" in text else ()
            if ends and title:
                releases.append((_numbers(ends[0]), _numbers(ends[-1]), name, title[1]))
    return sorted(releases)


def _numbers(release: str) -> tuple[int, ...]:
    """The leading numbers of a release.

    >>> _numbers("v0.4.6.post1"), _numbers("latest")
    ((0, 4, 6), ())
    """
    match = re.match(r"v?(\d+(?:\.\d+)*)", release)
    return tuple(int(part[:_DIGITS]) for part in match[1].split(".")) if match else ()
