"""Checks of a built site, from its pages to what is wrong with them.

    python tests/webcheck.py _docs              # links, anchors, ids; then Chromium, at two widths
    python tests/webcheck.py _docs --offline    # Chromium without a way to the network

Headless Chromium looks at what a browser shows: pictures, alternative texts, widths, errors.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

WIDTHS = {"desk": 1200, "telephone": 390}
AT_ONCE = 6  # pages side by side in one window
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
CODE = {"code", "pre", "script", "style", "textarea"}
LATEX = re.compile(r"\$\$|\\[a-zA-Z]+|\$[^$]*[\\^_{][^$]*\$|&#x")
CHROMIUM = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
NO_NETWORK = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"


class Scan(HTMLParser):
    """What the checks need of a page: ids, (tag, address) pairs, text outside code and formulas."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: Counter[str] = Counter()
        self.addresses: list[tuple[str, str]] = []
        self.prose: list[str] = []
        self.open: list[bool] = []  # for each open tag: does it hold code or a formula?
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag not in VOID:
            self.open.append(tag in CODE or "math" in (found.get("class") or "").split())
        if tag not in (
            "link",
            "script",
            "meta",
            "style",
        ):  # one sheet of style may stand there for each theme
            self.ids.update(filter(None, [found.get("id")]))
        self.addresses += [(tag, found[key] or "") for key in ("href", "src") if key in found]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and self.open:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if not any(self.open):
            self.prose.append(data)


def problems(folder: Path, site: str = "") -> list[str]:
    """Dead links, missing files, ids used twice, raw mathematics; `site` is its address."""
    folder = folder.resolve()
    scans = {
        path: Scan(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))
    }
    return [
        f"{path.relative_to(folder)}: {fault}"
        for path in scans
        for check in (partial(dead_links, folder=folder, site=site), raw_mathematics, repeated_ids)
        for fault in dict.fromkeys(check(path, scans))
    ]


def dead_links(
    path: Path, scans: dict[Path, Scan], folder: Path = Path(), site: str = ""
) -> Iterator[str]:
    for _, address in scans[path].addresses:
        ours = bool(site) and address.startswith(site)
        url = urlsplit(address.removeprefix(site).lstrip("/") if ours else address)
        if url.scheme or url.netloc:
            continue
        base = folder if ours or url.path.startswith("/") else path.parent
        target = (base / unquote(url.path).lstrip("/")).resolve() if ours or url.path else path
        target = target / "index.html" if target.is_dir() else target
        if not target.is_file():
            yield f"{address} leads nowhere"
        elif (
            url.fragment
            and not ours
            and target in scans
            and unquote(url.fragment) not in scans[target].ids
        ):
            yield f"{address} leads to a page without that anchor"


def raw_mathematics(path: Path, scans: dict[Path, Scan]) -> Iterator[str]:
    """Text outside code that still looks like LaTeX."""
    yield from (
        f"raw mathematics: {text.strip()[:60]}" for text in scans[path].prose if LATEX.search(text)
    )


def repeated_ids(path: Path, scans: dict[Path, Scan]) -> Iterator[str]:
    yield from (f"the id {name} is used {n} times" for name, n in scans[path].ids.items() if n > 1)


