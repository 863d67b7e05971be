"""The lessons in a real browser: the list, a lesson, wrong and right answers, a silent console, no network."""

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

PATIENCE_S = 90
"""Machines that test are busy; nothing here measures speed."""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The command as a student starts it."""
    folder = tmp_path_factory.mktemp("lessons")
    command = [sys.executable, "-m", "smetric_gym", "lessons", "--port", "0", "--no-browser"]
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


def test_a_student_answers_wrongly_and_rightly(address):
    wrong = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(1000 * PATIENCE_S)
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        here = (address, "ws", "data:", "blob:")
        page.on("request", lambda request: None if request.url.startswith(here) else wrong.append(request.url))
        page.goto(address)
        page.get_by_role("link", name="The session is the unit").click()
        page.wait_for_selector("text=What to take along")
        number = page.get_by_role("textbox", name="A number (tokens), then Enter:")
        for answer, verdict in (("26000", "Not quite"), ("26,992", "Right.")):
            number.fill(answer)
            number.press("Enter")
            page.wait_for_selector(f"text={verdict}")
        page.get_by_role("button", name="Check").first.click()
        page.wait_for_selector("text=Not yet: s = 0")
        page.get_by_role("button", name="Show an answer").nth(1).click()
        page.wait_for_selector("text=26992 tokens")
        browser.close()
    assert wrong == []
