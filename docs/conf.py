"""Sphinx configuration; `make docs` builds the site without a network."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import generate  # noqa: E402  (beside this file)

project = "smetric_gym"
copyright = "2026, the smetric_gym authors"  # noqa: A001  (Sphinx wants this name)
author = "The smetric_gym authors"
release = version = version_of("smetric-gym")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.xref_missing"]  # links of included pages into the repository, made absolute below
exclude_patterns = ["_build", "generate.py", "README.md"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
default_role = "code"
nitpicky = False

html_theme = "furo"
html_title = "smetric_gym"
html_static_path: list[str] = []


def setup(app):
    """Write the pages that are made from the package itself."""
    generate.write_all(HERE / "generated")
