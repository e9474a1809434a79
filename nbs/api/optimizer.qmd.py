"""---
title: cobalt_nb.optimizer
repo-actions: false
---"""

import runpy

from nbdev.config import get_config

print(runpy.run_path(str(get_config().config_path / "tests" / "reference.py"))["page"]("optimizer"))
