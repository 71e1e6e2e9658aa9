"""``robin plan``: what a budget would buy, before it is spent."""
