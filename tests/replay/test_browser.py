"""The page in a real browser: it opens, answers keys and mouse, and asks no network for anything."""

import shutil

import pytest

from smetric_gym.replay.page import page as page_of

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, to open the page")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, to open the page")


@pytest.fixture(scope="module", params=["recording", "disaggregated"])
def opened(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "replay.html"
    path.write_bytes(page_of(request.getfixturevalue(request.param)))
    with playwright.sync_playwright() as start:
        browser = start.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 900}, color_scheme="light")
        page.complaints = []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda r: r.url.startswith(("file:", "data:")) or page.complaints.append(r.url))
        page.goto(path.as_uri())
        page.wait_for_selector("body[data-ready]")
        yield page
        browser.close()


@pytest.fixture
def page(opened):
    opened.keyboard.press("Escape")
    opened.keyboard.press("0")
    opened.keyboard.press("Home")
    yield opened
    assert opened.complaints == []


def settled(page):
    """Wait for the frame that follows a change."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def clock(page):
    settled(page)
    return float(page.inner_text("#clock").split(" ")[0].replace(",", ""))


def test_it_says_what_it_shows(page):
    assert "on 4 instances" in page.inner_text("h1")
    assert "tps within slo" in page.inner_text("#scores")
    assert page.locator("#moments button").count() >= 2
    assert page.locator("#measure option").count() == 5


def test_the_worst_moment_is_one_key_away(page):
    page.keyboard.press("w")
    settled(page)
    assert page.inner_text("#sentence").startswith("Worst ")
    assert clock(page) > 0


def test_keys_walk_through_time_and_requests(page):
    page.keyboard.press("ArrowRight")
    one = clock(page)
    page.keyboard.press("Shift+ArrowRight")
    assert clock(page) > 5 * one > 0
    page.keyboard.press("End")
    assert clock(page) == 360
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("n")
    settled(page)
    first = page.inner_text("#card h2")
    assert "of session" in first and page.locator("#card tr[data-row]").count() >= 1
    page.keyboard.press("n")
    page.keyboard.press("n")
    settled(page)
    assert page.inner_text("#card p >> nth=0") and page.inner_text("#card h2") != first


def test_play_moves_the_time_and_stops(page):
    page.keyboard.press(" ")
    page.wait_for_function("() => parseFloat(document.getElementById('clock').textContent) > 3")
    page.keyboard.press(" ")
    stopped = clock(page)
    page.wait_for_timeout(150)
    assert clock(page) == stopped and "Play" in page.inner_text("#play")


def test_hovering_a_request_shows_its_session(page):
    page.keyboard.press("w")
    for _ in range(3):
        page.keyboard.press("+")
    settled(page)
    box = page.locator("#stage").bounding_box()
    for share in range(5, 85, 2):
        page.mouse.move(box["x"] + box["width"] * share / 100, box["y"] + 220)
        settled(page)
        if "of session" in page.inner_text("#card h2"):
            break
    words = page.inner_text("#card")
    assert "Decision" in words and "local" in words and "allowed" in words and "Path of the session" in words


def test_every_control_can_be_moved(page):
    def picture():
        settled(page)
        return page.locator("#base").screenshot()

    for measure in ("waiting", "running", "unprefilled_s", "kv_use", "tokens"):
        page.select_option("#measure", measure)
    light = picture()
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark" and picture() != light
    page.click("#theme")
    all_of_it = picture()
    page.click("#in")
    nearer = picture()
    assert nearer != all_of_it
    page.click("#all")
    assert picture() == all_of_it
    page.select_option("#speed", "300")
    page.fill("#now", "90")
    assert clock(page) == pytest.approx(90, abs=0.1)
    page.click("#help")
    assert page.is_visible("#keys")
    page.click("#help")
    for k in range(page.locator("#moments button").count()):
        page.locator("#moments button").nth(k).click()
    page.keyboard.press("ArrowDown")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Enter")
    opened = picture()
    page.keyboard.press("Enter")
    assert picture() != opened
    page.set_viewport_size({"width": 700, "height": 800})
    settled(page)
    page.set_viewport_size({"width": 1400, "height": 900})
