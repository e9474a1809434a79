"""The authors' tool for the offline site: every page of the book as HTML, without Quarto and without the network.

    python tests/website.py build                  # into _site/; open _site/index.html
    python tests/website.py build --out /tmp/book  # into another folder
    python tests/website.py check _site            # dead links, missing pictures, raw mathematics, things from the network
    python tests/website.py shots _site --out DIR  # screenshots in headless Chromium: light and dark, wide and narrow

The pages are those of the sidebar in _quarto.yml, in its order. Mathematics becomes MathML, which browsers draw themselves. Both `build` and
`check` end with exit code 1 and a list if something is wrong.
"""

from __future__ import annotations

import argparse
import ast
import base64
import html
import json
import posixpath
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import book
import jinja2
import mistune
import reference
import yaml
from book import ROOT
from mathml import mathml
from nbformat import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.styles import get_style_by_name
from pygments.token import STANDARD_TYPES
from webcheck import problems, shoot

THEME = Path(__file__).parent / "theme"

# Markdown and cells


def code_html(source: str, language: str) -> str:
    return highlight(source, get_lexer_by_name(language or "text"), HtmlFormatter(cssclass="code"))


class Renderer(mistune.HTMLRenderer):
    """Markdown with MathML, highlighted code, and links from the exported names to the reference."""

    def __init__(self, names: dict[str, str]) -> None:
        super().__init__(escape=False)
        self.names = names

    def heading(self, text: str, level: int, **attrs: object) -> str:
        text, _, own = text.partition(" {#")
        return f'<h{level} id="{own.rstrip("}") or slug(text)}">{text}</h{level}>\n'

    def inline_math(self, text: str) -> str:
        return mathml(text, display=False)

    def block_math(self, text: str) -> str:
        return f'<div class="formula">{mathml(text, display=True)}</div>\n'

    def block_code(self, code: str, info: str | None = None) -> str:
        return code_html(code, info or "")

    def codespan(self, text: str) -> str:
        target = self.names.get(re.sub(r"\(.*\)$", "", html.unescape(text)))
        return (
            f'<a class="name" href="{target}"><code>{text}</code></a>'
            if target
            else f"<code>{text}</code>"
        )


def slug(heading: str) -> str:
    """The id of a heading by Pandoc's rule, so that links lead to the same place on the Quarto site."""
    words = re.sub(r"[^\w\s.-]", "", plain(heading).lower()).split()
    return re.sub(r"^[^a-z]+", "", "-".join(words))


def plain(body: str) -> str:
    """The prose of a piece of HTML, without code blocks, formulas and tags."""
    return html.unescape(
        re.sub(r"<[^>]+>", " ", re.sub(r"<(math|pre|style|svg)\b.*?</\1>", " ", body, flags=re.S))
    )


def markdown_html(text: str, names: dict[str, str]) -> str:
    body = mistune.create_markdown(
        renderer=Renderer(names), plugins=["math", "table", "strikethrough", "footnotes"]
    )(text)
    return re.sub(
        r"(<math\b(?:(?!</math>).)*</math>)([.,;:!?)]+)",
        r'<span class="together">\1\2</span>',
        body,
        flags=re.S,
    )


@cache
def names_seen_from(module: str) -> dict[str, str]:
    """Where each exported name, and each module, is in the reference. Of names that two modules export, only the module's own is linked."""
    found = reference.modules()
    times = Counter(name for names in found.values() for name in names)
    links = {f"cobalt_nb.{there}": f"/api/{there}.qmd" for there in found}
    return links | {
        name: f"/api/{there}.qmd#{name}"
        for there, names in found.items()
        for name in names
        if times[name] == 1 or there == module
    }


def cell_html(cell: NotebookNode, names: dict[str, str]) -> str:
    """A cell as readers see it: without directives; hidden cells are dropped, imports and long plotting code are folded."""
    found = book.directives(cell.source)
    if "hide" in found or "default_exp" in found or found.get("include") == "false":
        return ""
    if cell.cell_type == "markdown":
        return markdown_html(cell.source, names)
    shown = (
        ""
        if "hide_input" in found or found.get("echo") == "false"
        else source_html(cell.source, "exports" in found)
    )
    outputs = "" if "hide_output" in found else "".join(output_html(out) for out in cell.outputs)
    return f'<div class="cell">{shown}{outputs}</div>\n' if shown or outputs else ""


