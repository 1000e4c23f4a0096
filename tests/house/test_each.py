"""A test of many cases tries them all, and fails for each that fails; a share of a product has every value."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import some_of
from each import each


def test_all_cases_are_tried_and_all_faults_reported(tmp_path: Path) -> None:
    tried = []

    @each("number, word", [(1, "one"), (2, "two"), (3, "three"), (4, "four")])
    def check(tmp_path: Path, number: int, word: str) -> None:
        tried.append((number, word))
        if number == 1:
            pytest.skip("no case")
        if number == 2:
            pytest.fail("two")
        assert number < 4

    with pytest.raises(BaseExceptionGroup) as raised:
        check(tmp_path=tmp_path)
    assert tried == [(1, "one"), (2, "two"), (3, "three"), (4, "four")]
    assert str(raised.value).startswith("2 of 4 cases")
    assert [error.__notes__ for error in raised.value.exceptions] == [
        ["with number, word = 2, two"],
        ["with number, word = 4, four"],
    ]


@each("letter", "ab")
def test_other_fixtures_are_given(letter: str, tmp_path: Path) -> None:
    assert tmp_path.is_dir()
    assert letter in "ab"


def test_no_case_is_a_fault() -> None:
    check = each("case", [])(lambda case: None)
    with pytest.raises(AssertionError, match="no case"):
        check()


def test_a_share_has_each_value_of_a_product_as_often_as_others() -> None:
    cases: list[Any] = [
        SimpleNamespace(name=f"test[{row}-{column}]", callspec=SimpleNamespace(params={"row": row, "column": column}))
        for row, column in product(range(8), range(4))
    ]
    kept = some_of(cases, 8)
    assert len(kept) == 8
    assert Counter(case.callspec.params["row"] for case in kept) == dict.fromkeys(range(8), 1)
    assert Counter(case.callspec.params["column"] for case in kept) == dict.fromkeys(range(4), 2)
    assert some_of(cases[::-1], 8) == kept
    assert some_of(cases[:1], 4) == cases[:1]
