"""A chance that is nearly certain is not shown as one that is."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("asked", "shown"),
    [("99.99%", "99.99 %"), pytest.param("99.96%", "99.96 %", marks=pytest.mark.whole), ("99%", "99.0 %")],
)
@pytest.mark.parametrize("command", ["estimate", "search"])
def test_a_least_chance_is_shown_as_it_was_asked_for(run: Any, command: str, asked: str, shown: str) -> None:
    """With one decimal 99.99 % is 100.0 %, which no plan keeps."""
    answer = run(command, "serve-llama-3.1-70b", "--safe", asked)
    assert answer.code == 1
    assert shown in answer.out
    assert "100.0 %" not in answer.out
    assert " 100% " not in answer.out
