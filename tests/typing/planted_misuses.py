"""Ten mistakes that type checkers must find, each on a line that says so. Never run."""

import cuplug
import cuplug.cuda

tensor = cuplug.ones(3, device="cuda")
buffer = cuplug.cuda.alloc(1024)
event = cuplug.cuda.Event(enable_timing=True)

cuplug.does_not_exist(1)  # wrong: no such function
cuplug.cuda.memory_alocated()  # wrong: misspelt
tensor.misspelt_method()  # wrong: no such method
buffer.adress  # wrong: misspelt # noqa: B018
cuplug.cuda.alloc("1 GiB")  # wrong: a size is a number
cuplug.cuda.Stream(prio=-1)  # wrong: no such argument
cuplug.cuda.memcpy(buffer)  # wrong: from where?
event.elapsed_time(3.0)  # wrong: not an event
cuplug.init(driver=7)  # wrong: neither a selection nor a driver
cuplug.matmul(tensor)  # wrong: by what?

# And what is right.
with cuplug.cuda.device(0), cuplug.cuda.stream(cuplug.cuda.Stream(priority=-1)):
    cuplug.cuda.memcpy(buffer, bytearray(1024))
    cuplug.cuda.manual_seed(1)
    total = (tensor * 2 + cuplug.exp(tensor)).sum().item()
    legacy = cuplug.cuda.FloatTensor(2, 3)
    runtime: cuplug.Runtime = cuplug.init("caching", driver="sim:devices=2", launch_blocking=True)
    free, whole = cuplug.cuda.mem_get_info()
    kind: cuplug.dtype = cuplug.float32
