"""The site: the pages Quarto gets, the offline build, and what Chromium shows of it; each check is shown to notice what it is for."""

import json
import re
from configparser import ConfigParser
from pathlib import Path

import book
import mathml
import pytest
import reference
import webcheck
import website
import yaml
from book import ROOT
from matplotlib.image import imread

CONFIG = yaml.safe_load((ROOT / "_quarto.yml").read_text(encoding="utf-8"))
SOURCES = [source for _, sources in website.sections(CONFIG) for source in sources]
in_browser = pytest.mark.skipif(
    not webcheck.browser(), reason="there is no Chromium on this machine"
)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The site, and what its builder found wrong with it."""
    folder = tmp_path_factory.mktemp("site")
    return folder, website.build(folder)


# What Quarto gets


def test_the_sidebar_lists_every_page_once() -> None:
    notebooks = [path.relative_to(ROOT / "nbs").as_posix() for path in book.notebooks()]
    scripts = [
        path.relative_to(ROOT / "nbs").with_suffix("").as_posix()
        for path in (ROOT / "nbs" / "api").glob("*.qmd.py")
    ]
    assert sorted(SOURCES) == sorted(notebooks + scripts)


def test_the_chapters_stand_in_reading_order() -> None:
    parts = dict(website.sections(CONFIG))
    assert all(
        sources == sorted(sources) for title, sources in parts.items() if title != "API reference"
    )
    modules = [
        re.sub(r"^\d+_", "", Path(source).stem) for source in SOURCES if re.match(r"\d", source)
    ]
    listed = [Path(source).stem for source in parts["API reference"]]
    assert [name for name in listed if name in modules] == [
        name for name in modules if name in listed
    ]


def test_the_options_of_the_site() -> None:
    site, page = CONFIG["website"], CONFIG["format"]["html"]
    assert site["search"] and set(page["theme"]) == {"light", "dark"} and page["keep-md"]
    assert (ROOT / "nbs" / page["css"]).is_file() and (
        ROOT / "nbs" / "_quarto.yml"
    ).resolve() == ROOT / "_quarto.yml"
    settings = ConfigParser()
    settings.read(ROOT / "settings.ini")
    assert (
        site["repo-url"] == settings["DEFAULT"]["git_url"]
        and site["repo-branch"] == settings["DEFAULT"]["branch"]
    )


def test_every_module_has_a_script_for_its_reference() -> None:
    scripts = {
        path.name.removesuffix(".qmd.py"): path.read_text(encoding="utf-8")
        for path in (ROOT / "nbs" / "api").glob("*.qmd.py")
    }
    assert set(scripts) == set(reference.modules())
    [_] = {text.replace(name, "MODULE") for name, text in scripts.items()}


@pytest.mark.parametrize("module", reference.modules())
def test_the_reference_holds_every_exported_name(module: str) -> None:
    text = reference.page(module)
    names = reference.modules()[module]
    listed = re.findall(r"^## \S+ \{#(\S+)\}$", text, re.M)
    assert sorted(listed) == sorted(names)
    assert re.findall(r"#(\S+)\)\.$", text, re.M) == [name.lower() for name in listed]


def test_the_reference_begins_with_what_the_package_offers() -> None:
    listed = re.findall(r"^## (\S+)", reference.page("optimizer"), re.M)
    assert listed[:5] == ["Query", "Result", "Cobalt", "maximize", "minimize"] and listed.index(
        "BETA"
    ) > listed.index("Journal")


def test_the_reference_of_a_made_module(tmp_path: Path) -> None:
    (tmp_path / "nbs").mkdir()
    (tmp_path / "cobalt_nb").mkdir()
    cells = [
        {"id": "1", "cell_type": "markdown", "source": ["# Made\n", "\n", "## A part"]},
        {"id": "2", "cell_type": "code", "source": []},
    ]
    (tmp_path / "nbs" / "00_made.ipynb").write_text(json.dumps({"cells": cells}))
    (tmp_path / "cobalt_nb" / "made.py").write_text(MADE)
    (tmp_path / "cobalt_nb" / "__init__.py").write_text("")
    text = reference.page("made", root=tmp_path)
    assert (
        "@dataclass\nclass Pair(Base):\n    left: int  # of two\n" in text and "_hidden" not in text
    )
    assert (
        "def swapped(\n    self,\n    twice: bool = False,\n) -> Pair\n" in text
        and "The two, in turn.\n\nDefined in [A part](../00_made.ipynb#pair)." in text
    )


MADE = '''"""A module."""
# %% auto #0
__all__ = ["Pair"]

# %% ../nbs/00_made.ipynb #2
@dataclass
class Pair(Base):
    "Two."
    left: int  # of two

    def _hidden(self): pass

    def swapped(
        self,
        twice: bool = False,
    ) -> Pair:
        "The two, in turn."
        return self
'''


# Mathematics


def test_formulas_become_mathml() -> None:
    assert "<munder><mi>argmax</mi>" in mathml.mathml(
        r"\operatorname*{argmax}_{x} f(x)", display=True
    )
    assert "<msub><mi>max</mi>" in mathml.mathml(r"\max_x f(x)", display=False)
    assert "font-weight: bold" in mathml.mathml(r"\mathbf{1}", display=False)
    assert '<mi>log</mi><mspace width="0.17em" /><mi>x</mi>' in mathml.mathml(
        r"\log x", display=False
    )
    assert "<mtable>" in mathml.mathml(
        r"\begin{cases} 1 & x > 0 \\ 0 & \text{otherwise} \end{cases}", display=True
    )


def test_a_formula_that_is_not_understood_stops_the_build() -> None:
    with pytest.raises(ValueError, match="notacommand"):
        website.markdown_html(r"The value is $\notacommand{x}$.", {})


# The offline build


def test_nothing_is_wrong_with_the_offline_site(built: tuple[Path, list[str]]) -> None:
    folder, faults = built
    assert faults == []
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.html")) == sorted(
        map(website.page_url, SOURCES)
    )


def test_directives_and_hidden_cells_are_not_shown(built: tuple[Path, list[str]]) -> None:
    text = (built[0] / "03_roi.html").read_text(encoding="utf-8")
    assert "#|" not in text and "default_exp" not in text and "fastcore" not in text
    assert 'href="02_confidence.html"' in text and ".ipynb" not in text.split("<footer>")[0]


def test_names_lead_to_the_reference_and_back(built: tuple[Path, list[str]]) -> None:
    assert 'href="api/optimizer.html#Cobalt"' in (built[0] / "index.html").read_text(
        encoding="utf-8"
    )
    assert 'href="../03_roi.html#Regions"' in (built[0] / "api" / "roi.html").read_text(
        encoding="utf-8"
    )


PAGE = "<!doctype html><title>made</title><main id='top'>{}</main>"
BREAKAGES = [
    ('<a href="nowhere.html">there</a>', "nowhere.html leads nowhere"),
    ('<a href="#nothing">there</a>', "without that anchor"),
    ('<img src="missing.png" alt="">', "missing.png leads nowhere"),
    ("<p>$$x^2$$</p>", "raw mathematics"),
    (r"<p>so \mathbf{x} is</p>", "raw mathematics"),
    ("<p>so $x_1$ is</p>", "raw mathematics"),
    ('<script src="https://example.org/x.js"></script>', "loads https://example.org/x.js"),
    ('<p id="top">again</p>', "the id top is used 2 times"),
]


@pytest.mark.parametrize("body, sign", BREAKAGES)
def test_the_checks_notice(body: str, sign: str, tmp_path: Path) -> None:
    (tmp_path / "made.html").write_text(
        PAGE.format('<a href="#top">fine</a> <code>$$ \\alpha</code> 5 $ or 6 $'), encoding="utf-8"
    )
    assert webcheck.problems(tmp_path) == []
    (tmp_path / "made.html").write_text(PAGE.format(body), encoding="utf-8")
    [problem] = webcheck.problems(tmp_path)
    assert sign in problem


def test_only_a_site_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("dear to someone")
    with pytest.raises(FileExistsError):
        website.build(tmp_path)
    assert (tmp_path / "thesis.txt").exists()


def test_the_check_notices_a_font_from_the_network(tmp_path: Path) -> None:
    (tmp_path / "style.css").write_text("@font-face { src: url(https://example.org/font.woff2) }")
    assert webcheck.problems(tmp_path) == ["style.css: loads https://example.org/font.woff2"]


# In the browser


@in_browser
@pytest.mark.parametrize("width", [1200, 390])
def test_chromium_shows_every_page(built: tuple[Path, list[str]], width: int) -> None:
    faults = webcheck.seen(built[0], width)
    assert len(faults) == len(SOURCES)
    assert {page: found for page, found in faults.items() if found} == {}


@in_browser
def test_chromium_notices(tmp_path: Path) -> None:
    bodies = {
        "missing": '<img src="missing.png">',
        "raw": "<p>$$x$$</p>",
        "wide": '<p style="width: 5000px">x</p>',
        "network": '<img src="https://example.org/x.png">',
        "good": "x",
    }
    for name, body in bodies.items():
        (tmp_path / f"{name}.html").write_text(PAGE.format(body), encoding="utf-8")
    faults = webcheck.seen(tmp_path)
    assert faults.pop("good.html") == []
    signs = {
        "missing.html": "missing.png is not shown",
        "raw.html": "raw mathematics",
        "wide.html": "wider than the window",
        "network.html": "x.png is not shown",
    }
    assert all(
        any(signs[page] in fault for fault in found) for page, found in faults.items()
    ) and set(faults) == set(signs)


@in_browser
@pytest.mark.parametrize("page", ["index", "05_cobalt", "api/roi"])
def test_screenshots(built: tuple[Path, list[str]], page: str, tmp_path: Path) -> None:
    light, dark = (
        picture(built[0] / f"{page}.html", tmp_path / f"{theme}.png", theme == "dark")
        for theme in ("light", "dark")
    )
    assert light.mean() > 0.8 and dark.mean() < 0.3  # each theme is itself,
    assert min(light.std(), dark.std()) > 0.05  # and something is on the page


def picture(page: Path, target: Path, dark: bool):
    webcheck.shoot(page, target, dark)
    return imread(target)[..., :3]


# Citation


def test_the_citation_file() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    settings = ConfigParser()
    settings.read(ROOT / "settings.ini")
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert (
        citation["version"] == settings["DEFAULT"]["version"]
        and citation["repository-code"] == settings["DEFAULT"]["git_url"]
    )
    assert citation["preferred-citation"]["title"].startswith(
        "Constrained Bayesian Optimization with Adaptive Active Learning"
    )
