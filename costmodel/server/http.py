"""Questions over HTTP: POST /v2/QUESTION with JSON keys gives the answer of `--json`.

This process only passes requests to worker processes and returns their replies.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from costmodel.ground.errors import CostModelError, Place, fail
from costmodel.server.request import MEDIA, Answered, Job, faults_answer
from costmodel.server.workers import LimitExceeded, TooManyRequests, Workers

RETRY = "1"  # seconds
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
_BODY_WITHIN = 10.0  # seconds in which a request has sent its body
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# The text of an answer as a page of its own has no script and asks for nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox"

App = Callable[[Any, Any, Any], Awaitable[None]]


def application(workers: Workers, names: Collection[str] = ()) -> App:
    """The web application; it accepts requests only to LOCAL_NAMES and `names`."""

    async def asked(request: Request) -> Response:
        media, name = _media_type(request.headers.get("accept", "")), request.path_params["question"]
        _check_json_type(request.headers)
        body = await _body(request, workers.limits.body)
        return await _worked_out(Job("costmodel.server.request", "answer_request", (name, body, media)))

    async def described(request: Request) -> Response:
        return await _worked_out(Job("costmodel.server.mcp_server", "openapi_answer"))

    async def _worked_out(job: Job) -> Response:
        return response(await run_job(workers, job))

    async def shown(request: Request) -> Response:
        _check_json_type(request.headers)
        body = await _body(request, workers.limits.body)
        whole, name = "whole" in request.query_params, request.path_params["question"]
        return await _worked_out(Job("costmodel.server.picker_page", "answer_for_page", (name, body, whole)))

    async def offered(request: Request) -> Response:
        return await _worked_out(Job("costmodel.server.picker_page", "picker_choices"))

    async def front(request: Request) -> Response:
        text, policy = picker_page()
        return Response(text, 200, {**_HEADERS, "Content-Security-Policy": policy}, "text/html")

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        workers.begin()
        yield
        workers.end()

    routes = [
        Route("/", front, methods=["GET"]),
        Route("/page", offered, methods=["GET"]),
        Route("/page/{question}", shown, methods=["POST"]),
        Route("/v2/{question}", asked, methods=["POST"]),
        Route("/openapi.json", described, methods=["GET"]),
    ]
    handlers: Any = {
        CostModelError: _fault_response,
        HTTPException: _http_error_response,
        ClientDisconnect: _gone_response,
    }
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    return restrict_hosts(app, {*LOCAL_NAMES, *(name.lower() for name in names)})


@functools.cache
def picker_page() -> tuple[str, str]:
    """The page with pickers, and its security policy, which allows only costmodel's scripts by their hashes."""
    rooms = (resources.files(room) / "templates" for room in ("costmodel.server", "costmodel.report.page"))
    own, of_answers = rooms
    script, answers = (own / "app.js").read_text("utf-8"), (of_answers / "page.js").read_text("utf-8")
    seals = " ".join(f"'sha256-{_script_hash(text)}'" for text in (script, answers))
    text = (own / "app.html").read_text("utf-8").replace("/* script */", script)
    policy = f"default-src 'none'; script-src {seals}; style-src 'unsafe-inline'; connect-src 'self'; "
    return text, f"{policy}frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def _script_hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


async def run_job(workers: Workers, job: Job) -> Answered:
    """The reply of a worker process to a job, or a fault if there is none."""
    try:
        found: Answered = await workers.ask(job)
    except TooManyRequests:
        return faults_answer(fail("H004", "too many requests wait", None, f"ask again after {RETRY} s"), 503)
    except LimitExceeded:
        most = workers.limits.seconds
        sentence = f"the answer took longer than {most:g} s, or more memory than it may have, and was ended"
        return faults_answer(fail("H003", sentence, None, "ask for less, or use the command line"), 504)
    return found


