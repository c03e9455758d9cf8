"""The scripts and the style sheet, in a real browser: a sample page with every part that pages are made of."""

from __future__ import annotations

import json
import queue
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from front_end.samples import CHARTS, RUN, best, knobs

import tilewright.dashboard
from harness.browser import Record, findings, sideways, until
from tilewright.insight.colours import OTHERS, ROLES
from tilewright.plots.theme import DARK, LIGHT

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip("playwright.sync_api", reason="needs playwright").expect
expect.set_options(timeout=60_000)

STATIC = Path(tilewright.dashboard.__file__).parent / "static"
PAGE = Path(__file__).parent / "front_end" / "page.html"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".json": "application/json",
    ".html": "text/html",
    ".svg": "image/svg+xml",
}


@dataclass
class Site:
    """A server of the sample page. Tests set its charts, and send events to whoever listens."""

    address: str
    charts: dict[str, Any]
    fetched: list[str] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    streams: queue.Queue[queue.Queue[bytes]] = field(default_factory=queue.Queue)

    def stream(self) -> queue.Queue[bytes]:
        """The next stream that a page opens: what is put into it is sent; nothing ends it."""
        return self.streams.get(timeout=60)


def event(name: str, data: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        site = self.server.site
        name = path.rsplit("/", 1)[-1].removesuffix(".json")
        if path in site.broken:
            self.answer(500, ".html", b"no")
        elif path == "/live":
            self.stream()
        elif path.startswith("/charts/") and name in site.charts:
            site.fetched.append(name)
            self.answer(200, ".json", json.dumps(site.charts[name].to_json()).encode())
        elif path.startswith("/static/"):
            file = STATIC / path.removeprefix("/static/")
            self.answer(200, file.suffix, file.read_bytes())
        elif path == "/page":
            self.answer(200, ".html", PAGE.read_bytes())
        else:
            self.answer(
                200, ".html", b"<!doctype html><html lang=en><title>Elsewhere</title><link rel=icon href=data:,>"
            )

    def answer(self, status: int, suffix: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{TYPES[suffix]}; charset=utf-8")
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self) -> None:
        events: queue.Queue[bytes] = queue.Queue()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.server.site.streams.put(events)
        self.close_connection = True
        while data := events.get():
            try:
                self.wfile.write(data)
            except OSError:
                return

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    site: Site

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that leaves in the middle of an answer is no fault."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def site(server: Server) -> Iterator[Site]:
    server.site = Site(f"http://127.0.0.1:{server.server_port}", dict(CHARTS))
    yield server.site
    while not server.site.streams.empty():
        server.site.streams.get().put(b"")


def opened(page: Page, site: Site, wait: bool = True) -> None:
    page.goto(f"{site.address}/page")
    if wait:
        until(page, "document.querySelectorAll('.chart .plot:not(:empty)').length === 8")


def said(page: Page, text: str) -> None:
    until(page, "text => document.getElementById('announcer')?.textContent.includes(text)", text)


def inked(page: Page, figure: str) -> str:
    """A figure's picture, as text."""
    return str(page.evaluate("id => document.querySelector(`#${id} canvas`).toDataURL()", figure))


def test_every_chart_is_drawn_quietly_and_without_requests_elsewhere(page: Page, record: Record, site: Site) -> None:
    opened(page, site)
    record.check()
    assert sorted(site.fetched) == sorted(CHARTS)
    assert page.locator("#best canvas").count() == 1
    label = page.locator("#best [role=img]").get_attribute("aria-label")
    assert label == CHARTS["best"].alt
    expect(page.locator("#best .note")).to_have_text(CHARTS["best"].note)
    names = ["Random start", "Proposed by the model", "Best so far"]
    assert page.locator("#best .tools button[aria-pressed]").all_text_contents() == names
    assert page.locator("#importance li").all_inner_texts()[0].split("\n") == ["tile_m", "41.2% (30.0% to 52.0%)"]
    bar, line = (page.locator(f"#importance li:first-child .{part}").bounding_box() for part in ("fill", "reference"))
    assert bar
    assert line
    # 41.2% is drawn as such: the whole is where the line is.
    assert bar["width"] / (line["x"] + line["width"] - bar["x"]) == pytest.approx(0.412, abs=0.02)
    expect(page.locator("#none").locator(".empty")).to_have_text("Nothing to draw.")
    assert page.locator("#knobs [role=slider]").count() == 8
    assert not sideways(page)


def test_a_colour_means_the_same_in_every_chart(page: Page, record: Record, site: Site) -> None:
    opened(page, site)

    def colour(name: str) -> str:
        swatch = page.locator(".tools button", has_text=name).first.locator(".swatch")
        return str(swatch.evaluate("e => getComputedStyle(e).color"))

    def means(role: str) -> str:
        return str(
            page.evaluate(
                """n => {
            const e = document.body.appendChild(document.createElement("i"));
            e.className = `series-${n}`;
            return getComputedStyle(e).color;
        }""",
                role,
            )
        )

    assert colour("Best so far") == colour("Trials") == means("main")
    assert colour("Peak") == means("limit")
    assert colour("Measured") == means("measured")
    assert colour("Random start") == means("1")
    assert colour("Proposed by the model") == means("2")
    css = (STATIC / "app.css").read_text()
    written = dict(re.findall(r"--series-(\w+): light-dark\((#\w+, #\w+)\);", css))
    known = {**ROLES, **{str(n): pair for n, pair in enumerate(OTHERS, 1)}}
    assert written == {name: ", ".join(pair) for name, pair in known.items()}
    assert dict(LIGHT.roles) | dict(DARK.roles) == {role: dark for role, (_, dark) in ROLES.items()}
    assert LIGHT.cycle == tuple(light for light, _ in OTHERS)
    record.check()


def test_a_grid_is_a_table_that_opens_trials(page: Page, record: Record, site: Site) -> None:
    opened(page, site)
    table = page.locator("#pairs table")
    assert [r.split("\t") for r in table.inner_text().split("\n")] == [
        ["pack \\ tile_m", "8", "16", "32"], ["none", "4 ms", "3 ms", ""], ["both", "2.5 ms", "2 ms", "3.5 ms"],
    ]  # fmt: skip
    assert table.locator(".shade-0").inner_text() == "2 ms"
    assert table.locator(".shade-4").inner_text() == "4 ms"
    table.get_by_role("link", name="2.5 ms").click()
    page.wait_for_url(f"**/runs/{RUN}/trials/2")
    record.check()


def test_keys_move_over_points_say_them_and_open_a_trial(page: Page, record: Record, site: Site) -> None:
    opened(page, site)
    chart = page.locator("#best .surface")
    chart.focus()
    page.keyboard.press("ArrowRight")
    said(page, "Best so far, Time: ")
    first = page.locator("#announcer").inner_text()
    assert re.fullmatch(r"Best so far, Time: [\d.]+ ms, Trial: 0, from [\d.]+ ms to [\d.]+ ms", first)
    expect(page.locator("#best .tip")).to_be_visible()
    page.keyboard.press("End")
    said(page, "Trial: 399")
    page.keyboard.press("ArrowUp")
    said(page, "Proposed by the model")
    page.keyboard.press("PageUp")
    said(page, "Trial: 389")
    page.keyboard.press("Escape")
    expect(page.locator("#best .tip")).to_be_hidden()
    page.locator("#knob .surface").focus()
    page.keyboard.press("End")
    said(page, "Fastest of each value, Time: 3 ms, pack: a")
    chart.focus()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{RUN}/trials/0")
    record.check()


def test_the_mouse_shows_zooms_and_opens(page: Page, record: Record, site: Site) -> None:
    opened(page, site)
    chart = page.locator("#roofline .surface")
    chart.scroll_into_view_if_needed()
    chart.focus()
    page.keyboard.press("Home")
    ring = page.locator("#roofline .ring").bounding_box()
    box = page.locator("#roofline .u-over").bounding_box()
    assert ring
    assert box
    before = inked(page, "roofline")
    reset = page.locator("#roofline .tools button", has_text="Reset zoom")
    expect(reset).to_be_hidden()
    page.mouse.move(box["x"] + 40, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 220, box["y"] + 200, steps=3)
    page.mouse.up()
    reset.wait_for()
    assert inked(page, "roofline") != before
    reset.click()
    until(page, "b => document.querySelector('#roofline canvas').toDataURL() === b", before)
    page.keyboard.press("+")
    expect(reset).to_be_visible()
    page.mouse.dblclick(box["x"] + 3, box["y"] + 3)
    reset.wait_for(state="hidden")
    x, y = ring["x"] + ring["width"] / 2, ring["y"] + ring["height"] / 2
    page.mouse.move(x, y)
    assert "Trials" in page.locator("#roofline .tip").inner_text()
    page.mouse.click(x, y)
    page.wait_for_url(re.compile(f"/runs/{RUN}/trials/[0-9]+$"))
    record.check()


def test_the_legend_hides_series(page: Page, record: Record, site: Site) -> None:
    opened(page, site)
    before = inked(page, "best")
    button = page.get_by_role("button", name="Random start")
    button.focus()
    page.keyboard.press("Enter")
    expect(button).to_have_attribute("aria-pressed", "false")
    assert inked(page, "best") != before
    page.keyboard.press("Space")
    assert inked(page, "best") == before
    record.check()


def test_axes_are_narrowed_by_keys_and_mouse(page: Page, record: Record, site: Site) -> None:
    chart = site.charts["knobs"] = knobs(2000)
    opened(page, site)
    axis = page.get_by_role("slider", name="tile_m")
    count = page.locator("#knobs .count")
    expect(count).to_have_text("2000 rows")
    rows = [row[1] for row in chart.rows]
    axis.focus()
    page.keyboard.press("ArrowUp")
    expect(axis).to_have_attribute("aria-valuetext", "8")
    said(page, f"{rows.count(0)} of 2000 rows")
    page.keyboard.press("Shift+ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(axis).to_have_attribute("aria-valuetext", "16 to 32")
    expect(count).to_have_text(f"{rows.count(1) + rows.count(2)} of 2000 rows")
    page.keyboard.press("Escape")
    expect(axis).to_have_attribute("aria-valuetext", "all values")
    box = axis.bounding_box()
    assert box
    page.mouse.move(box["x"] + 12, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 12, box["y"] + 110, steps=3)
    page.mouse.up()
    expect(axis).to_have_attribute("aria-valuetext", "128 to 256")
    page.get_by_role("button", name="Clear choices").click()
    expect(count).to_have_text("2000 rows")
    page.keyboard.press("ArrowRight")
    fastest = min(range(2000), key=chart.colour.__getitem__)
    said(page, f"trial {fastest}")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{RUN}/trials/{fastest}")
    record.check()


def test_the_theme_is_kept_and_redraws(page: Page, record: Record, site: Site) -> None:
    opened(page, site)
    page.emulate_media(color_scheme="light")
    light = inked(page, "best")
    button = page.get_by_role("button", name="Theme: auto")
    page.emulate_media(color_scheme="dark")
    until(page, "b => document.querySelector('#best canvas').toDataURL() !== b", light)
    button.click()
    until(page, "b => document.querySelector('#best canvas').toDataURL() === b", light)
    page.get_by_role("button", name="Theme: light").click()
    page.reload()
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    record.check()


def test_live_events_change_texts_and_charts_and_end(page: Page, record: Record, site: Site) -> None:
    opened(page, site)
    stream = site.stream()
    status = page.locator("#live-status")
    until(page, "document.getElementById('live-status').textContent === 'live'")
    stream.put(event("state", {"best": "<b>1.1 ms</b>", "trials": "1,300"}))
    until(page, "document.querySelector('[data-live-text=trials]').textContent === '1,300'")
    expect(page.locator("[data-live-text=best]")).to_have_text("<b>1.1 ms</b>")
    before = inked(page, "best")
    page.locator("#best .surface").focus()
    page.keyboard.press("ArrowRight")
    site.charts["best"] = best(300)
    stream.put(event("refresh", {"charts": ["another"]}))
    stream.put(event("points", {"points": []}))
    until(page, "b => document.querySelector('#best canvas').toDataURL() !== b", before)
    assert "Trial: 0" in page.locator("#best .tip").inner_text()  # what was chosen stays so
    burst = [event("refresh", {"charts": ["best"]})] * 5
    stream.put(b"".join([*burst, event("state", {"state": "done"}), event("end", {})]))
    until(page, "document.querySelector('h1 .state').className === 'state state-done'")
    said(page, "live updates have ended")
    expect(status).to_have_text("ended")
    assert site.fetched.count("best") <= 4  # a burst is one more fetch, or two
    assert site.fetched.count("roofline") == 1
    record.check()


def test_a_lost_stream_is_opened_again(page: Page, site: Site) -> None:
    opened(page, site)
    site.broken.add("/live")
    site.stream().put(b"")
    until(page, "document.getElementById('live-status').textContent === 'reconnecting'")
    site.broken.clear()
    site.stream()
    until(page, "document.getElementById('live-status').textContent === 'live'")


def test_a_chart_that_fails_says_so_and_tries_again(page: Page, record: Record, site: Site) -> None:
    site.broken.add("/charts/best.json")
    opened(page, site, wait=False)
    fault = page.locator("#best .fault")
    fault.wait_for()
    assert "The server answered 500" in fault.get_by_role("alert").inner_text()
    assert all("500" in problem for problem in record.problems)
    site.broken.clear()
    page.get_by_role("button", name="Try again").click()
    page.locator("#best canvas").wait_for()
    expect(fault).to_be_hidden()


def test_keys_lead_to_help_filter_and_pages(page: Page, record: Record, site: Site) -> None:
    opened(page, site)
    page.keyboard.press("?")
    help_dialog = page.get_by_role("dialog", name="Keyboard")
    expect(help_dialog).to_be_visible()
    assert findings(page) == []
    page.keyboard.press("Escape")
    help_dialog.wait_for(state="hidden")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "status"
    page.keyboard.press("g")
    page.keyboard.press("f")
    assert page.url.endswith("/page")
    page.locator("#best .surface").focus()
    page.keyboard.press("g")
    page.keyboard.press("f")
    page.wait_for_url("**/farm")
    page.go_back()
    page.get_by_role("button", name="Keyboard").click()
    page.get_by_label("Keys of one letter on").uncheck()
    page.get_by_role("button", name="Close").click()
    help_dialog.wait_for(state="hidden")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_hidden()
    record.check()


def test_what_is_copied(page: Page, record: Record, site: Site) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened(page, site)
    page.locator("button[data-copy='#run-id']").click()
    said(page, "Copied")
    assert page.evaluate("navigator.clipboard.readText()") == RUN
    record.check()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(page: Page, site: Site, theme: str) -> None:
    page.emulate_media(color_scheme=theme)
    opened(page, site)
    page.locator("#best .surface").focus()
    page.keyboard.press("End")
    assert findings(page) == []


def test_a_phone_scrolls_only_within_tables_and_charts(page: Page, record: Record, site: Site) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    opened(page, site)
    assert not sideways(page)
    assert page.locator("#knobs .plot").evaluate("e => e.scrollWidth > e.clientWidth")
    assert page.locator("#best .u-wrap").evaluate("e => e.clientWidth") < 390
    page.set_viewport_size({"width": 700, "height": 844})
    until(page, "document.querySelector('#best .u-wrap').clientWidth > 390")
    record.check()


def test_without_scripts_texts_remain(browser: Any, site: Site) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site.address}/page")
    expect(page.locator("#theme")).to_be_hidden()
    expect(page.locator("#best .plot")).to_be_hidden()
    expect(page.get_by_role("link", name="CSV").first).to_be_visible()
    context.close()


def test_units_read_as_the_servers_tables_do(page: Page, site: Site) -> None:
    page.goto(site.address)
    asked = [
        (1.76e-5, "s"), (0.00119, "s"), (125, "s"), (7300, "s"), (120, "s"), (97_500, "s"), (4.2e-9, "s"), (8.12e10, "flop/s"), (0.125, "share"),
        (1795253405, "date"), (12345, "trial"), (2.5, "flop/byte"), (None, "s"),
    ]  # fmt: skip
    script = "async (asked) => { const { show } = await import('/static/units.js'); return asked.map(([v, u]) => show(v, u)); }"
    assert page.evaluate(script, asked) == [
        "17.6 us", "1.19 ms", "2 min 5 s", "2 h 1 min", "2 min", "1 d 3 h", "4.2 ns", "81.2 GFLOP/s", "12.5%",
        "2026-11-21 09:30:05 UTC", "12,345", "2.5 FLOP/byte", "none",
    ]  # fmt: skip


def test_ticks_are_few_distinct_and_inside(page: Page, site: Site) -> None:
    page.goto(site.address)
    axes = [
        ("s", "log", 3.2e-3, 4.1e-3), ("s", "log", 1e-6, 2.0), ("s", "linear", 0, 1.7e-5), ("s", "linear", 0, 5000),
        ("flop/s", "log", 1e9, 3e12), ("trial", "linear", 0, 3), ("trial", "linear", 0, 1_000_000), ("share", "linear", 0, 1),
        ("date", "linear", 1795253405, 1795253505), ("date", "linear", 1795253405, 1795253405 + 9e6), ("", "linear", -3, 5),
    ]  # fmt: skip
    script = """async (axes) => {
      const { ticks } = await import('/static/units.js');
      return axes.map(([unit, scale, low, high]) => ticks({ unit, scale }, low, high, 6));
    }"""
    for (unit, scale, low, high), found in zip(axes, page.evaluate(script, axes), strict=True):
        assert 2 <= len(found["at"]) <= 10, (unit, scale, low, high, found)
        assert len(set(found["texts"])) == len(found["texts"])
        slack = (high - low) * 1e-6
        assert all(low - slack <= v <= high + slack for v in found["at"])


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_colours_stand_out(theme: int) -> None:
    """As WCAG AA asks: 4.5 for text, 3 for graphics and outlines."""
    found = re.findall(r"(--[\w-]+): light-dark\((#\w+), (#\w+)\)", (STATIC / "app.css").read_text(encoding="utf-8"))
    colours = {name: pair[theme] for name, *pair in found}
    for ground in ("--page", "--surface", "--sunken"):
        for name, colour in colours.items():
            if name in {"--ink", "--muted", "--accent"}:
                assert contrast(colour, colours[ground]) >= 4.5, (name, ground)
            if name in {"--control", "--focus"}:
                assert contrast(colour, colours[ground]) >= 3, (name, ground)
    for name, colour in colours.items():
        if name.startswith("--tok-"):
            assert contrast(colour, colours["--sunken"]) >= 4.5, name
        if name.startswith(("--series-", "--ramp-")):
            assert contrast(colour, colours["--surface"]) >= 3, name
        if name.endswith("-soft"):
            assert contrast(colours[name.removesuffix("-soft")], colour) >= 4.5, name
    shades = [luminance(colours[f"--ramp-{k}"]) for k in range(5)]
    assert shades == sorted(shades, reverse=theme == 1)


def test_scripts_make_no_markup_from_texts() -> None:
    for file in STATIC.glob("*.js"):
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), (
            file.name
        )
        assert not re.search(r"https?://(?!www\.w3\.org)", text), file.name


def test_the_vendored_files_are_the_released_ones() -> None:
    said = re.findall(
        r"\| `([\w.-]+)` \| `([0-9a-f]{64})` \|", (STATIC / "vendor" / "README.md").read_text(encoding="utf-8")
    )
    assert {name for name, _ in said} == {f.name for f in (STATIC / "vendor").iterdir()} - {"README.md"}
    for name, digest in said:
        assert sha256((STATIC / "vendor" / name).read_bytes()).hexdigest() == digest
