"""The page in a real browser: every control moved, the game played to its end, a silent console, no network."""

import os
import re
import select
import shutil
import subprocess
import sys
import time

import pytest

pytest.importorskip("marimo")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the PATH")

PATIENCE_S = 60
"""Machines that test are busy; nothing here measures speed."""
REST_MS = 300


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The command as a user starts it, with a policy of one's own."""
    folder = tmp_path_factory.mktemp("play")
    mine = folder / "mine.py"
    mine.write_text("def mine(view, request, memory, params):\n    return int(view.in_flight.argmin())\n")
    command = [sys.executable, "-m", "smetric_gym", "play", "--port", "0", "--no-browser", "--policy", f"{mine}:mine"]
    own_home = {**os.environ, "HOME": str(folder)}  # nobody's marimo settings
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder, env=own_home)
    assert server.stdout is not None
    try:
        until, found = time.monotonic() + 2 * PATIENCE_S, None
        while found is None and time.monotonic() < until and server.poll() is None:
            if select.select([server.stdout], [], [], 1)[0]:
                found = re.search(r"http://127\.0\.0\.1:\d+", server.stdout.readline())
        assert found, "the command printed no address"
        yield found[0]
    finally:
        server.terminate()
        server.wait(20)


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, address):
    """Open the page; at the end nothing may have been complained about or fetched from elsewhere."""
    wrong, pages = [], []

    def opened(**how):
        page = browser.new_page(**how)
        pages.append(page)
        page.set_default_timeout(1000 * PATIENCE_S)
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        here = (address, "ws", "data:", "blob:")
        page.on("request", lambda request: None if request.url.startswith(here) else wrong.append(request.url))
        page.goto(address)
        page.wait_for_selector(".p-tile")
        page.wait_for_selector(".js-plotly-plot")
        return page

    yield opened
    for page in pages:
        page.close()
    assert wrong == []


def changes(page, act, *what):
    """Do something, and wait until one of the texts is another and they have come to rest."""

    def texts():
        return [page.locator(selector).all_inner_texts() for selector in what]

    before = texts()
    act()
    until = time.monotonic() + PATIENCE_S
    while texts() == before:
        assert time.monotonic() < until, f"nothing changed in {what}: {before}"
        page.wait_for_timeout(50)
    last = None
    while last != (last := texts()):
        page.wait_for_timeout(REST_MS)


def control(page, label, exact=True):
    """The visible one: marimo keeps a second sidebar for narrow screens."""
    return page.get_by_label(label, exact=exact).locator("visible=true").first


def choose(page, label, option):
    control(page, label).select_option(option)


RESULTS = (".p-name", ".p-numbers", ".p-say")


def test_every_slider_changes_the_page(open_page):
    page = open_page(viewport={"width": 1280, "height": 720})
    sliders = page.get_by_role("slider")
    assert page.locator(".p-name").first.inner_text() == "mine"  # the policy of the command line
    changes(page, lambda: choose(page, "Left policy", "smetric"), *RESULTS)
    sync_api.expect(sliders).to_have_count(10)  # two of SMetric, seven of the scenario, the time

    def back(k):
        sliders.nth(k).focus()
        page.keyboard.press("ArrowLeft")

    for k in reversed(range(10)):  # the window comes first: what follows is cheaper
        changes(page, lambda k=k: back(k), *RESULTS)


def test_every_menu_changes_the_page(open_page):
    page = open_page(viewport={"width": 1280, "height": 720})
    for label, option in (
        ("Left policy", "bailian"),
        ("Right policy", "lmetric"),
        ("Workload", "trace2"),
        ("Architecture", "disaggregated"),
        ("Fetches", "async"),
        ("SLO", "paper_v2"),
    ):
        changes(page, lambda label=label, option=option: choose(page, label, option), *RESULTS)
    sync_api.expect(page.get_by_label(re.compile("^instance .* decode:"))).not_to_have_count(0)
    sync_api.expect(page.get_by_text("lambda").first).to_be_visible()
    changes(page, lambda: control(page, "Seed", exact=False).fill("3") or page.keyboard.press("Enter"), *RESULTS)


