"""Robin's own formats: a module each; ``robin_cli.data.registry`` lists them."""