def source_html(source: str, exports: bool) -> str:
    lines = source.strip().splitlines()
    head = [line for line in lines if re.match(r"#\s*\|", line)]
    code = "\n".join(lines[len(head) :]).strip()
    if not code:
        return ""
    if "#|export" in head or "#|code-fold: true" in head:
        return f"<details><summary>{'Imports' if '#|export' in head else 'Code'}</summary>{code_html(code, 'python')}</details>"
    anchors = [
        f'<span class="anchor" id="{name}"></span>'
        for name in (reference.definitions(ast.parse(code)) if exports else ())
    ]
    return (
        "".join(anchors)
        + f'<div class="{"exported" if exports else "example"}">{code_html(code, "python")}</div>'
    )


def output_html(out: NotebookNode) -> str:
    data = out.get("data", {})
    for kind in ("image/svg+xml", "text/html"):
        if kind in data:
            return f'<div class="output">{data[kind]}</div>'
    for kind in ("image/png", "image/gif", "image/jpeg"):
        if kind in data:
            return f'<div class="output figure"><img src="data:{kind};base64,{data[kind].strip()}" alt="figure"></div>'
    if "text/markdown" in data:
        return f'<div class="output">{markdown_html(data["text/markdown"], {})}</div>'
    text = out.get("text") or data.get("text/plain", "")
    return f'<pre class="output">{html.escape(text.rstrip())}</pre>' if text.strip() else ""


# Pages


class Page(NamedTuple):
    """A page before its links are resolved. `source` is relative to nbs/."""

    source: str
    title: str
    body: str

    @property
    def url(self) -> str:
        return page_url(self.source)

    @property
    def headings(self) -> list[tuple[str, str, str]]:
        """(level, id, text) of the headings below the title."""
        return re.findall(r'<h([23]) id="([^"]*)">(.*?)</h\1>', self.body)


def page_url(source: str) -> str:
    return re.sub(r"\.(ipynb|qmd)$", ".html", source)


def sections(config: dict) -> Iterator[tuple[str, list[str]]]:
    """(title, sources) of each part of the sidebar; the front page stands in a part without a title."""
    for entry in config["website"]["sidebar"]["contents"]:
        yield ("", [entry]) if isinstance(entry, str) else (entry["section"], entry["contents"])


def make_page(source: str) -> Page:
    if source.endswith(".qmd"):
        module = Path(source).stem
        body = markdown_html(
            f"# cobalt_nb.{module}\n\n{reference.page(module, anchor=str)}", names_seen_from(module)
        )
    else:
        cells = book.read(ROOT / "nbs" / source).cells
        module = next(
            (
                found["default_exp"]
                for cell in cells
                if "default_exp" in (found := book.directives(cell.source))
            ),
            "",
        )
        body = "".join(cell_html(cell, names_seen_from(module)) for cell in cells)
    [title, *_] = re.findall(r"<h1[^>]*>(.*?)</h1>", body) or [source]
    return Page(source, plain(title).strip(), distinct_ids(body))


def distinct_ids(body: str) -> str:
    """With a number after each id that was used before; the anchor of a name gives way to a heading."""
    used = Counter(re.findall(r'<h\d id="([^"]*)"', body))
    body = re.sub(
        r'<span class="anchor" id="([^"]*)"></span>',
        lambda anchor: "" if used[anchor[1]] else anchor[0],
        body,
    )
    seen: Counter[str] = Counter()

    def numbered(heading: re.Match[str]) -> str:
        seen[heading[2]] += 1
        return (
            f'{heading[1]}{heading[2]}{f"-{seen[heading[2]] - 1}" if seen[heading[2]] > 1 else ""}"'
        )

    return re.sub(r'(<h\d id=")([^"]*)"', numbered, body)


def resolved(page: Page, out: Path, repo: str) -> str:
    """The body with its links made good: pages for notebooks, copies of the files beside them, the repository for all else."""
    here, number = posixpath.dirname(page.source), count(1)

    def link(match: re.Match[str]) -> str:
        key, address = match[1], html.unescape(match[2])
        if picture := re.fullmatch(r"data:image/(\w+);base64,([\w+/=\s]+)", address):
            target = f"figures/{page.url.removesuffix('.html').replace('/', '-')}-{next(number)}.{picture[1]}"
            write(out / target, base64.b64decode(picture[2]))
            return f'{key}="{posixpath.relpath(target, here or ".")}"'
        url = urlsplit(address)
        if url.scheme or not url.path:
            return match[0]
        target = posixpath.normpath(
            url.path[1:] if url.path.startswith("/") else posixpath.join(here, url.path)
        )
        if target.startswith("../"):
            return f'{key}="{repo}/{target[3:]}"'
        if page_url(target) == target and (file := ROOT / "nbs" / unquote(target)).is_file():
            write(out / unquote(target), file.read_bytes())
        return f'{key}="{posixpath.relpath(page_url(target), here or ".")}{"#" * bool(url.fragment)}{url.fragment}"'

    return re.sub(r'\b(href|src)="([^"]*)"', link, page.body)


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def search_entries(page: Page) -> Iterator[dict[str, str]]:
    """One entry for each section: its page, its heading, its address and its prose."""
    for part in re.split(r"(?=<h[1-4] id=)", page.body):
        if heading := re.match(r'<h\d id="([^"]*)">(.*?)</h\d>', part):
            yield {
                "page": page.title,
                "heading": plain(heading[2]).strip(),
                "url": f"{page.url}#{heading[1]}",
                "text": " ".join(plain(part[heading.end() :]).split()),
            }


