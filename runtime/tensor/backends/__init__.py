"""The three kinds of place: ``host_place`` (NumPy at once), ``sim_place`` (NumPy as operations of a stream) and
``cuda_place`` (kernels)."""
