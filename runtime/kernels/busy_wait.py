"""A kernel that only waits: what ``cuplug.cuda._sleep`` launches."""

from __future__ import annotations

from ..machine.runtime import Runtime
from .source_module import SourceModule

_SOURCE = """
__global__ void wait_for(long long cycles) {
    long long begin = clock64();
    while (clock64() - begin < cycles) {}
}
"""


def wait_for(runtime: Runtime, cycles: int) -> None:
    """Queue a kernel on the current stream that ends after so many cycles of the device's clock.

    Raises:
        CompileError: there is no compiler.
    """
    module = runtime.shared.get("kernel that waits")
    if module is None:
        module = runtime.shared["kernel that waits"] = SourceModule(_SOURCE, runtime=runtime)
    module.get_function("wait_for")(cycles, block=(1, 1, 1), grid=(1, 1))
