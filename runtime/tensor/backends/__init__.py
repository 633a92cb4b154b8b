"""The three kinds of place: ``host`` (NumPy at once), ``sim`` (NumPy as stream operations), ``cuda`` (kernels)."""
