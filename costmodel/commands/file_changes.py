"""Watches files until one of them changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

EVERY = 0.5  # seconds between two looks

Mark = tuple[int, int]


def marks(paths: Sequence[Path]) -> dict[Path, Mark | None]:
    """When each file was written and how long it is; nothing of one that is not there."""
    return {path: _mark(path) for path in paths}


def wait_for_change(
    paths: Sequence[Path], before: dict[Path, Mark | None], sleep: Callable[[float], None] = time.sleep
) -> None:
    """Return once a file is not as it was; a file that is gone for a moment, as editors do, is waited for."""
    while True:
        now = marks(paths)
        if now != before and all(now.values()):
            return
        sleep(EVERY)


def _mark(path: Path) -> Mark | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