def highlight_css() -> str:
    """The colours of the code in both themes."""
    light, dark = get_style_by_name("friendly"), get_style_by_name("github-dark")
    rules = []
    for token, css_class in STANDARD_TYPES.items():
        day, night = (style.style_for_token(token)["color"] for style in (light, dark))
        if css_class and (day or night):
            rules.append(
                f".code .{css_class} {{ color: light-dark({'#' + day if day else 'inherit'}, {'#' + night if night else 'inherit'}) }}"
            )
    return "\n".join(rules)


def build(out: Path) -> list[str]:
    """Write the site and say what is wrong with it; a folder that holds something else is left alone."""
    if out.exists() and any(out.iterdir()) and not (out / "search.js").exists():
        raise FileExistsError(f"{out} holds something that is not a site")
    config = yaml.safe_load((ROOT / "_quarto.yml").read_text(encoding="utf-8"))
    site, parts = config["website"], list(sections(config))
    repo = f"{site['repo-url']}/blob/{site['repo-branch']}"
    pages = {source: make_page(source) for _, sources in parts for source in sources}
    order = list(pages.values())
    shutil.rmtree(out, ignore_errors=True)
    template = jinja2.Environment(
        loader=jinja2.FileSystemLoader(THEME), trim_blocks=True, lstrip_blocks=True
    ).get_template("page.html")
    for before, page, after in zip([None, *order], order, [*order[1:], None]):
        root = posixpath.relpath(".", posixpath.dirname(page.url) or ".") + "/"
        text = template.render(
            page=page,
            body=resolved(page, out, repo),
            before=before,
            after=after,
            pages=pages,
            parts=parts,
            site=site,
            root=root,
            source_url=f"{repo}/{source_file(page.source)}",
        )
        write(out / page.url, text.encode())
    index = [entry for page in order for entry in search_entries(page)]
    write(out / "search.js", f"const INDEX = {json.dumps(index, ensure_ascii=False)};\n".encode())
    write(out / "style.css", (THEME / "style.css").read_bytes() + highlight_css().encode())
    write(out / "script.js", (THEME / "script.js").read_bytes())
    return problems(out)


def source_file(source: str) -> str:
    return f"cobalt_nb/{Path(source).stem}.py" if source.endswith(".qmd") else f"nbs/{source}"


# The command line


def report(found: list[str], good: str) -> int:
    print("\n".join(found) or good)
    return 1 if found else 0


def build_command(args: argparse.Namespace) -> int:
    return report(build(args.out), f"built: open {args.out / 'index.html'}")


def check_command(args: argparse.Namespace) -> int:
    return report(problems(args.folder), "nothing is wrong")


def shots_command(args: argparse.Namespace) -> int:
    args.out.mkdir(parents=True, exist_ok=True)
    for page in args.pages or sorted(
        path.relative_to(args.folder) for path in args.folder.rglob("*.html")
    ):
        for dark in (False, True):
            for width in (1400, 420):
                name = (
                    "-".join(Path(page).with_suffix("").parts)
                    + f"-{'dark' if dark else 'light'}-{width}.png"
                )
                shoot(args.folder / page, args.out / name, dark, width, args.height)
    return report([], f"screenshots in {args.out}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="website.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    make = commands.add_parser("build", help="write the site and check it")
    make.add_argument(
        "--out",
        type=Path,
        default=ROOT / "_site",
        help="the folder, replaced if it exists (default: _site)",
    )
    make.set_defaults(command=build_command)
    check = commands.add_parser("check", help="check a built site")
    check.add_argument("folder", type=Path)
    check.set_defaults(command=check_command)
    shots = commands.add_parser("shots", help="take screenshots of a built site")
    shots.add_argument("folder", type=Path)
    shots.add_argument("pages", nargs="*", help="pages such as 03_roi.html (default: every page)")
    shots.add_argument("--out", type=Path, required=True)
    shots.add_argument("--height", type=int, default=1000)
    shots.set_defaults(command=shots_command)
    args = parser.parse_args(argv)
    return args.command(args)


if __name__ == "__main__":
    sys.exit(main())
