"""The same elements in other shapes: views, reshaping, resizing."""
