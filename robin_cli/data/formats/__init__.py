"""Robin's own formats: a module each, with FORMATS by the ends of names, or SCHEMES."""