def browser() -> str | None:
    """Chromium, or its sibling, where there is one."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


def chromium(*options: str, timeout: float = 180.0, offline: bool = True) -> str:
    """What headless Chromium prints, with a profile of its own."""
    program = browser()
    if not program:
        raise FileNotFoundError("there is no Chromium on this machine")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = [*CHROMIUM, *[NO_NETWORK] * offline, f"--user-data-dir={profile}", *options]
        return subprocess.run(
            [program, *flags], capture_output=True, text=True, timeout=timeout, check=True
        ).stdout


def shoot(
    page: Path, picture: Path, dark: bool = False, width: int = 1400, height: int = 1000
) -> None:
    """A screenshot of a page."""
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    size = f"--window-size={width},{height}"
    chromium(scheme, size, f"--screenshot={picture.resolve()}", page.resolve().as_uri())


LISTEN = """<script>
window.heard = [];
addEventListener("error", event => event.message && heard.push(event.message));
addEventListener("unhandledrejection", event => heard.push(String(event.reason)));
console.error = (...words) => heard.push(words.join(" "));
</script>"""

PROBE = """<!doctype html><meta charset="utf-8"><body>
<script>
const named = node => `<${node.localName}> ${node.id} ${node.textContent.trim().slice(0, 40)}`;
const wide = doc => {
  const room = doc.documentElement.clientWidth;
  if (doc.documentElement.scrollWidth <= room) return [];
  const held = node => node.closest("pre, table, .math, mjx-container, nav, [hidden]");
  const beyond = node => node.getBoundingClientRect().right > room + 1 && !held(node.parentElement);
  const wider = [...doc.querySelectorAll("main *, body > *")].filter(beyond);
  return [`wider than the window: ${wider.length ? named(wider.at(-1)) : "the page"}`];
};
const look = async frame => {
  const win = frame.contentWindow, doc = frame.contentDocument, faults = [];
  await win.MathJax?.startup?.promise;
  await new Promise(done => setTimeout(done, 200));
  const prose = (doc.querySelector("main") ?? doc.body).cloneNode(true);
  const code = prose.querySelectorAll("pre, code, script, style, .math, mjx-container");
  code.forEach(node => node.remove());
  for (const img of doc.images) {
    const source = img.getAttribute("src")?.slice(0, 60);
    const frame = "nav, header, footer, [aria-hidden=true]";
    if (!img.naturalWidth) faults.push(`${source} is not shown`);
    if (!img.alt.trim() && !img.closest(frame)) faults.push(`${source} has no alternative text`);
  }
  const raw = prose.textContent.match(/\\$\\$|\\\\[a-zA-Z]+/g) ?? [];
  for (const words of raw) faults.push(`raw mathematics: ${words}`);
  for (const words of win.heard ?? []) faults.push(`the console says: ${words}`);
  return faults.concat(wide(doc));
};
onload = async () => {
  const frames = [...document.querySelectorAll("iframe")];
  const entry = async frame => [frame.dataset.page, await look(frame)];
  const found = await Promise.all(frames.map(entry));
  const text = JSON.stringify(Object.fromEntries(found));
  const shown = Object.assign(document.createElement("pre"), { textContent: text });
  document.body.replaceChildren(shown);
};
</script>
"""


def seen(folder: Path, width: int = 1200, offline: bool = True) -> dict[str, list[str]]:
    """What is wrong with each page as Chromium shows it in a window of this width."""
    pages = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.html"))
    found: dict[str, list[str]] = {}
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Probe, directory=folder)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        for part in [pages[i : i + AT_ONCE] for i in range(0, len(pages), AT_ONCE)]:
            frames = [
                f'<iframe data-page="{p}" src="/{p}" width="{width}" height="900"></iframe>'
                for p in part
            ]
            server.probe = (PROBE + "".join(frames)).encode()  # type: ignore[attr-defined]
            address = f"http://127.0.0.1:{server.server_port}/probe"
            dom = chromium("--virtual-time-budget=60000", "--dump-dom", address, offline=offline)
            found |= json.loads(html.unescape(re.search(r"<pre>(.*?)</pre>", dom, re.S)[1]))
        server.shutdown()
    return found


class Probe(SimpleHTTPRequestHandler):
    """The pages of a folder, each with an ear for errors; and the page that looks at them."""

    def do_GET(self) -> None:
        file = Path(self.translate_path(self.path))
        if self.path == "/probe":
            self.answer(self.server.probe)  # type: ignore[attr-defined]
        elif file.suffix == ".html" and file.is_file():
            text = file.read_text(encoding="utf-8")
            head = re.search(r"<head[^>]*>|<!doctype[^>]*>|", text, re.I)
            self.answer(f"{text[: head.end()]}{LISTEN}{text[head.end() :]}".encode())
        else:
            super().do_GET()

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="webcheck.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--offline", action="store_true", help="let the browser have no network")
    parser.add_argument(
        "--site", default="", help="where the site is published: links there are checked too"
    )
    args = parser.parse_args(argv)
    faults = problems(args.folder, args.site)
    for name, width in WIDTHS.items() if browser() else ():
        found = seen(args.folder, width, args.offline)
        faults += [f"{page} ({name}): {fault}" for page in found for fault in found[page]]
    pages = len(list(args.folder.rglob("*.html")))
    looked = "" if browser() else ", without a browser"
    print("\n".join(faults + [f"{pages} pages, {len(faults)} faults{looked}"]))
    return 1 if faults or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
