"""Tools for agents, asked by the client of the protocol's own kit: as a program, over standard input and output."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("mcp") is None:  # importing it takes a second of every worker that only collects
    pytest.skip("mcp is not installed", allow_module_level=True)

CONFIG = Path(__file__).resolve().parents[2] / "scenarios/examples/qwen3-8b/config.json"
FLAGS = {"model": "llama-3.1-8b", "gpu": "h100", "gpus": 16}


async def asked(folder: Path, *calls: tuple[str, dict[str, Any]]) -> list[tuple[bool, str]]:
    """Whether each call is an error, and its text."""
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    from costmodel.server.mcp_server import TOOLS

    server = StdioServerParameters(command=sys.executable, args=["-m", "costmodel", "mcp"], cwd=str(folder))
    async with Client(stdio_client(server), read_timeout_seconds=600) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {*TOOLS}
        found = [await client.call_tool(name, keys) for name, keys in calls]
    return [(bool(each.is_error), "".join(part.text for part in each.content)) for each in found]


def test_an_agent_gets_short_answers_with_their_command_line(tmp_path: Path, run: Any) -> None:
    (tmp_path / "secret.yaml").write_text("SESAME")
    search, memory, page, fault, path, whole = asyncio.run(
        asked(
            tmp_path,
            ("search", {**FLAGS, "top": 2}),
            ("memory", {**FLAGS, "model": "config.json", "texts": {"config.json": CONFIG.read_text("utf-8")}}),
            ("explain", {"scenario": "mfu"}),
            ("estimate", {"scenario": "quickstrat"}),
            ("estimate", {"scenario": "./secret.yaml"}),
            ("estimate", {"scenario": "quickstart", "full": True}),
        )
    )
    for wrong, text in (search, memory, page, whole):
        assert not wrong, text
        assert text.splitlines()[-1].startswith("Command: costmodel ")
    assert len(search[1].splitlines()) <= 43
    command = search[1].splitlines()[-1].removeprefix("Command: ")
    best = run(*shlex.split(command)[1:]).out
    assert [line for line in search[1].splitlines() if line.startswith("  1 ")] == [
        line for line in best.splitlines() if line.startswith("  1 ")
    ]
    assert fault[0]
    assert "did you mean 'quickstart'" in fault[1]
    assert path[0]
    assert "H002" in path[1]
    assert json.loads(whole[1].rpartition("\n\nCommand: ")[0])["schema"] == "costmodel/result/v1"


def test_descriptions_are_short() -> None:
    from costmodel.server.mcp_server import tools

    for tool in tools():
        assert 20 < len(tool.description or "") < 120
        assert len(json.dumps(tool.input_schema)) < 8_000
