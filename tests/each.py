"""One test for many cheap cases, since parametrising costs more than such a case, and a share of cases in a loop."""

from __future__ import annotations

import functools
import inspect
import zlib
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")
EVERY_CASE: list[bool] = []  # whether --whole was given, once pytest has its options


def share_of(cases: Iterable[Case], share: int) -> list[Case]:
    """One in so many of the cases that a test loops over, always the same ones, or all with --whole.

    >>> len(share_of(range(100), 4))
    25
    """
    rows = list(cases)
    if any(EVERY_CASE):
        return rows
    places = sorted(range(len(rows)), key=lambda place: zlib.crc32(str(place).encode()))
    return [rows[place] for place in sorted(places[: -(-len(rows) // share)])]


def each(names: str, cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize`, in a single test, which tries every case and reports all that fail.

    >>> @each("name", ["a", "b"])
    ... def test_it_is_short(name: str) -> None:
    ...     assert len(name) == 1
    """
    wanted = [name.strip() for name in names.split(",")]
    rows = [case if len(wanted) > 1 else (case,) for case in cases]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def every(**fixtures: Any) -> None:
            assert rows, "there is no case"
            failed: list[BaseException] = []
            skipped = 0
            for row in rows:
                try:
                    test(**fixtures, **dict(zip(wanted, row, strict=True)))
                except pytest.skip.Exception:
                    skipped += 1
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"with {names} = {', '.join(map(str, row))}")
                    failed.append(error)
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(rows)} cases", failed)
            if skipped == len(rows):
                pytest.skip("every case is skipped")

        signature = inspect.signature(test)
        left = [part for name, part in signature.parameters.items() if name not in wanted]
        every.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return every

    return decorate
