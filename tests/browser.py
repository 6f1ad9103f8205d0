"""A browser for tests: one tab that is driven as a reader would drive it, and what its scripts look for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
WIDE, PHONE = 1280, 390
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage")  # fmt: skip

# Contrast of two colours (WCAG 2), after any colour function; and what lies behind a node.
CONTRAST = """
const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
const context = canvas.getContext("2d", { willReadFrequently: true });
const rgb = (colour) => {
  context.clearRect(0, 0, 1, 1);
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data];
};
const linear = (v) => (v <= 10 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
const ratio = (a, b) => {
  const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05);
};
const behind = (node) => {
  for (; node; node = node.parentElement) {
    const colour = rgb(getComputedStyle(node).backgroundColor);
    if (colour[3] === 255) return colour;
  }
  return [255, 255, 255];
};
"""
TEXTS = """
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
while (walker.nextNode()) {
  const node = walker.currentNode.parentElement;
  const apart = node.closest("script, style, noscript, .unseen, .skip");
  if (walker.currentNode.data.trim() && node.checkVisibility() && !apart) found.push(node);
}
"""
BOXES = """
const box = (n) => { const b = n.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; };
const all = (node, selector) => [...node.querySelectorAll(selector)];
const chart = (c) => ({
  svg: box(c),
  plot: box(c.querySelector(".plot")),
  labels: all(c, ".axes text").map(box),
  axes: all(c, ".axis-label").map((t) => t.textContent),
});
const figure = (f) => ({ legend: box(f.querySelector(".legend")), charts: all(f, ".chart").map(chart) });
return all(document, ".figure").map(figure);
"""
SERIES = """
return [...document.querySelectorAll(".legend .curve, .legend .ramp .marker")].map((n) => {
  const style = getComputedStyle(n);
  const colour = n.closest(".ramp") ? style.fill : style.stroke;
  return [ratio(rgb(colour), behind(n)), n.closest(".key").textContent];
});
"""


def require_browser() -> None:
    """Skip a module, and say why, where there is no browser to drive."""
    pytest.importorskip("jinja2", reason="pages need jinja2 (the extra `report`)")
    pytest.importorskip("selenium.webdriver", reason="selenium is not installed: no browser can be driven")
    if not (CHROMIUM and DRIVER):
        pytest.skip("Chromium or its driver is not installed: no browser to try the page in", allow_module_level=True)


@contextmanager
def launched(profile: Path) -> Iterator[Browser]:
    """A browser of its own, gone at the end."""
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.get("about:blank")  # the page it starts with asks for files of its own
    yield Browser(driver)
    driver.quit()


class Browser:
    """One tab, and what it said."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, address: str, width: int = WIDE, *, scheme: str = "light", motion: str = "no-preference") -> None:
        """Open a page on a screen of some width; earlier messages are forgotten."""
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == PHONE}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": motion}
        media = [{"name": name, "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
        self.driver.get(address)

    def asked(self) -> set[str]:
        """Addresses the page has asked for since it was opened."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return {e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"}

    def js(self, script: str, *arguments: Any) -> Any:
        """Run a script in the page."""
        return self.driver.execute_script(script, *arguments)

    def press(self, selector: str, times: int = 1) -> None:
        """Bring into view and click with the mouse."""
        x, y = self.middle(selector)
        for count in range(1, times + 1):
            self.mouse("mousePressed", x, y, count)
            self.mouse("mouseReleased", x, y, count)

    def middle(self, selector: str) -> tuple[float, float]:
        """Where an element is on the screen, once it is in view."""
        return tuple(
            self.js(
                "const node = document.querySelector(arguments[0]); node.scrollIntoView({ block: 'center', behavior: "
                "'instant' }); const box = node.getBoundingClientRect(); "
                "return [box.x + box.width / 2, box.y + box.height / 2]",
                selector,
            )
        )

    def mouse(self, kind: str, x: float, y: float, count: int = 0) -> None:
        """One event of the mouse."""
        event = {"type": kind, "x": x, "y": y, "button": "left" if count else "none", "clickCount": count}
        self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", event)

    def key(self, name: str) -> None:
        """One key."""
        for kind in ("rawKeyDown", "keyUp"):
            self.driver.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": kind, "key": name})