def response(answered: Answered) -> Response:
    """The HTTP response of a reply, with its headers."""
    more = {"Costmodel-Works": "yes" if answered.works else "no"} if answered.status == 200 else {}
    more |= {"Retry-After": RETRY} if answered.status == 503 else {}
    return Response(
        answered.body, answered.status, {**_HEADERS, "Content-Security-Policy": _POLICY, **more}, answered.media
    )


def restrict_hosts(app: App, names: Collection[str]) -> App:
    """Wraps an application so that it refuses other host names and pages of other sites."""

    async def checked(scope: Any, receive: Any, send: Any) -> None:
        """Answers 421 to a request for another host or from another site; else passes it on."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            host, origin = headers.get("host", ""), headers.get("origin")
            wrong = _host_name(host) not in names
            if wrong or (origin is not None and origin.partition("://")[2] != host):
                sentence = f"this is not the host '{host[:60]}'" if wrong else "another site asks"
                hint = "costmodel open --name NAME allows another name" if wrong else "ask from the page of this host"
                await response(faults_answer(fail("H001", sentence, Place("Host" if wrong else "Origin"), hint), 421))(
                    scope, receive, send
                )
                return
        await app(scope, receive, send)

    return checked


def _host_name(host: str) -> str:
    """The name in a header: without the port, and without the brackets of IPv6.

    >>> _host_name("localhost:8000"), _host_name("[::1]:8000"), _host_name("[::1]")
    ('localhost', '::1', '::1')
    """
    name = host.partition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    return name.lower()


def _media_type(accepted: str) -> str:
    """The first accepted media type that an answer can have; JSON if any is accepted."""
    wanted = [part.partition(";")[0].strip().lower() for part in accepted.split(",") if part.strip()]
    if not wanted or {"*/*", "application/*"}.intersection(wanted[:1]):
        return "application/json"
    for each in wanted:
        if each in MEDIA:
            return each
    if "*/*" in wanted:
        return "application/json"
    raise fail("H001", f"no answer is {wanted[0][:60]}", Place("Accept"), f"take {', '.join(MEDIA)}")


def _check_json_type(headers: Mapping[str, str]) -> None:
    """Raises a fault for a body that is not JSON, which a form of another site could send unasked."""
    stated = headers.get("content-type", "").partition(";")[0].strip().lower()
    if stated != "application/json":
        raise HTTPException(415, f"the body is '{stated[:60]}'")


async def _body(request: Request, most: int) -> bytes:
    """The body of a request; raises a fault beyond its limits of size and time."""
    if int(request.headers.get("content-length") or 0) > most:
        raise HTTPException(413, f"the body has more than {most:,} bytes")
    data = bytearray()
    try:
        async with asyncio.timeout(_BODY_WITHIN):
            async for part in request.stream():
                data += part
                if len(data) > most:
                    raise HTTPException(413, f"the body has more than {most:,} bytes")
    except TimeoutError:
        raise HTTPException(408, f"the body did not arrive within {_BODY_WITHIN:g} s") from None
    return bytes(data)


_HINTS = {
    404: "POST /v2/QUESTION; /openapi.json lists them",
    405: "POST /v2/QUESTION with the keys of the question as JSON",
    408: "send it sooner",
    413: "send less, or use the command line",
    415: "send JSON: Content-Type: application/json",
}


async def _fault_response(request: Request, error: Exception) -> Response:
    assert isinstance(error, CostModelError)
    return response(faults_answer(error, 406 if request.headers.get("accept") else 400))


async def _http_error_response(request: Request, error: Exception) -> Response:
    """An HTTP error in the form of all faults."""
    assert isinstance(error, HTTPException)
    code = "H003" if error.status_code in (408, 413) else "H001"
    found = fail(code, str(error.detail), Place(request.url.path[:200]), _HINTS.get(error.status_code, ""))
    return response(faults_answer(found, error.status_code))


async def _gone_response(request: Request, error: Exception) -> Response:
    return Response(status_code=400)
