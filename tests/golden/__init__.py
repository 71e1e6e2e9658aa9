"""What every command prints and writes for every goal, kept as files.

``outputs/`` holds a folder per scene. A scene is a run that a replay judge rates one call at a time with a seed, and the
commands that read it. ``tests/test_golden.py`` compares; ``make golden`` writes the files anew and shows what differs.
"""
