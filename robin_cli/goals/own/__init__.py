"""All goals, a file each; :mod:`robin_cli.goals.making` finds them here."""
