"""One screen a module: the controls of a view, and what it gives."""
