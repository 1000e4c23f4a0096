"""Shares of large products: always the same cases, and each value of each parameter as often as others."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import each
import pytest
from conftest import some_of


@dataclass(eq=False)
class Case:
    """What is known of a parametrised test."""

    params: dict[str, str]
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = "-".join(self.params.values())

    @property
    def callspec(self) -> Case:
        return self


def test_each_value_is_as_frequent_as_others() -> None:
    cases: list[Any] = [Case({"key": key, "form": form}) for key, form in itertools.product("abcd", "xy")]
    kept = some_of(cases, 4)
    assert Counter(case.params["key"] for case in kept) == Counter("abcd")
    assert Counter(case.params["form"] for case in kept) == Counter("xxyy")
    assert some_of(cases[::-1], 4) == kept


def test_a_loop_takes_the_same_cases_in_their_order_and_all_where_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(each, "EVERY_CASE", [False])
    kept = each.share_of("abcdefgh", 4)
    assert (len(kept), kept) == (2, sorted(kept))
    monkeypatch.setattr(each, "EVERY_CASE", [True])
    assert each.share_of("abcdefgh", 4) == [*"abcdefgh"]
