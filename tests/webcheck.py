"""Checks of a built site, each from the pages to what is wrong with them, and pictures of it in headless Chromium."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

CODE = ("code", "pre", "script", "style")
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
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


class Scan(HTMLParser):
    """What the checks need of a page: its ids, its (tag, address) pairs, and its text outside code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: Counter[str] = Counter()
        self.addresses: list[tuple[str, str]] = []
        self.prose: list[str] = []
        self.code = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.code += tag in CODE
        for key, value in attrs:
            if key == "id":
                self.ids[value or ""] += 1
            elif key in ("href", "src"):
                self.addresses.append((tag, value or ""))

    def handle_endtag(self, tag: str) -> None:
        self.code -= tag in CODE

    def handle_data(self, data: str) -> None:
        if not self.code:
            self.prose.append(data)


def problems(folder: Path) -> list[str]:
    """What is wrong with a built site: dead links and anchors, missing files, ids used twice, raw mathematics, things from the network."""
    scans = {
        path.resolve(): Scan(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.html"))
    }
    faults = [
        (path, fault)
        for path in scans
        for check in (dead_links, network_loads, raw_mathematics, repeated_ids)
        for fault in check(path, scans)
    ]
    faults += [
        (path, f"loads {url}")
        for path in sorted(folder.rglob("*.css"))
        for url in re.findall(r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]+)", path.read_text())
    ]
    return [f"{path.relative_to(folder.resolve())}: {fault}" for path, fault in faults]


def dead_links(path: Path, scans: dict[Path, Scan]) -> Iterator[str]:
    for _, address in scans[path].addresses:
        url = urlsplit(address)
        if url.scheme or url.netloc:
            continue
        target = (path.parent / unquote(url.path)).resolve() if url.path else path
        if not target.is_file():
            yield f"{address} leads nowhere"
        elif url.fragment and target in scans and url.fragment not in scans[target].ids:
            yield f"{address} leads to a page without that anchor"


def network_loads(path: Path, scans: dict[Path, Scan]) -> Iterator[str]:
    yield from (
        f"<{tag}> loads {address}"
        for tag, address in scans[path].addresses
        if tag != "a" and urlsplit(address).netloc
    )


def raw_mathematics(path: Path, scans: dict[Path, Scan]) -> Iterator[str]:
    """Text outside code that still looks like LaTeX."""
    yield from (
        f"raw mathematics: {text.strip()[:60]}" for text in scans[path].prose if LATEX.search(text)
    )


def repeated_ids(path: Path, scans: dict[Path, Scan]) -> Iterator[str]:
    yield from (f"the id {name} is used {n} times" for name, n in scans[path].ids.items() if n > 1)


def browser() -> str | None:
    """Chromium, or its sibling, where there is one."""
    return next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )


def chromium(*options: str, timeout: float = 120.0) -> str:
    """What headless Chromium prints, with a profile of its own and no way to the network."""
    program = browser()
    if not program:
        raise FileNotFoundError("there is no Chromium on this machine")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [program, *CHROMIUM, f"--user-data-dir={profile}", *options]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, check=True
        ).stdout


def shoot(
    page: Path, picture: Path, dark: bool = False, width: int = 1400, height: int = 1000
) -> None:
    """A screenshot of a page."""
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    chromium(
        scheme,
        f"--window-size={width},{height}",
        f"--screenshot={picture.resolve()}",
        page.resolve().as_uri(),
    )


PROBE = """<!doctype html><meta charset="utf-8"><body>
<script>
const look = frame => {
  const doc = frame.contentDocument, prose = doc.querySelector("main, body").cloneNode(true), faults = [];
  prose.querySelectorAll("pre, code, script").forEach(node => node.remove());
  for (const img of doc.images) if (!img.naturalWidth) faults.push(`${img.getAttribute("src")} is not shown`);
  for (const math of doc.querySelectorAll("math")) if (!math.getBoundingClientRect().height) faults.push(`not drawn: ${math.textContent}`);
  for (const [raw] of prose.textContent.matchAll(/\\$\\$|\\\\[a-zA-Z]+/g)) faults.push(`raw mathematics: ${raw}`);
  for (const { name } of frame.contentWindow.performance.getEntriesByType("resource")) if (!name.startsWith(location.origin)) faults.push(`loads ${name}`);
  if (doc.documentElement.scrollWidth > doc.documentElement.clientWidth) faults.push("wider than the window");
  const query = doc.getElementById("query");
  if (query) {
    query.value = "regions of interest"; query.oninput();
    if (!doc.querySelector("#hits a")) faults.push("the search finds nothing");
  }
  return faults;
};
onload = () => {
  const found = Object.fromEntries([...document.querySelectorAll("iframe")].map(frame => [frame.dataset.page, look(frame)]));
  document.body.replaceChildren(Object.assign(document.createElement("pre"), { textContent: JSON.stringify(found) }));
};
</script>
"""


def seen(folder: Path, width: int = 1200) -> dict[str, list[str]]:
    """What is wrong with each page as Chromium shows it: pictures, formulas, raw mathematics, the network, the width, the search."""
    pages = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.html"))
    frames = "".join(
        f'<iframe data-page="{page}" src="/{page}" width="{width}" height="900"></iframe>'
        for page in pages
    )

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/probe":
                return super().do_GET()
            self.send_response(200)
            self.end_headers()
            self.wfile.write((PROBE + frames).encode())

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        dom = chromium("--dump-dom", f"http://127.0.0.1:{server.server_port}/probe")
        server.shutdown()
    return json.loads(html.unescape(re.search(r"<pre>(.*?)</pre>", dom, re.S)[1]))
