"""What a run says as tables: those of ``robin export``, a module for each."""
