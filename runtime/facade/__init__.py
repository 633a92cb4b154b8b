"""What looks like ``torch.cuda`` beside ``runtime/cuda.py``, and where torch's paths lead."""
