"""What a user may set: each setting once, where its value comes from, and which hosts may get which key."""
