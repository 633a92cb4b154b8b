"""What tensors can do: functions that call functions."""
