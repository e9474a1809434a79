"""The site: what Quarto gets, and the checks of what it makes, each shown to notice."""

import re
from configparser import ConfigParser
from pathlib import Path

import pytest
import webcheck
import yaml
from book import ROOT
from matplotlib.image import imread

CONFIG = yaml.safe_load((ROOT / "_quarto.yml").read_text(encoding="utf-8"))
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/docs.yml").read_text(encoding="utf-8"))
in_browser = pytest.mark.skipif(
    not webcheck.browser(), reason="there is no Chromium on this machine"
)


def settings() -> dict[str, str]:
    parser = ConfigParser()
    parser.read(ROOT / "settings.ini")
    return dict(parser["DEFAULT"])


# What Quarto gets


def test_the_options_of_the_site() -> None:
    site, page = CONFIG["website"], CONFIG["format"]["html"]
    assert site["search"] and set(page["theme"]) == {"light", "dark"} and page["keep-md"]
    assert page["respect-user-color-scheme"] and site["page-footer"]
    for name in [page["css"], site["favicon"], *page["filters"]]:
        assert (ROOT / "nbs" / name).is_file(), name
    assert (ROOT / "nbs" / "_quarto.yml").resolve() == ROOT / "_quarto.yml"
    assert site["repo-url"] == settings()["git_url"]
    assert site["repo-branch"] == settings()["branch"]
    assert site["site-url"] == (settings()["doc_host"] + settings()["doc_baseurl"]).rstrip("/")


def test_the_sections_of_the_sidebar() -> None:
    titles = [entry["section"] for entry in CONFIG["website"]["sidebar"]["contents"]]
    assert titles[:6] == ["Start", "The method", "The optimiser", "The study", "The tools", "API"]


def test_a_page_shows_each_definition_once() -> None:
    """nbdev splits the setting at commas and does not strip what is between them."""
    assert settings()["skip_procs"] == "add_show_docs,exec_show_docs,add_fold,mv_exports"


def test_the_workflow_builds_with_a_new_quarto_and_checks_what_it_made() -> None:
    steps = WORKFLOW["jobs"]["docs"]["steps"]
    [quarto] = [step for step in steps if "quarto-actions" in step.get("uses", "")]
    assert tuple(map(int, quarto["with"]["version"].split(".")[:2])) >= (1, 8)
    runs = [step["run"] for step in steps if "run" in step]
    build = next(i for i, run in enumerate(runs) if "nbdev_docs" in run)
    assert "touch README.md" in runs[build] and "git diff --exit-code README.md" in runs[build]
    assert any("tests/webcheck.py _docs" in run for run in runs[build + 1 :])


def test_the_style_sheet_can_be_read() -> None:
    """Every rule is closed, and the dark theme has the rules that the light one has."""
    text = re.sub(r"/\*.*?\*/", "", (ROOT / "nbs" / "styles.css").read_text(), flags=re.S)
    assert text.count("{") == text.count("}")
    verdicts = set(re.findall(r"^main \.ledger tr\.([\w-]+)", text, re.M))
    assert verdicts == set(re.findall(r"^\.quarto-dark main \.ledger tr\.([\w-]+)", text, re.M))
    for rule in re.findall(r"tr\.[^{]+\{([^}]*)\}", text):
        ink, paper = (luminance(colour) for colour in re.findall(r"#([0-9a-f]{6})", rule))
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) > 7, rule


def luminance(colour: str) -> float:
    """Relative luminance, as the accessibility guidelines define it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear))


# The checks of the pages


PAGE = "<!doctype html><title>made</title><main id='top'>{}</main>"
GOOD = """<a href="#top">fine</a> <code>$$ \\alpha</code> 5 $ or 6 $
<span class="math inline">\\(\\alpha\\)</span> <a href="https://example.org/x.html#there">out</a>"""
BREAKAGES = [
    ('<a href="nowhere.html">there</a>', "nowhere.html leads nowhere"),
    ('<a href="#nothing">there</a>', "without that anchor"),
    ('<a href="/nowhere.html">there</a>', "/nowhere.html leads nowhere"),
    ('<a href="https://book.org/lost.html">there</a>', "lost.html leads nowhere"),
    ('<img src="missing.png" alt="">', "missing.png leads nowhere"),
    ("<p>$$x^2$$</p>", "raw mathematics"),
    (r"<p>so \mathbf{x} is</p>", "raw mathematics"),
    ("<p>so $x_1$ is</p>", "raw mathematics"),
    ('<p id="top">again</p>', "the id top is used 2 times"),
]


@pytest.mark.parametrize("body, sign", BREAKAGES)
def test_the_checks_notice(body: str, sign: str, tmp_path: Path) -> None:
    (tmp_path / "made.html").write_text(PAGE.format(GOOD), encoding="utf-8")
    assert webcheck.problems(tmp_path, "https://book.org") == []
    (tmp_path / "made.html").write_text(PAGE.format(body), encoding="utf-8")
    [problem] = webcheck.problems(tmp_path, "https://book.org")
    assert sign in problem


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No pages are as wrong as bad ones."""
    assert webcheck.main([str(tmp_path), "--offline"]) == 1
    (tmp_path / "made.html").write_text(PAGE.format("fine"), encoding="utf-8")
    assert webcheck.main([str(tmp_path), "--offline"]) == 0
    (tmp_path / "made.html").write_text(PAGE.format("<a href='lost.html'>x</a>"), encoding="utf-8")
    assert webcheck.main([str(tmp_path), "--offline"]) == 1
    assert "lost.html leads nowhere" in capsys.readouterr().out


