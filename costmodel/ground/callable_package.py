"""Packages that have the name of a question, and so answer it when they are called."""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from types import ModuleType
from typing import Any


class CallablePackage(ModuleType):
    """A package that can be called like the library function of the same name."""

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        """What `help` shows: the question, as the function that answers it has it."""
        asked = import_module("costmodel.library").function(self.__name__.rpartition(".")[2])
        first, _, rest = (asked.__doc__ or "").partition("\n")
        return f"{first}\n\n{asked.__name__}{signature(asked)}\n{rest}"

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Answers the question of the package's name, as the library's function does."""
        return import_module("costmodel.library").function(self.__name__.rpartition(".")[2])(*arguments, **options)
