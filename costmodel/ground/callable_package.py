"""Packages that have the name of a question, and so answer it when they are called."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any


class CallablePackage(ModuleType):
    """A package that answers as the library's function of its name does."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """The answer."""
        return import_module("costmodel.library").function(self.__name__.rpartition(".")[2])(*arguments, **options)
