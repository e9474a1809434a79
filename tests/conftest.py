import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two workers on two cores: one thread each
sys.path.insert(0, str(Path(__file__).parent))
