"""Sphinx's settings for the site that `make docs` builds into build/site."""

from __future__ import annotations

import re
from importlib import import_module, metadata
from pathlib import Path

from gavotte.loading import Package

project = "Gavotte"
copyright = "the Gavotte developers"  # noqa: A001 - Sphinx's own name
version = release = metadata.version("gavotte")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "sphinxcontrib.typer"]
root_doc = "index"
exclude_patterns = ["results/data", "reference/schemas"]
html_theme = "furo"
html_title = f"Gavotte {release}"
# No fonts or scripts from elsewhere: the site works without a network.
html_permalinks_icon = "#"

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline", "deflist"]
# A field named `bytes` is no other target than the type.
suppress_warnings = ["ref.python"]

autodoc_default_options = {"members": True, "imported-members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_class_signature = "separated"
# Importing the real one starts MPI.
autodoc_mock_imports = ["mpi4py"]
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
# The signature of a class shows the types of its fields.
napoleon_attr_annotations = False

# Packages load their names on first use, which Sphinx does not wait for. Importing `gavotte.mpi` starts MPI.
for page in sorted(Path(__file__).parent.glob("reference/python/gavotte.*.md")):
    if page.stem != "gavotte.mpi" and isinstance(package := import_module(page.stem), Package):
        for name in dir(package):
            getattr(package, name)


def setup(app: object) -> None:
    """Write single backticks in docstrings as code, as this project means them."""
    app.connect("autodoc-process-docstring", _code)  # type: ignore[attr-defined]


def _code(_app: object, _what: str, _name: str, _object: object, _options: object, lines: list[str]) -> None:
    for number, line in enumerate(lines):
        # Fields that Sphinx or napoleon made have roles, as :py:class:`x`. A bar would begin a substitution.
        lines[number] = re.sub(r"(?<![`:])`([^`\n]+)`(?!`)", r"``\1``", line).replace("|", "\\|")
