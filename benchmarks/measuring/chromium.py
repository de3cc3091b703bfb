"""A headless Chromium for testing and measuring pages, by default with a software renderer."""

import importlib
import importlib.util
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PATIENCE_S = 3600
"""A limit only against hanging: tests open pages on slow machines, too."""

ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars")
SOFTWARE = ("--use-angle=swiftshader", "--enable-unsafe-swiftshader")
GPU = (
    *("--use-angle=vulkan", "--enable-features=Vulkan", "--disable-vulkan-surface"),
    "--ignore-gpu-blocklist",
)


class BrowserPage:
    """A page in a browser."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, path: Path, fragment: str = "", *, wait: bool = True) -> None:
        """Load a file, and wait until the page has finished its work."""
        self.driver.get("about:blank")  # changing only the fragment would not load the page again
        self.errors()  # discards the errors of the previous page
        self.driver.get(path.resolve().as_uri() + fragment)
        if wait:
            self.wait("document.body.dataset.ready === '1'")

    def run(self, script: str, *arguments: Any) -> Any:
        """Return the awaited value of an expression; `arguments` are its ``a[0]``, ``a[1]`` ..."""
        code = (
            "const a = [...arguments], done = a.pop(), end = (error) => done(String(error));"
            f"(async () => ({script}))().then((value) => done([value]), end);"
        )
        found = self.driver.execute_async_script(code, *arguments)
        assert isinstance(found, list), found
        return found[0]

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        end_s = time.monotonic() + PATIENCE_S
        while not self.run(condition):
            assert time.monotonic() < end_s, f"still not: {condition}; console: {self.errors()}"
            time.sleep(0.03)

    def errors(self) -> list[str]:
        """Return what the page has written to the console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def processor_s(self) -> float:
        """Return the processor time that the browser has taken, with its software renderer."""
        taken_s, parents = {}, {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                number = int(stat.parent.name)
                parents[number] = int(fields[1])
                taken_s[number] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        own = {self.driver.service.process.pid}
        while found := {child for child, parent in parents.items() if parent in own} - own:
            own |= found
        return sum(taken_s.get(number, 0.0) for number in own)

    def look(self, width: int, height: int, *, dark: bool = False, scale: float = 1) -> None:
        """Change the size and the colour scheme of the page."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def missing_reason() -> str | None:
    """Return the reason why pages cannot be opened here, or None."""
    if importlib.util.find_spec("selenium") is None:
        return "selenium is not installed"
    if _program() is None or shutil.which("chromedriver") is None:
        return "no Chromium with its chromedriver: apt-get install chromium chromium-driver"
    return None


def _program() -> str | None:
    return shutil.which("chromium") or shutil.which("google-chrome")


@contextmanager
def chromium(renderer: Sequence[str] = SOFTWARE) -> Iterator[BrowserPage]:
    """Start a browser; there must be no `missing_reason`."""
    webdriver: Any = importlib.import_module("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = str(_program())
    for argument in (*ARGUMENTS, *renderer):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        driver.set_script_timeout(120)
        yield BrowserPage(driver)
    finally:
        driver.quit()
