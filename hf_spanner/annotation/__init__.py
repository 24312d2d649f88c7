"""Help for those who annotate: finding labels that are probably wrong, and choosing what to label next."""