def test_a_trace_file_is_asked_for_and_a_wrong_one_explained(open_page):
    page = open_page()
    choose(page, "Workload", "file")
    page.get_by_text("no trace file is named").wait_for()
    control(page, "Trace file").fill("nowhere.jsonl")
    page.keyboard.press("Enter")
    page.get_by_text("nowhere.jsonl: no such file or folder").wait_for()
    choose(page, "Workload", "trace1")
    page.wait_for_selector(".p-tile")


def test_the_clock_steps_jumps_plays_and_has_keys(open_page):
    page = open_page()
    now = ".p-now, .p-name"
    changes(page, lambda: page.get_by_text("One decision").click(), now)
    changes(page, lambda: page.get_by_text("10 s", exact=False).first.click(), now)
    changes(page, lambda: page.get_by_text("Worst of right").click(), now)
    changes(page, lambda: page.get_by_text("Worst of left").click(), now)
    changes(page, lambda: page.keyboard.press("Alt+b"), now)  # while a button has the focus
    page.get_by_role("slider").first.focus()
    changes(page, lambda: page.keyboard.press("Alt+n"), now)
    choose(page, "a tick is", "15 s")
    before = page.locator(now).all_inner_texts()
    page.get_by_text("Play / pause").click()
    page.wait_for_timeout(5000)
    assert page.locator(now).all_inner_texts() != before
    page.get_by_text("Play / pause").click()
    page.wait_for_timeout(3000)
    shown = page.locator(now).all_inner_texts()
    page.wait_for_timeout(3000)
    assert page.locator(now).all_inner_texts() == shown


def test_a_request_is_picked_by_click_and_by_number(open_page):
    page = open_page()
    path = "h3:has-text('The path of session')"
    dot = page.locator(".scatterlayer .point").nth(700)
    dot.scroll_into_view_if_needed()
    box = dot.bounding_box()
    changes(page, lambda: page.mouse.click(box["x"] + 3, box["y"] + 3), path)
    changes(page, lambda: page.get_by_text("Follow the clock").click(), path)
    number = control(page, "Request (-1", exact=False)
    changes(page, lambda: number.fill("5") or page.keyboard.press("Enter"), path)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_game_is_played_to_its_end(open_page, scheme):
    page = open_page(viewport={"width": 1280, "height": 720}, color_scheme=scheme)
    assert page.locator("body.dark").count() == (scheme == "dark")
    page.get_by_text("Be the router").first.click()
    page.get_by_text("Send to 0").wait_for()
    progress = ".p-dim, .p-say"
    changes(page, lambda: page.get_by_text("SMetric decides this one").click(), progress)
    changes(page, lambda: page.get_by_text("SMetric decides five").click(), progress)
    for turn in range(60):
        if page.get_by_text("You are").count():
            break
        send, key = page.get_by_text(f"Send to {turn % 4}"), f"Alt+{turn % 4}"
        changes(page, send.click if turn % 2 else lambda key=key: page.keyboard.press(key), progress)
    assert page.get_by_text("You took").count() == 1
    assert {"you", "smetric", "load_balance"} <= set(page.locator(".p-table td:first-child").all_inner_texts())
    page.get_by_text("New game").click()
    page.get_by_text("Send to 0").wait_for()
    page.get_by_text("SMetric decides all that are left").click()
    page.get_by_text("The autopilot took every decision").wait_for()


@pytest.mark.parametrize("size", [(1280, 720), (1920, 1080)])
def test_nothing_is_wider_than_the_screen(open_page, size):
    page = open_page(viewport={"width": size[0], "height": size[1]})
    page.wait_for_timeout(2000)
    assert page.evaluate("document.querySelector('#App').scrollWidth <= document.querySelector('#App').clientWidth + 1")
    assert page.locator(".p-tile").first.bounding_box()["y"] < size[1] - 100  # tiles begin on the first screen
