"""Commands that stay: what keeps them from starting."""

from __future__ import annotations

import sys
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("nowhere/",), "name one that holds"),
        (("--host", "0.0.0.0"), "add --name"),
        (("--host", "192.0.2.1", "--name", "x"), "name another"),
    ],
)
def test_an_address_or_a_folder_that_is_not_there_is_a_fault(words: tuple[str, ...], remedy: str, run: Any) -> None:
    pytest.importorskip("uvicorn")
    ran = run("open", *words)
    assert (ran.code, ran.out) == (2, "")
    assert "error[C024]" in ran.err
    assert remedy in ran.err


def test_a_package_that_is_not_installed_is_named(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    ran = run("open")
    assert ran.code == 2
    assert "uvicorn" in ran.err
    assert "help: pip install" in ran.err
