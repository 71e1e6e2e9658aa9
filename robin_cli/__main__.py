"""``python -m robin_cli``: the robin command."""

import os.path as paths  # with sys the only ones that Python has loaded before it looks into the working folder
import sys

# Python puts that folder before all else, and a stranger's may hold modules of any name. Only a checkout of robin stays.
if not sys.flags.safe_path and paths.realpath(sys.path[0]) != paths.realpath(f"{__file__}/../.."):
    del sys.path[0]

from robin_cli.cli.app import main

main()
