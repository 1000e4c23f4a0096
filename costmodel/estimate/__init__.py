"""Evaluates batches of plans: combines documents with equations.

The package has the name of a function of the library, `costmodel.estimate("quickstart")`, so it can be called as well.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """A package that answers as the library's function of its name does."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return import_module("costmodel.library").estimate(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
