"""The run directory: answers that are on disk before they count, and what is read back from them."""
