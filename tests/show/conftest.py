"""Pages in a real browser."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import missing

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Locator, Page


@dataclass
class Seen:
    """A page in the browser, and what it did that it should not."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def rows(self) -> list[str]:
        return self.page.locator("tbody tr.row td:first-child").all_inner_texts()

    def column(self, name: str) -> list[str]:
        number = self.page.locator("#pairs thead th").all_inner_texts().index(name) + 1
        return self.page.locator(f"tbody tr.row td:nth-child({number})").all_inner_texts()

    def show(self, width: int, scheme: str = "light") -> None:
        """Look at the same page in another window."""
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]

    def head(self, name: str) -> Locator:
        return self.page.locator("#pairs thead th", has_text=name)


Open = Callable[..., Seen]


def _dismiss(seen: Seen, dialog: Dialog) -> None:
    seen.dialogs.append(dialog.message)
    dialog.dismiss()


@pytest.fixture(scope="module", autouse=True)
def pages_in_less_time(few_resamples: None) -> None:
    """No test of a page is about how often an interval is resampled."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    program = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if program is None:
        missing("Chromium", "install_programs.sh")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"]
        )
        yield started
        started.close()


@pytest.fixture(scope="module")
def window(browser: Browser) -> Seen:
    """One window for the pages of a module, which take its place one after another: a new one is most of the work."""
    page = browser.new_page()
    seen = Seen(page)
    page.on("console", lambda message: seen.complaints.append(message.text))
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    page.on("dialog", partial(_dismiss, seen))
    page.on(
        "request",
        lambda request: seen.requests.append(request.url) if request.url[:5] != "data:" else None,
    )
    return seen


@pytest.fixture
def opened(window: Seen, tmp_path: Path) -> Open:
    """Opens HTML in the browser, from a file, as a user does."""

    def opening(text: str, width: int = 1200, scheme: str = "light") -> Seen:
        file = tmp_path / "report.html"
        file.write_text(text, encoding="utf-8")
        window.page.goto("about:blank")
        for told in (window.complaints, window.requests, window.dialogs):
            told.clear()
        window.show(width, scheme)
        window.page.goto(file.as_uri())
        window.page.wait_for_selector("tbody tr.row")
        return window

    return opening
