"""---
title: cobalt_nb.cli
repo-actions: false
---"""

import runpy

from nbdev.config import get_config

print(runpy.run_path(str(get_config().config_path / "tests" / "reference.py"))["page"]("cli"))
