"""Watches files until one of them changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

EVERY = 0.5  # seconds between two looks
_LOOKS = 2

Mark = tuple[int, int]


def marks(paths: Sequence[Path]) -> dict[Path, Mark | None]:
    """When each file was written and how long it is; nothing of one that is not there."""
    return {path: _mark(path) for path in paths}


def wait_for_change(
    paths: Sequence[Path],
    before: dict[Path, Mark | None],
    sleep: Callable[[float], None] = time.sleep,
    gone: Callable[[Path], None] = lambda path: None,
) -> None:
    """Return once a file is not as it was.

    A missing file may return, since editors write a new one in its place; `gone` is called once for each
    that several looks do not find.
    """
    missed: dict[Path, int] = {}
    while True:
        now = marks(paths)
        if now != before and all(now.values()):
            return
        for path in (path for path, mark in now.items() if mark is None):
            missed[path] = missed.get(path, 0) + 1
            if missed[path] == _LOOKS:
                gone(path)
        sleep(EVERY)


def _mark(path: Path) -> Mark | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
