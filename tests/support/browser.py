"""A real Chromium without a window, driven by WebDriver."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium import webdriver

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--hide-scrollbars")  # fmt: skip


@contextmanager
def chromium(profile: Path) -> Iterator[webdriver.Chrome]:
    """A browser with a new, empty profile; the test is skipped where there is none."""
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("needs Chromium and its driver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
    try:
        yield browser
    finally:
        browser.quit()


def emulate(browser: webdriver.Chrome, width: int, dark: bool = False, medium: str = "") -> None:
    """The window's width, the colours the reader prefers, and screen or print."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": medium, "features": scheme})
