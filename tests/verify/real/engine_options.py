"""Options of serving engines, as their own parsers have them; no GPU is needed, but vLLM 0.33 and SGLang 0.5.23 are.

No extra installs the two, which want different versions of their libraries. Of a wheel alone, which pip download
--no-deps gives, the Python files on the path are enough beside torch and transformers.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from typing import Any

NEEDED = ("torch", "vllm", "sglang")


def installed() -> bool:
    """Whether both engines are there."""
    return all(importlib.util.find_spec(name) is not None for name in NEEDED)


def _module(name: str) -> Any:
    return importlib.import_module(name)


def counted() -> dict[str, list[str]]:
    """Every spelling of an option that starts a server."""
    platforms = _module("vllm.platforms")
    platforms._current_platform = _module("vllm.platforms.cpu").CpuPlatform()  # as no accelerator is there to find
    vllm = _module("vllm.utils.argparse_utils").FlexibleArgumentParser()
    sglang = argparse.ArgumentParser()
    _module("vllm.entrypoints.common.cli_args").make_arg_parser(vllm)
    _module("sglang.srt.server_args").ServerArgs.add_cli_args(sglang)
    return {"vllm": _names(vllm), "sglang": _names(sglang)}


def _names(parser: argparse.ArgumentParser) -> list[str]:
    return sorted(name for action in parser._actions for name in action.option_strings)
