"""A test of many cases tries them all, and fails for each that fails."""

from __future__ import annotations

from pathlib import Path

import pytest
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
