"""Prompt-response pairs out of files."""
