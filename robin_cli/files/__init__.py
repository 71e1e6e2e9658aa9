"""Files: local ones in folders that others may write to, files at addresses, compressed files, and outputs."""
