"""The formats of annotation tools and of other packages, a file for each; `table.py` names them all."""
