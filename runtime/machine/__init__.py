"""The machine: the runtime with its settings, its devices, what is current in a thread, and who owns memory."""
