"""Files: local ones where others may have put something, addresses, compressed ones, and what a user named to be written."""
