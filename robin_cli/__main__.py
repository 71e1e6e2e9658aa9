"""``python -m robin_cli``: the robin command."""

from robin_cli.cli.app import main

main()
