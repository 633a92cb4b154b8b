"""The machine as the user sees it: devices, streams, events, buffers, copies, kernels and tensors."""
