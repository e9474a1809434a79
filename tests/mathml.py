"""LaTeX as MathML, which browsers draw themselves: latex2mathml, and what it leaves to be mended."""

from __future__ import annotations

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert

SCRIPTS = ("msub", "msup", "msubsup", "munder", "mover", "munderover")
BELOW = {
    "max",
    "min",
    "sup",
    "inf",
    "lim",
    "argmax",
    "argmin",
    "⋂",
    "⋃",
}  # in a displayed formula their index stands below
OPERATORS, LETTERS = "~±;:⟺∖‖", "∞∅⊤"  # which latex2mathml takes for letters, and for operators
SPACE = {
    "/": "0",
    ".": "0",
    "|": "0",
    "‖": "0",
    ":": "0.28em",
}  # on both sides of an operator, where browsers have too much or too little
SPELT = {
    r"\arg": r"\operatorname{arg}",
    r"\setminus": "∖",
}  # what latex2mathml does not know, or not well


def mathml(latex: str, display: bool) -> str:
    """A formula as MathML; ValueError if a command is not understood."""
    for command, known in SPELT.items():
        latex = re.sub(re.escape(command) + r"(?![A-Za-z])", lambda _: known, latex)
    formula = ElementTree.fromstring(
        convert(latex.strip(), xmlns="", display="block" if display else "inline")
    )
    tidy(formula, display)
    text = ElementTree.tostring(formula, encoding="unicode")
    if "\\" in text:
        raise ValueError(f"this formula was not understood: {latex}")
    return text


def tidy(node: Element, display: bool) -> None:
    """Set operators, names of functions, indices below them, bold digits and Greek capitals as TeX does."""
    text = node.text or ""
    if (
        node.tag in ("mi", "mo")
        and text
        and text in OPERATORS + LETTERS
        and node.get("stretchy") != "false"
    ):
        node.tag, node.text = "mo" if text in OPERATORS else "mi", text.replace("~", "∼")
    if node.tag == "mo" and text in SPACE:
        node.attrib |= {"lspace": SPACE[text], "rspace": SPACE[text]}
    if node.tag == "mo" and len(text) > 1 and text.isalpha():
        node.tag, node.attrib = "mi", {}
    if node.tag == "mn" and node.get("mathvariant") == "bold":
        node.set("style", "font-weight: bold")
    if node.tag == "mi" and len(text) == 1 and "Γ" <= text <= "Ω":
        node.set("mathvariant", "normal")
    if display and node.tag in ("msub", "msubsup") and node[0].text in BELOW:
        node.tag = node.tag.replace("subsup", "underover").replace("sub", "under")
    for child in node:
        tidy(child, display and node.tag not in ("mtable", "mfrac", *SCRIPTS))
    if node.tag in ("mrow", "math", "mtd", "msqrt"):
        space_names(node)


def space_names(row: Element) -> None:
    """A thin space between the name of a function and its neighbours, unless they are brackets or operators."""
    for i in reversed(range(len(row))):
        if is_name(row[i]):
            if i + 1 < len(row) and row[i + 1].tag not in ("mo", "mspace"):
                row.insert(i + 1, Element("mspace", width="0.17em"))
            if i and row[i - 1].tag not in ("mo", "mspace"):
                row.insert(i, Element("mspace", width="0.17em"))


def is_name(node: Element) -> bool:
    base = node[0] if node.tag in SCRIPTS else node
    return base.tag == "mi" and len(base.text or "") > 1
