"""The documentation: its code runs, its links lead somewhere, and no key of the configuration is left out."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md")) + [ROOT / "README.md"]
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
UNTRIED = {"README.md"}  # its examples are at full size


@pytest.fixture(scope="module")
def generate():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import generate

        yield generate
    finally:
        sys.path.remove(str(ROOT / "docs"))
        sys.modules.pop("generate", None)


@pytest.mark.parametrize("page", [p for p in PAGES if CODE.search(p.read_text())], ids=lambda p: p.name)
def test_code_runs(page, tmp_path, monkeypatch, capsys):
    if page.name in UNTRIED:
        pytest.skip("its examples are at full size")
    monkeypatch.chdir(tmp_path)
    space = {"__name__": "__main__"}
    for block in CODE.findall(page.read_text()):
        exec(compile(block, str(page), "exec"), space)


def test_every_key_is_documented(generate):
    from smetric_gym.experiment.settings import _keys, compose

    text = generate.configuration()
    groups = {"cluster", "workload", "policy", "slo"}
    missing = [key for key in _keys(compose()) if key not in groups and f"`{key}`" not in text]
    assert not missing


def test_every_value_has_words(generate):
    """A key says what it is where it stands first; a file that only changes it need not say it again.

    ``boxes`` are named by policies, whose parameters stand with them.
    """
    rows = re.findall(r"^\| `([^`]+)` \| `[^`]*` \| (.*?) ?\|$", generate.configuration(), re.MULTILINE)
    said = {key.rpartition(".")[2] for key, words in rows if words}
    bare = [key for key, words in rows if not words and key.rpartition(".")[2] not in said and ".boxes." not in key]
    assert rows and not bare


def test_every_score_and_policy_has_its_lines(generate):
    from smetric_gym.agents.policy import POLICIES
    from smetric_gym.scoring import SCORES

    assert all(f"| `{name}` |" in generate.metrics() for name in SCORES)
    assert all(f"## `{name}`" in generate.policies() for name in POLICIES)


class Links(HTMLParser):
    """The anchors and the links of a page."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag == "img":
            self.links.append(values["src"])


def test_the_site_is_built_without_a_warning_and_without_a_dead_link(tmp_path):
    pytest.importorskip("sphinx", reason="needs the extra docs")
    pytest.importorskip("myst_parser", reason="needs the extra docs")
    pytest.importorskip("furo", reason="needs the extra docs")
    options = ("-W", "--keep-going", "-q", "-b", "html")
    command = [sys.executable, "-m", "sphinx", *options, str(ROOT / "docs"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stderr[-3000:]
    pages = {path: Links(path.read_text()) for path in tmp_path.rglob("*.html")}
    dead = []
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            known = pages.get(target)
            if not target.exists() or (anchor and known is not None and anchor not in known.anchors):
                dead.append(f"{path.name}: {link}")
    assert not dead, "\n".join(sorted(set(dead)))
