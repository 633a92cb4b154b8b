"""``python -m cuplug.interop.pycuda [-d DRIVER] [-a ALLOCATOR] PROGRAM [ARGUMENTS]``."""

# By the full name: this file is run as a part of the public name too.
from cuplug.runtime.interop.pycuda.pycuda_program import main

if __name__ == "__main__":
    main()
