"""A real browser for tests: Debian's Chromium without a window, what it logs, and pictures of what it shows."""

import base64
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Any, TypeVar

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

SCREENSHOTS = Path(__file__).parent.parent / "artifacts" / "screenshots"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--lang=en",
)
DEADLINE_S = 10.0

_T = TypeVar("_T")


class Browser:
    """One tab. Widths are CSS pixels; a narrow one is a phone."""

    def __init__(self, driver: Chrome, downloads: Path) -> None:
        self.driver = driver
        self.downloads = downloads

    def open(self, url: str, *, width: int = 1280, scheme: str = "light") -> None:
        """Load a page at a width, in a light or dark colour scheme. What was logged before is forgotten."""
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
        self.devtools("Emulation.setEmulatedMedia", features=media)
        self.devtools("Emulation.setDeviceMetricsOverride", **metrics)
        self.complaints()
        self.driver.get(url)

    def devtools(self, command: str, **parameters: Any) -> Any:
        return self.driver.execute_cdp_cmd(command, parameters)

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script of the test in the page."""
        return self.driver.execute_script(script, *arguments)  # type: ignore[no-untyped-call]

    def complaints(self) -> list[str]:
        """What the browser logged since it was last asked: errors, warnings, violations of the security policy."""
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]

    def keep_picture(self, name: str) -> Path:
        """A picture of the whole page, also of what is below the fold."""
        picture = self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        path.write_bytes(base64.b64decode(picture["data"]))
        return path

    def accessible(self) -> list[dict[str, Any]]:
        """What a screen reader is told: nodes of the accessibility tree that are not hidden from it."""
        nodes = self.devtools("Accessibility.getFullAXTree")["nodes"]
        return [node for node in nodes if not node.get("ignored")]


@contextmanager
def started_browser(downloads: Path) -> Iterator[Browser]:
    """A browser until the end of the block; it fetches nothing but what a test opens."""
    chromium, chromedriver = which("chromium"), which("chromedriver")
    assert chromium, "chromium is not installed: apt-get install chromium"
    assert chromedriver, "chromedriver is not installed: apt-get install chromium-driver"
    options = ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in FLAGS:
        options.add_argument(flag)
    driver = Chrome(options, Service(chromedriver))
    try:
        browser = Browser(driver, downloads)
        browser.devtools("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))
        yield browser
    finally:
        driver.quit()


def awaited(condition: Callable[[], _T], what: str) -> _T:
    """The first true value of a condition, or a failure after a while."""
    deadline = time.monotonic() + DEADLINE_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {DEADLINE_S:.0f} s in vain for {what}"
        time.sleep(0.02)
    return value
