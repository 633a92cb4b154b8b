"""What a tensor is: its element type, its device, its layout, its memory."""
