"""What pytest finds of robin, by its entry points."""
