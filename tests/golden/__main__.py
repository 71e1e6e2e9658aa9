"""``python -m tests.golden [SCENE…]``: write the outputs anew, and show what differs from before."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.golden.scenes import OUTPUTS, SCENES, play, rating

os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp()
for scene in sys.argv[1:] or SCENES:
    with rating() as url, tempfile.TemporaryDirectory() as folder:
        kept = {f"{name}.txt": text for name, text in play(scene, Path(folder), url)}
    (OUTPUTS / scene).mkdir(parents=True, exist_ok=True)
    for file in (OUTPUTS / scene).iterdir():
        if file.name not in kept:
            file.unlink()
    for name, text in kept.items():
        (OUTPUTS / scene / name).write_text(text, encoding="utf-8")
subprocess.run(["git", "--no-pager", "diff", "--stat", "--patch", "--", OUTPUTS], check=True)
