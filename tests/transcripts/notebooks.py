"""Runs a notebook in this process: no kernel, no magic but `!costmodel …`, and the outputs that Jupyter would store."""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_SHELL = "!costmodel "
_ELAPSED = re.compile(r"(?<=· )\d+\.\d\d s")
_FORMS = {"text/html": "_repr_html_", "image/svg+xml": "_repr_svg_"}


def executed(notebook: dict[str, Any], folder: Path, run: Callable[..., Any]) -> dict[str, Any]:
    """The notebook with the outputs of its cells; it begins in a folder, and may leave it."""
    variables: dict[str, Any] = {}
    cells, count, here = [], 0, Path.cwd()
    os.chdir(folder)
    try:
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                count += 1
                outputs = list(_outputs("".join(cell["source"]), variables, count, run))
                cell = {**cell, "execution_count": count, "outputs": outputs}
            cells.append(cell)
    finally:
        os.chdir(here)
    return {**notebook, "cells": cells}


def _outputs(source: str, variables: dict[str, Any], count: int, run: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """What a cell prints, and what its last line gives."""
    if source.startswith(_SHELL):
        ran = run(*shlex.split(source)[1:], brief=True, cwd=Path.cwd())
        yield _stream(ran.out + ran.err)
        return
    body = ast.parse(source)
    last = body.body.pop() if isinstance(body.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(body, "cell", "exec"), variables)
        value = None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), variables)  # type: ignore[attr-defined]
    if printed.getvalue():
        yield _stream(printed.getvalue())
    if value is not None:
        yield {"data": _shown(value), "execution_count": count, "metadata": {}, "output_type": "execute_result"}


def _stream(text: str) -> dict[str, Any]:
    return {"name": "stdout", "output_type": "stream", "text": _lines(text)}


def _shown(value: object) -> dict[str, list[str]]:
    """A value in every form it has, which is None where this one lacks it, as Jupyter takes it."""
    forms = {kind: getattr(value, name)() for kind, name in _FORMS.items() if hasattr(value, name)}
    return {kind: _lines(text) for kind, text in {**forms, "text/plain": repr(value)}.items() if text is not None}


def _lines(text: str) -> list[str]:
    """Text as a notebook stores it, without the time that a search took."""
    return _ELAPSED.sub("0.04 s", text).splitlines(keepends=True)
