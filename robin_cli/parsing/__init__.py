"""Reads ratings and verdicts from the text of judges' answers."""
