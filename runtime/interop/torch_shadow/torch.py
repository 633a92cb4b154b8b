"""What a process that runs under ``cuplug.as_torch()`` starts finds as ``torch``: it lets cuplug take the name."""

is_shadow_of_torch = True

import cuplug  # noqa: E402

cuplug.as_torch()
