"""Programs: one file a command. Each reads arguments, calls the package, and writes. Nothing imports this folder."""
