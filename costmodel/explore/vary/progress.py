"""A row of answers that come in one after the other: who watches, and who may end it before the last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from costmodel.explore.search.engine import SearchStopped

Item = TypeVar("Item")


@dataclass(frozen=True)
class Watcher:
    """Told of every answer how many are there, and asked before each whether to go on."""

    watch: Callable[[int, int], None] = lambda done, total: None
    stop: Callable[[], bool] = lambda: False

    def go(self, done: int, total: int) -> None:
        """On to the next; Stopped if somebody asks to end."""
        if self.stop():
            raise SearchStopped
        self.watch(done, total)

    def taken(self, items: Iterable[Item], total: int) -> Iterator[Item]:
        """The items, until somebody asks to end."""
        for done, item in enumerate(items):
            if self.stop():
                return
            self.watch(done, total)
            yield item


UNWATCHED = Watcher()
