"""The server of the Model Context Protocol: questions as tools for agents, with short answers; and the OpenAPI text."""

from __future__ import annotations

import functools
import inspect
import json
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool, ToolAnnotations
from pydantic import TypeAdapter

import costmodel
from costmodel.commands.command_table import QUESTIONS
from costmodel.server.request import MEDIA, TEXTS, Answered, Job, Option, options_of, questions
from costmodel.server.workers import LimitExceeded, TooManyRequests, Workers

# The description of the questions for programs: OpenAPI 3.1, from the options of the commands.

_SCENARIO = {
    "anyOf": [{"type": "string"}, {"type": "object"}],
    "description": "A scenario by its name, or the keys of a scenario file, whose schema POST /v2/schema gives for "
    '{"kind": "scenario"}',
}
_SETTINGS = {
    "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "object"}],
    "description": "Any keys of the scenario: a list such as ['plan.tp=4'], or {'plan.tp': 4}",
}
_TEXTS = {
    "type": "object",
    "additionalProperties": {"type": "string"},
    "description": "Texts by name, such as a config.json: a path is then one of these names",
}
_ERRORS = {
    "type": "object",
    "required": ["schema", "errors"],
    "properties": {
        "schema": {"const": "costmodel/errors/v1"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["code", "place", "message", "remedy"],
                "properties": {
                    "code": {"type": "string", "description": "costmodel explain CODE prints what it means"},
                    "place": {"type": ["string", "null"], "description": "file:line:column and the key"},
                    "message": {"type": "string"},
                    "remedy": {"type": ["string", "null"]},
                },
            },
        },
    },
}
_STATUS = {
    "400": "The question cannot be answered as it is stated",
    "413": "The body is too large",
    "415": "The body is not JSON",
    "503": "Too many requests wait; Retry-After has the seconds until the next try",
    "504": "The answer took too long",
}


def openapi_answer() -> Answered:
    """The OpenAPI description as the answer to a request."""
    return Answered(200, "application/json", json.dumps(openapi_description(), ensure_ascii=False).encode())


@functools.cache
def openapi_description() -> dict[str, Any]:
    """The OpenAPI description: a path for each question, with a property for each of its keys."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "costmodel", "version": costmodel.__version__},
        "paths": {f"/v2/{name}": {"post": _openapi_operation(name)} for name in questions()},
        "components": {"schemas": {"Errors": _ERRORS}},
    }


def _openapi_operation(name: str) -> dict[str, Any]:
    """The OpenAPI description of a question."""
    words = inspect.getdoc(QUESTIONS[name].load()) or ""
    keys = {key: schema_of(option) for key, option in options_of(name).items()}
    required = [key for key, option in options_of(name).items() if option.required]
    body = {"type": "object", "additionalProperties": False, "properties": {**keys, TEXTS: _TEXTS}}
    answer = {"type": "object", "properties": {"schema": {"type": "string"}, "costmodel": {"type": "string"}}}
    forms: dict[str, Any] = {media: {"schema": {"type": "string"}} for media in MEDIA}
    errors = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Errors"}}}}
    works = {"schema": {"enum": ["yes", "no"]}, "description": "no: exit code 1 of the command"}
    return {
        "operationId": name,
        "summary": words.partition("\n")[0],
        "requestBody": {
            "content": {"application/json": {"schema": body | ({"required": required} if required else {})}}
        },
        "responses": {
            "200": {
                "description": "The answer, as the command gives it with --json",
                "headers": {"Costmodel-Works": works},
                "content": {**forms, "application/json": {"schema": answer}},
            },
            **{status: {"description": meaning, **errors} for status, meaning in _STATUS.items()},
        },
    }


def schema_of(option: Option) -> dict[str, Any]:
    """The JSON Schema of a question's key, with its help."""
    if option.name in ("scenario", "before", "after"):
        return dict(_SCENARIO)
    if option.name == "settings":
        return dict(_SETTINGS)
    schema = TypeAdapter(option.kind).json_schema()
    schema.pop("title", None)
    for each in (schema, *schema.get("anyOf", ())):
        if each.get("type") == "string" and "enum" not in each:
            each["type"] = ["string", "number"]
    default = {} if option.required or option.default is None else {"default": option.default}
    example = {"examples": [option.metavar]} if option.metavar else {}
    return {**schema, **example, **default, "description": option.help}


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
    """The tools for agents, each with the keys of its question."""
    return [_mcp_tool(name) for name in TOOLS]


def _mcp_tool(name: str) -> Tool:
    """The tool of the Model Context Protocol for a question."""
    keys = {key: schema_of(option) for key, option in options_of(name).items()}
    whole = {"type": "boolean", "default": False, "description": "The whole answer as JSON, which is long"}
    texts = {"type": "object", "additionalProperties": {"type": "string"}, "description": "Files by name, as text"}
    words = (inspect.getdoc(QUESTIONS[name].load()) or "").partition("\n")[0]
    schema = {"type": "object", "additionalProperties": False, "properties": {**keys, TEXTS: texts, FULL: whole}}
    return Tool(name=name, description=words, input_schema=schema, annotations=ToolAnnotations(read_only_hint=True))


def server(workers: Workers) -> Server[Any]:
    """The MCP server; worker processes compute its answers."""

    async def list_tools(_context: Any, _params: Any) -> ListToolsResult:
        return ListToolsResult(tools=tools())

    async def call_tool(_context: Any, params: CallToolRequestParams) -> CallToolResult:
        """The answer to a question of a tool, or a sentence on why there is none."""
        keys = dict(params.arguments or {})
        whole = bool(keys.pop(FULL, False))
        if params.name not in TOOLS:
            return _tool_result(f"there is no tool '{params.name[:60]}'; take {', '.join(TOOLS)}", wrong=True)
        try:
            response = await workers.ask(
                Job("costmodel.server.request", "short_answer", (params.name, keys, whole, _MOST_LINES))
            )
        except (TooManyRequests, LimitExceeded):
            return _tool_result("the answer took too long or too many wait; ask for less", wrong=True)
        return _tool_result(response.body.decode(), wrong=response.status != 200)

    return Server("costmodel", version=costmodel.__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools,
                  on_call_tool=call_tool)  # fmt: skip


def _tool_result(text: str, *, wrong: bool) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=wrong)


async def serve(workers: Workers) -> None:
    """Serves on standard input and output until they end."""
    workers.begin()
    mcp = server(workers)
    async with stdio_server() as (reading, writing):
        await mcp.run(reading, writing, mcp.create_initialization_options())
