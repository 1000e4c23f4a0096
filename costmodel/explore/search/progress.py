"""A row of answers that come in one after the other: who watches, and who may end it before the last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from costmodel.explore.search.engine import SearchStopped
from costmodel.ground.record import record

Item = TypeVar("Item")


@record
class Watcher:
    """Progress callback and cancellation check."""

    watch: Callable[[int, int], None] = lambda done, total: None
    stop: Callable[[], bool] = lambda: False

    def go(self, done: int, total: int) -> None:
        """Report one more answer; raise Stopped if the user asked to stop."""
        if self.stop():
            raise SearchStopped
        self.watch(done, total)

    def taken(self, items: Iterable[Item], total: int) -> Iterator[Item]:
        """The items, until the user asks to stop."""
        for done, item in enumerate(items):
            if self.stop():
                return
            self.watch(done, total)
            yield item


UNWATCHED = Watcher()
