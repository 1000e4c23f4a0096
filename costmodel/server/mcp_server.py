"""Tools of the Model Context Protocol, of the questions that agents ask: small answers, with the command for more."""

from __future__ import annotations

import inspect
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool, ToolAnnotations

import costmodel
from costmodel.commands.command_table import QUESTIONS
from costmodel.server.openapi import schema_of
from costmodel.server.reply import Job
from costmodel.server.request import TEXTS, options_of
from costmodel.server.workers import Busy, Overrun, Workers

_ASKED = ("estimate", "search", "memory", "buy", "explain", "validate")
TOOLS = tuple(name for name in _ASKED if name in QUESTIONS)
FULL = "full"  # the option of a tool that asks for the whole answer as JSON
_MOST_LINES = 40  # of an answer, unless the whole is asked for
INSTRUCTIONS = (
    "Predicts time, memory and cost of LLM training, serving and reinforcement learning from closed-form equations. "
    "State a job by flags (model, gpu, gpus, and rate, prompt and answer for serving), or name a scenario; settings "
    "take any other key. Send a config.json under texts and name it as model. Each answer ends with its command line."
)


def tools() -> list[Tool]:
    """The tools, each with the keys of its question."""
    return [_tool(name) for name in TOOLS]


def _tool(name: str) -> Tool:
    keys = {key: schema_of(option) for key, option in options_of(name).items()}
    whole = {"type": "boolean", "default": False, "description": "The whole answer as JSON, which is long"}
    texts = {"type": "object", "additionalProperties": {"type": "string"}, "description": "Files by name, as text"}
    words = (inspect.getdoc(QUESTIONS[name].load()) or "").partition("\n")[0]
    schema = {"type": "object", "additionalProperties": False, "properties": {**keys, TEXTS: texts, FULL: whole}}
    return Tool(name=name, description=words, input_schema=schema, annotations=ToolAnnotations(read_only_hint=True))


def server(workers: Workers) -> Server[Any]:
    """The server, whose answers processes compute."""

    async def list_tools(_context: Any, _params: Any) -> ListToolsResult:
        return ListToolsResult(tools=tools())

    async def call_tool(_context: Any, params: CallToolRequestParams) -> CallToolResult:
        keys = dict(params.arguments or {})
        whole = bool(keys.pop(FULL, False))
        if params.name not in TOOLS:
            return _result(f"there is no tool '{params.name[:60]}'; take {', '.join(TOOLS)}", wrong=True)
        try:
            found = await workers.ask(
                Job("costmodel.server.request", "in_short", (params.name, keys, whole, _MOST_LINES))
            )
        except (Busy, Overrun):
            return _result("the answer took too long or too many wait; ask for less", wrong=True)
        return _result(found.body.decode(), wrong=found.status != 200)

    return Server("costmodel", version=costmodel.__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools,
                  on_call_tool=call_tool)  # fmt: skip


def _result(text: str, *, wrong: bool) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=wrong)


async def serve(workers: Workers) -> None:
    """Answer on standard input and output until these end."""
    workers.begin()
    made = server(workers)
    async with stdio_server() as (reading, writing):
        await made.run(reading, writing, made.create_initialization_options())
