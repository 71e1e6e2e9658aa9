"""Settings: each once, the sources of their values, and the hosts that may get a key."""
