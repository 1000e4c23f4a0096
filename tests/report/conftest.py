"""The browser in which pages and traces are opened."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium: that of the system, or the one that Playwright brought."""
    playwright = pytest.importorskip("playwright.sync_api")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    with playwright.sync_playwright() as started:
        if path is None and not os.path.exists(started.chromium.executable_path):
            pytest.skip("there is no Chromium")
        sandbox = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        made = started.chromium.launch(executable_path=path, args=sandbox)
        yield made
        made.close()
