const root = document.body.dataset.root, query = document.getElementById("query"), hits = document.getElementById("hits");

// Light or dark
document.getElementById("theme").onclick = () => {
  const { dataset } = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
  dataset.theme = (dataset.theme || (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
  localStorage.setItem("theme", dataset.theme);
};
document.getElementById("menu").onclick = () => document.body.classList.toggle("with-menu");

// Search: every word must occur; words in a heading count most
const entries = INDEX.map(entry => ({ ...entry, head: `${entry.heading} ${entry.page}`.toLowerCase(), body: entry.text.toLowerCase() }));
const score = (entry, words) => words.reduce((sum, word) => {
  const found = 10 * entry.head.includes(word) + entry.body.includes(word);
  return found ? sum + found : -Infinity;
}, 0);

const element = (tag, text, attributes = {}) => Object.assign(document.createElement(tag), { textContent: text }, attributes);

function hit(entry, word) {
  const at = Math.max(0, entry.body.indexOf(word) - 40), item = element("li", ""), link = element("a", entry.heading, { href: root + entry.url });
  link.append(element("small", `${entry.page} — ${at ? "…" : ""}${entry.text.slice(at, at + 110)}…`));
  item.append(link);
  return item;
}

query.oninput = () => {
  const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = entries.map(entry => [score(entry, words), entry]).filter(([points]) => points > 0).sort((a, b) => b[0] - a[0]).slice(0, 12);
  hits.replaceChildren(...found.map(([, entry]) => hit(entry, words[0])));
  if (!found.length) hits.append(element("p", "Nothing found."));
  hits.hidden = !words.length;
};
document.onkeydown = event => {
  if (event.key === "/" && document.activeElement !== query) { event.preventDefault(); query.focus(); }
  if (event.key === "Escape") { query.value = ""; hits.hidden = true; }
};

// A link at each heading
for (const heading of document.querySelectorAll("main :is(h2, h3, h4)[id]")) {
  heading.append(element("a", "#", { className: "permalink", href: "#" + heading.id, ariaLabel: "Link to this section" }));
}

for (const block of document.querySelectorAll("main .code")) {
  const source = block.textContent, button = element("button", "copy", { className: "copy", ariaLabel: "Copy this code" });
  button.onclick = async () => {
    await navigator.clipboard.writeText(source);
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  };
  block.append(button);
}

// Without a font for mathematics on the machine, sums, roots and brackets do not grow by themselves
const mathElement = (tag, ...children) => { const node = document.createElementNS("http://www.w3.org/1998/Math/MathML", tag); node.append(...children); return node; };
const height = node => node.getBoundingClientRect().height, size = node => parseFloat(getComputedStyle(node).fontSize);

function stretch(sign, beside, target = height(beside)) {
  const own = sign.getBoundingClientRect(), box = beside.getBoundingClientRect(), growth = target / own.height;
  if (growth > 1.15) sign.style.transform = `translateY(${box.top + box.height / 2 - own.top - own.height / 2}px) scaleY(${growth})`;
}

function growByHand() {
  for (const sum of document.querySelectorAll("math[display=block] mo")) {
    if (/^[∑∏⋂⋃∫]$/.test(sum.textContent) && !sum.closest("mfrac, mtable")) sum.style.fontSize = "1.5em";
  }
  for (const root of [...document.querySelectorAll("msqrt")].filter(node => height(node) > 1.7 * size(node))) {
    const sign = mathElement("mo", "√"), radicand = mathElement("mrow", ...root.childNodes);
    radicand.style.borderTop = "1px solid";
    root.replaceWith(mathElement("mrow", sign, radicand));
    stretch(sign, radicand);
  }
  for (const bracket of document.querySelectorAll("math mo:not([stretchy=false])")) {
    if (!/^[()[\]{}|‖]$/.test(bracket.textContent)) continue;
    const table = [bracket.nextElementSibling, bracket.previousElementSibling].find(node => node?.tagName === "mtable"), em = parseFloat(bracket.getAttribute("minsize"));
    if (em) stretch(bracket, bracket, em * size(bracket)); else stretch(bracket, table ?? bracket.parentElement);
  }
}

const tall = mathElement("mspace"), sample = mathElement("mo", "("), trial = mathElement("math", mathElement("mrow", sample, tall));
tall.setAttribute("height", "5em");
document.body.append(trial);
const grows = height(sample) > 3 * size(sample);
trial.remove();
if (!grows) growByHand();
