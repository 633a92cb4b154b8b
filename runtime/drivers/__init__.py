"""The seam to hardware: one protocol (``base``), two implementations (``cuda`` on PyCUDA, and ``sim``)."""
