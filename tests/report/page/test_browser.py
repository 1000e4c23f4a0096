"""Pages in a real browser, as somebody opens them: nothing is fetched, all can be reached by keyboard and read aloud.

It needs Playwright and a Chromium: pip install -e '.[test,browser]'. Without them nothing here is run.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")

PAGES = {
    "report": ("report", "quickstart"),
    "moe": ("estimate", "deepseek-v3-2048"),
    "large": ("search", "quickstart", "--pareto", "memory_peak,step_time", "--top", "1000"),
    "run": ("run", "llama-3-70b-512"),
    "serving": ("report", "serve-llama-3.1-70b"),
    "rl": ("search", "grpo-qwen-2.5-7b-64", "--set", "search={tp: [1], cp: [2], rollout_tp: [1, 2]}"),
    "kinds": ("report", "quickstart", "serve-llama-3.1-70b", "grpo-qwen-2.5-7b-64"),
    "refused": ("estimate", "quickstart", "--set", "plan.tp=3"),
}
WIDE, NARROW = {"width": 1100, "height": 900}, {"width": 320, "height": 700}
USABLE = 20.0  # seconds; the time itself is printed, for a busy machine says little


class Files:
    """The pages as files, each of which is made when a test first asks for it."""

    def __init__(self, run: Any, folder: Path) -> None:
        self._run, self._folder = run, folder

    def __getitem__(self, name: str) -> Path:
        path = self._folder / f"{name}.html"
        if not path.exists():
            self._run(*PAGES[name], "-o", str(path))
        return path


@pytest.fixture(scope="module")
def files(run: Any, tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(run, tmp_path_factory.mktemp("pages"))


class Opened:
    """A page in a window, with what it said and asked for."""

    def __init__(self, browser: Any, path: Path) -> None:
        self.context = browser.new_context(viewport=WIDE)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self._asked(request.url, path))
        self.page.goto(path.as_uri())

    def _asked(self, url: str, path: Path) -> None:
        if url != path.as_uri():
            self.said.append(f"asked for {url}")

    def __enter__(self) -> Any:
        return self.page

    def __exit__(self, *raised: object) -> None:
        assert self.said == [] or raised[0] is not None


class Shared:
    """Pages that stay open for all tests of this module; a test leaves each in a wide window without a drawer."""

    def __init__(self, browser: Any, files: Files) -> None:
        self._browser, self._files = browser, files
        self._open: dict[str, Opened] = {}

    def __call__(self, name: str) -> Opened:
        if name not in self._open:
            self._open[name] = Opened(self._browser, self._files[name])
        return self._open[name]


@pytest.fixture(scope="module")
def shared(browser: Any, files: Files) -> Shared:
    return Shared(browser, files)


def folded(text: str) -> str:
    return re.sub(r"\s+", "", text)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_on_any_screen(name: str, shared: Shared) -> None:
    with shared(name) as page:
        for window, scheme in ((NARROW, "light"), (WIDE, "dark"), (WIDE, "light")):
            page.set_viewport_size(window)
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= window["width"]
            ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert ground == ("rgb(22, 25, 29)" if scheme == "dark" else "rgb(255, 255, 255)")
            shown = page.locator(".figure:visible")
            assert shown.count() * 2 == page.locator(".figure").count()


@pytest.mark.parametrize("name", PAGES)
def test_all_text_is_in_the_accessibility_tree(name: str, shared: Shared) -> None:
    with shared(name) as page:
        page.wait_for_function("!document.querySelector('#chosen') || document.querySelector('#chosen p')")
        if name == "large":  # a tree of a thousand rows takes long, and they are all alike
            page.locator("#plans-0-filter").fill("tp=8 zero=1")
        client = page.context.new_cdp_session(page)
        nodes = client.send("Accessibility.getFullAXTree")["nodes"]
        read = folded("".join(str(node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]))
        for text in page.evaluate(
            "[...document.querySelectorAll('h1,h2,p,dt,dd,th,caption,svg text')]"
            ".filter(item => item.checkVisibility()).map(item => item.textContent)"
        ):
            assert folded(text) in read, text
        unnamed = page.evaluate(
            "[...document.querySelectorAll('button,input,svg,section,[role=region]')].filter(item =>"
            " !item.textContent.trim() && !item.labels?.length && !item.getAttribute('aria-label')"
            " && !item.getAttribute('aria-labelledby')).map(item => item.outerHTML.slice(0, 80))"
        )
        assert unnamed == []


@pytest.mark.parametrize("name", ["report", "serving", "large", "kinds"])
def test_a_page_prints_on_two_sheets(name: str, shared: Shared) -> None:
    with shared(name) as page:
        page.emulate_media(color_scheme="dark")
        data = page.pdf(prefer_css_page_size=True, print_background=False)
        page.emulate_media(color_scheme="light")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b(?!s)", data)) <= 2


def test_a_drawer_opens_and_closes_by_keyboard(shared: Shared) -> None:
    with shared("report") as page:
        number = page.locator(".numbers button.how").first
        number.focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog[open] summary")
        assert page.locator("#drawer-h").inner_text().startswith("step_time")
        page.locator("dialog summary").first.focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog details[open] .made")
        page.keyboard.press("Escape")
        page.wait_for_selector("dialog:not([open])", state="attached")
        assert page.evaluate("document.activeElement.className") == "how"


def test_plans_sort_filter_and_open_by_keyboard(browser: Any, files: Files) -> None:
    path, began = files["large"], time.perf_counter()
    with Opened(browser, path) as page:
        rows = page.locator("#plans-0 tbody tr")
        count = rows.count()
        loaded = time.perf_counter() - began
        print(f"{count} plans usable after {loaded:.2f} s")
        assert count > 900
        assert loaded < USABLE
        page.locator("#plans-0 th", has_text="GiB").locator("button").focus()
        page.keyboard.press("Enter")
        cells = page.locator("#plans-0 tbody tr td:nth-last-child(2)").all_inner_texts()
        assert [float(cell) for cell in cells] == sorted(float(cell) for cell in cells)
        assert page.locator("th[aria-sort=ascending]").inner_text().startswith("GiB")
        page.keyboard.press("Enter")
        assert page.locator("th[aria-sort=descending]").count() == 1
        page.locator("#plans-0-filter").focus()
        page.keyboard.type("tp=8 zero=1")
        shown = page.locator("#plans-0 tbody tr:visible")
        assert 0 < shown.count() < count
        assert set(page.locator("#plans-0 tbody tr:visible td:nth-child(2)").all_inner_texts()) == {"8"}
        assert page.locator("#plans-0-count").inner_text() == f"{shown.count()} rows"
        shown.first.locator("button.row").focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog[open] pre")
        assert page.locator("dialog pre").inner_text().startswith("costmodel estimate quickstart")
        assert page.locator("dialog p").first.inner_text().startswith("Against plan 1: +")
        page.locator("dialog dd button", has_text="%").first.focus()
        page.keyboard.press("Enter")
        page.wait_for_function("document.querySelector('dialog pre').textContent.includes(' explain ')")
        assert page.evaluate("document.activeElement.id") == "drawer-h"
        page.keyboard.press("Escape")
        page.locator("#plans-0-filter").fill("")
        for place, opened in (("1", "dialog[open] summary"), ("900", "dialog[open] pre")):
            row = page.locator("#plans-0 tbody tr", has=page.locator("button.row", has_text=re.compile(f"^{place}$")))
            row.locator("button[data-figure=mfu]").focus()
            page.keyboard.press("Enter")
            page.wait_for_selector(opened)
            assert page.locator("#drawer-h").inner_text().startswith("mfu")
            page.keyboard.press("Escape")


@pytest.mark.parametrize("name", ["serving", "rl"])
def test_a_ranked_plan_says_why_it_is_not_the_best(name: str, shared: Shared) -> None:
    with shared(name) as page:
        page.locator("#plans button.row").nth(1).focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog[open] pre")
        notes = page.locator("dialog p").all_inner_texts()
        assert any("of the best" in note or note.startswith("Against plan 1:") for note in notes)
        assert page.locator("dialog pre").inner_text().startswith("costmodel estimate")
        page.keyboard.press("Escape")


def test_sliders_choose_among_computed_plans(shared: Shared, run: Any) -> None:
    with shared("report") as page:
        page.wait_for_selector("#chosen .facts")
        slider = page.locator("#sliders input").first
        slider.focus()
        page.keyboard.press("Home")
        assert slider.get_attribute("aria-valuetext") == "tp 1"
        facts = dict(zip(page.locator("#chosen dt").all_inner_texts(), page.locator("#chosen dd").all_inner_texts(),
                         strict=True))  # fmt: skip
    settings = [f"plan.{name}={facts[name]}" for name in ("tp", "pp", "vpp", "micro_batch", "zero", "recompute")]
    settings += [f"plan.schedule={facts['schedule']}", f"plan.sequence_parallel={facts['sequence_parallel']}"]
    words = [word for setting in settings for word in ("--set", setting)]
    (plan,) = json.loads(run("estimate", "quickstart", *words, "--json").out)["plans"]
    assert facts["step_time"] == f"{plan['step_time_s']:.4g} s"
    assert facts["memory_peak"] == f"{plan['memory_peak_bytes'] / 2**30:.4g} GiB"


def test_nothing_moves_where_that_is_not_wanted(shared: Shared) -> None:
    with shared("run") as page:
        for wanted, behaviour in (("reduce", "auto"), ("no-preference", "smooth")):
            page.emulate_media(reduced_motion=wanted)
            assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == behaviour


def test_the_timeline_zooms_by_keyboard(shared: Shared) -> None:
    with shared("run") as page:
        figure = page.locator("#pipeline .figure.wide").first
        before = figure.bounding_box()["width"]
        page.locator("#pipeline-zoom").focus()
        page.keyboard.press("End")
        assert figure.bounding_box()["width"] > 4 * before
        page.keyboard.press("Home")


def test_node_can_read_the_script(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node.js")
    script = Path(__file__).resolve().parents[3] / "costmodel/report/page/templates/page.js"
    ran = subprocess.run([node, "--check", str(script)], capture_output=True, text=True, timeout=1800, check=False)
    assert ran.returncode == 0, ran.stderr
