"""What of a model is watched: modules, parameters, buffers, and who moves them."""