PIXEL = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
SEEN = {
    "missing": ('<img src="missing.png" alt="lost">', "missing.png is not shown"),
    "wordless": (f'<img src="{PIXEL}">', "has no alternative text"),
    "raw": ("<p>$$x$$</p>", "raw mathematics"),
    "wide": ('<p style="width: 5000px">x</p>', "wider than the window: <p>  x"),
    "network": ('<img src="https://example.org/x.png" alt="far">', "x.png is not shown"),
    "thrown": (
        "<script>throw Error('broken')</script>",
        "the console says: Uncaught Error: broken",
    ),
    "told": ("<script>console.error('odd')</script>", "the console says: odd"),
    "promised": ("<script>Promise.reject('late')</script>", "the console says: late"),
}


@in_browser
def test_chromium_notices(tmp_path: Path) -> None:
    bodies = {name: body for name, (body, _) in SEEN.items()} | {"good": GOOD}
    for name, body in bodies.items():
        (tmp_path / f"{name}.html").write_text(PAGE.format(body), encoding="utf-8")
    faults = webcheck.seen(tmp_path)
    assert faults.pop("good.html") == [] and len(faults) == len(SEEN)
    for name, (_, sign) in SEEN.items():
        assert any(sign in fault for fault in faults[f"{name}.html"]), (name, faults)


LONG = "a_name_that_goes_on_and_on_without_a_place_to_break_it_for_longer_than_a_telephone_is_wide"
WIDE = f"""<p>so <code>{LONG}({LONG})</code> is</p><h2>{LONG}</h2>
<div class="cell-output"><pre>{"x" * 300}</pre></div>
<span class="math display" style="white-space: nowrap">{"x + " * 100}</span>
<table><tr>{"<td>wide</td>" * 40}</tr></table>
<table class="ledger"><tr class="partly">{"<td>verdict</td>" * 6}</tr></table>"""


def styled(folder: Path, body: str, theme: str = "quarto-light") -> Path:
    """A page like Quarto's, with the site's own style sheet."""
    style = (ROOT / "nbs" / "styles.css").read_text(encoding="utf-8")
    colours = "body { background: #222; color: #fff }" if theme == "quarto-dark" else ""
    page = (
        f"<!doctype html><style>{colours}{style}</style><body class='{theme}'><main>{body}</main>"
    )
    (folder / "made.html").write_text(page, encoding="utf-8")
    return folder / "made.html"


@in_browser
def test_wide_things_fit_on_a_telephone(tmp_path: Path) -> None:
    page = styled(tmp_path, WIDE)
    assert webcheck.seen(tmp_path, 390) == {"made.html": []}
    page.write_text(re.sub(r"<style>.*</style>", "", page.read_text(), flags=re.S))
    assert "wider than the window" in str(webcheck.seen(tmp_path, 390))


@in_browser
def test_each_theme_is_itself(tmp_path: Path) -> None:
    shots = {}
    for theme in ("quarto-light", "quarto-dark"):
        webcheck.shoot(styled(tmp_path, WIDE, theme), tmp_path / "shot.png", width=600, height=400)
        shots[theme] = imread(tmp_path / "shot.png")[..., :3]
    assert shots["quarto-light"].mean() > 0.8 and shots["quarto-dark"].mean() < 0.4
    assert min(shot.std() for shot in shots.values()) > 0.05


# Citation


def test_the_citation_file() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["version"] == settings()["version"]
    assert citation["repository-code"] == settings()["git_url"]
    title = "Constrained Bayesian Optimization with Adaptive Active Learning"
    assert citation["preferred-citation"]["title"].startswith(title)
