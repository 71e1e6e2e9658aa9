"""The glossary: what a pair, an arm and a judgment are, and what can go wrong. Imports nothing of ours."""
