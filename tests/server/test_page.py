"""The page with pickers: in this process what it gets, in a browser what somebody does with it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from costmodel.explore.workload_flags import FLAGS
from costmodel.server.http import around
from costmodel.server.page import offered, shown
from costmodel.server.request import options_of
from costmodel.server.workers import Limits
from tests.server.test_http import Door, no_process_is_left

CONFIG = (Path(__file__).resolve().parents[2] / "scenarios/examples/qwen3-8b/config.json").read_text("utf-8")
KEYS = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "gpus": 16, "settings": ["assume.price=3 USD/GPU/h"]}
cleaned = no_process_is_left


def ask(question: str, keys: dict[str, Any], whole: bool) -> dict[str, Any]:
    found = shown(question, json.dumps(keys).encode(), whole)
    assert found.status == 200, found.body
    return dict(json.loads(found.body))


def test_the_pickers_offer_every_flag_and_every_question_with_a_page() -> None:
    found = json.loads(offered().body)
    assert {*found["questions"]} >= {"search", "estimate", "memory", "run", "sensitivity"}
    assert {name for flags in found["flags"].values() for name in flags} == {*found["help"]}
    assert all({*flags.keys} <= {*found["flags"][kind]} for kind, flags in FLAGS.items())
    assert {"llama-3.1-8b", "deepseek-v3"} <= {*found["models"]}
    assert "h100-sxm" in found["gpus"]
    assert all(found["help"].values())
    assert "model" in options_of("search")


@pytest.mark.parametrize(
    ("question", "keys"),
    [("search", KEYS), ("estimate", KEYS), ("estimate", {"model": "llama-3.1-8b", "gpus": 8, "rate": "4"})],
)
def test_the_command_line_and_the_yaml_give_the_same_answer(
    question: str, keys: dict[str, Any], run: Any, tmp_path: Path
) -> None:
    found = ask(question, keys, True)
    (tmp_path / "mine.yaml").write_text(found["yaml"])
    rows = []
    for words in (shlex.split(found["command"])[1:], [question, "mine.yaml"]):
        said = json.loads(run(*words, "--json", cwd=tmp_path).out)
        rows.append([{**plan, "price_source": ""} for plan in said["plans"]])  # --set, or the scenario
    assert rows[0] == rows[1]
    first = rows[0][0]
    shown_value = next(iter(name for name in ("step_time_s", "tpot_s") if name in first))
    assert f'value="{first[shown_value]!r}"' in found["html"]


def test_the_page_without_equations_has_the_same_figures() -> None:
    light, whole = (ask("estimate", KEYS, each) for each in (False, True))
    assert "data-trace" in whole["html"]
    assert "data-trace" not in light["html"]
    assert len(light["html"]) < len(whole["html"])
    assert light["command"] == whole["command"]


def test_the_page_runs_its_own_script_alone() -> None:
    text, policy = around()
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert text.count("<script") == 1
    assert "http" not in text.replace("http-equiv", "")


# In a browser.


@pytest.fixture(scope="module")
def door() -> Iterator[Door]:
    made = Door(None, Limits(seconds=600, patience=600))
    yield made
    made.end()


@pytest.fixture
def page(browser: Any, door: Door) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    context.set_default_timeout(120_000)
    opened, errors = context.new_page(), list[str]()
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    opened.goto(f"http://127.0.0.1:{door.port}/")
    opened.wait_for_selector("#command:not(:empty)")
    yield opened
    context.close()
    assert errors == []


def answer(page: Any, command: str) -> Any:
    """The answer, once the command line has these words."""
    page.wait_for_function("words => document.querySelector('#command').textContent.includes(words)", arg=command)
    return page.frame_locator("#page")


def test_pickers_answer_while_they_move_and_by_keyboard(page: Any) -> None:
    answer(page, "costmodel search").locator("#plans table").wait_for()
    slider = page.locator("[data-moves=gpus]")
    slider.focus()
    page.keyboard.press("ArrowRight")
    answer(page, "--gpus 128").locator("h1", has_text="128").wait_for()
    page.select_option("#f-question", "estimate")
    number = answer(page, "costmodel estimate").locator(".numbers button.how").first
    number.focus()
    page.keyboard.press("Enter")
    answer(page, "estimate").locator("dialog[open] summary").first.wait_for()
    page.select_option("#f-kind", "serving")
    answer(page, "--rate 8").locator("h1").wait_for()
    page.locator("#f-settings").fill("limits.ttft_p99.at_most=1s")
    answer(page, "--set limits.ttft_p99.at_most=1s")
    page.locator("#f-gpus").fill("nonsense")
    page.wait_for_selector("#state.bad")


def test_a_link_holds_what_is_asked_and_a_config_json_can_be_dropped(page: Any, door: Door) -> None:
    data = page.evaluate_handle(
        "text => { const data = new DataTransfer(); data.items.add(new File([text], 'config.json')); return data; }",
        CONFIG,
    )
    page.dispatch_event("body", "drop", {"dataTransfer": data})
    answer(page, "--model config.json").locator("h1", has_text="qwen3").wait_for()
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    answer(page, "--model config.json").locator("h1", has_text="qwen3").wait_for()


def test_the_page_fits_every_window_in_light_and_dark(page: Any) -> None:
    for window, scheme in ((390, "light"), (1200, "dark")):
        page.set_viewport_size({"width": window, "height": 800})
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= window
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(22, 25, 29)" if scheme == "dark" else "rgb(255, 255, 255)")
    unnamed = page.evaluate(
        "[...document.querySelectorAll('input,select,textarea')].filter(item => !item.labels?.length"
        " && !item.getAttribute('aria-label')).length"
    )
    assert unnamed == 0
