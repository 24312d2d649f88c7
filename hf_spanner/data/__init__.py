"""Reading data: files, folders and datasets become rows, and what was lost on the way is counted. Never ships."""
