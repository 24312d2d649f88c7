"""Export a model as a graph that runs without torch: `export_model` of `exporting`, or `hf-spanner export`."""
