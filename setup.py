"""Packaging for cobalt-nb: every fact is in settings.ini; this file only hands it to setuptools."""

import re
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup

root = Path(__file__).parent
parser = ConfigParser(delimiters=["="])
parser.read(root / "settings.ini", encoding="utf-8")
cfg = parser["DEFAULT"]

extras = {
    key.removesuffix("_requirements"): cfg[key].split()
    for key in cfg
    if key.endswith("_requirements")
}
optional = sorted({req for name, reqs in extras.items() if name != "dev" for req in reqs})
extras["dev"] = extras["dev"] + optional  # a developer has every integration, so that its tests run


def absolute(text: str) -> str:
    """The README with links that work anywhere: pictures and pages by their addresses."""
    raw = cfg["git_url"].replace("github.com", "raw.githubusercontent.com") + f"/{cfg['branch']}/"
    page = f"{cfg['git_url']}/blob/{cfg['branch']}/"
    text = re.sub(r"(!\[[^\]]*\]\()(?![a-z]+:|#)", lambda found: found[1] + raw, text)
    return re.sub(r"(\]\()(?![a-z]+:|#)", lambda found: found[1] + page, text)


setup(
    name=cfg["lib_name"],
    version=cfg["version"],
    description=cfg["description"],
    long_description=absolute((root / "README.md").read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
    url=cfg["git_url"],
    author=cfg["author"],
    author_email=cfg["author_email"],
    license="Apache-2.0",
    keywords=cfg["keywords"].split(),
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Mathematics",
    ],
    packages=find_packages(include=["cobalt_nb", "cobalt_nb.*"]),
    package_data={"": ["py.typed", "results/*", "data/*"]},
    python_requires=f">={cfg['min_python']}",
    install_requires=cfg["requirements"].split(),
    extras_require=extras,
    entry_points={
        "console_scripts": cfg["console_scripts"].split(),
        "nbdev": ["cobalt_nb=cobalt_nb._modidx:d"],  # so that names in backticks become links
    },
    zip_safe=False,
)
