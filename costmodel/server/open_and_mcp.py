"""The commands open and mcp, which run a server."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from costmodel.commands.answer_options import help_paragraph, optional_argument
from costmodel.commands.output import print_lines
from costmodel.ground.errors import Place, fail, install_command

FolderArgument = Annotated[
    Path | None,
    optional_argument(
        metavar="[FOLDER]", help="Folder with documents of your own: hardware/, scenarios/; default: only shipped ones"
    ),
]
HostOption = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on")]
PortOption = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0: any that is free")]
NameOption = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        metavar="HOST",
        help="Name by which others reach this machine; may be repeated; needed beside another --host than this machine",
        show_default=False,
    ),
]


def open_page(
    folder: FolderArgument = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8421,
    name: NameOption = None,
) -> None:
    """Serve a page with pickers, and answers over HTTP, until Ctrl-C: POST /v2/QUESTION; /openapi.json describes them.

    Examples:
      costmodel open
      costmodel open jobs/ --port 9000
      costmodel open --host 0.0.0.0 --name planner.example.org

    Only programs of this machine can reach it, unless --host gives another address. No file that a request names is
    opened; documents of your own come from the folder. Answers within limits of time, memory and plans.

    Next: costmodel search --model llama-3.1-8b --gpu h100 --gpus 64
    """
    own = _existing_folder(folder)
    _check_packages("starlette>=1", "uvicorn>=0.30")
    if not (is_loopback(host) or name):
        sentence = f"others reach {host} by a name, and none is given"
        raise fail("C024", sentence, Place("command line"), "add --name planner.example.org, as browsers call it")
    opened = listening_socket(host, port)
    from costmodel.server.workers import Limits, Workers, warm_context

    warm_context()  # while the rest is imported
    import uvicorn

    from costmodel.server.http import application

    shown = f"[{host}]" if ":" in host else host
    print_lines(f"http://{shown}:{opened.getsockname()[1]}  (Ctrl-C ends it)\n")
    app = application(Workers(own, Limits()), name or ())
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, timeout_keep_alive=5)
    uvicorn.Server(config).run([opened])


def mcp(folder: FolderArgument = None) -> None:
    """Answer an agent on standard input and output: tools of the Model Context Protocol, until the agent leaves.

    Examples:
      costmodel mcp
      costmodel mcp jobs/

    The tools are estimate, search, memory, buy, explain and validate, with the options of these commands. Answers are
    short; each ends with its command line. No file that a request names is opened; documents of your own come from the
    folder.

    Next: costmodel search --model llama-3.1-8b --gpu h100 --gpus 64
    """
    own = _existing_folder(folder)
    _check_packages("mcp>=2")
    import asyncio

    from costmodel.server.workers import Limits, Workers, warm_context

    warm_context()
    from costmodel.server.mcp_server import serve

    workers = Workers(own, Limits(seconds=60))
    try:
        asyncio.run(serve(workers))
    finally:
        workers.end()


for _command in (open_page, mcp):
    _command.__doc__ = help_paragraph(_command)


def is_loopback(host: str) -> bool:
    """Whether an address is reachable only from this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _existing_folder(folder: Path | None) -> Path | None:
    """The absolute path of a folder; raises a fault if it does not exist."""
    if folder is not None and not folder.is_dir():
        raise fail(
            "C024", f"there is no folder {folder}", Place(str(folder)), "name one that holds scenarios/ or hardware/"
        )
    return None if folder is None else folder.resolve()


def listening_socket(host: str, port: int) -> socket.socket:
    """A listening socket; raises a fault if the address is not available."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        hint = "name another: --port 0 takes any that is free"
        raise fail(
            "C024", f"{host}:{port} cannot be used: {error.strerror or error}", Place("command line"), hint
        ) from None


def _check_packages(*packages: str) -> None:
    """Raises a fault for packages that are not installed."""
    missing = [package for package in packages if find_spec(package.partition(">")[0]) is None]
    if missing:
        what = " and ".join(each.partition(">")[0] for each in missing)
        raise fail("C024", f"this needs {what}, not installed here", None, install_command("' '".join(missing)))
