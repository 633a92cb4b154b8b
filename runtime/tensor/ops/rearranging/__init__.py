"""The same elements in another order or several times; diagonals and triangles."""
