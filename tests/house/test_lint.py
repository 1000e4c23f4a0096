"""ruff and mypy have nothing to say."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .catalogue import ROOT


@pytest.mark.parametrize(
    "arguments",
    [("ruff", "check", "--quiet", "--output-format=concise", "."), ("mypy", "--strict", "costmodel", "cli.py")],
    ids=lambda arguments: arguments[0],
)
def test_nothing_to_say(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", *arguments]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
