"""The goals there are, a file each: what :mod:`robin_cli.goals.making` finds here is one."""
