"""Pages and drawings for notebooks and files."""
