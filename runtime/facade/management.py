"""What NVIDIA's management library (NVML) knows of a device: its load, temperature, power and processes.

It needs the package ``nvidia-ml-py``; simulated devices have no sensors.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ...allocators.errors import CuplugError
from ..machine.default_runtime import runtime_or_default
from ..machine.device import device_index
from ..memory.memory_stats import mem_get_info


def utilization(device: Any = None) -> int:
    """How much of the last moments a kernel ran, in percent (``nvidia-smi``'s "GPU-Util").

    Raises:
        ModuleNotFoundError: the package ``nvidia-ml-py`` is not installed; so do all functions here but
            ``device_memory_used``.
        CuplugError: the device is simulated, or NVML does not answer; likewise.
    """
    library, handle = _of(device)
    return int(_asked(library, "nvmlDeviceGetUtilizationRates", handle).gpu)


def memory_usage(device: Any = None) -> int:
    """How much of the last moments device memory was read or written, in percent."""
    library, handle = _of(device)
    return int(_asked(library, "nvmlDeviceGetUtilizationRates", handle).memory)


def temperature(device: Any = None) -> int:
    """The GPU's temperature, in degrees Celsius."""
    library, handle = _of(device)
    return int(_asked(library, "nvmlDeviceGetTemperature", handle, library.NVML_TEMPERATURE_GPU))


def power_draw(device: Any = None) -> int:
    """The power that the device draws, in milliwatts."""
    library, handle = _of(device)
    return int(_asked(library, "nvmlDeviceGetPowerUsage", handle))


def clock_rate(device: Any = None) -> int:
    """The clock of the multiprocessors, in megahertz."""
    library, handle = _of(device)
    return int(_asked(library, "nvmlDeviceGetClockInfo", handle, library.NVML_CLOCK_SM))


def device_memory_used(device: Any = None) -> int:
    """Bytes of the device's memory that are in use, by whatever process. Needs no NVML.

    Raises:
        CuplugError: there is no device.
    """
    free, total = mem_get_info(device)
    return total - free


def list_gpu_processes(device: Any = None) -> str:
    """The processes that compute on the device, with the memory they use, as text."""
    library, handle = _of(device)
    lines = [f"GPU:{device_index(device, runtime_or_default(None))}"]
    found = _asked(library, "nvmlDeviceGetComputeRunningProcesses", handle)
    if not found:
        lines.append("no processes are running")
    for each in found:
        used = (each.usedGpuMemory or 0) / 2**20
        lines.append(f"process {each.pid:>10d} uses {used:>12.3f} MB GPU memory")
    return "\n".join(lines)


def _of(device: Any) -> tuple[ModuleType, Any]:
    """NVML, and its handle of a device."""
    runtime = runtime_or_default(None)
    ordinal = device_index(device, runtime)
    if runtime.driver.simulator is not None:
        raise CuplugError(f"device {ordinal} is simulated: it has no sensors that NVML could read")
    try:
        import pynvml
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("the package nvidia-ml-py is not installed: pip install nvidia-ml-py") from error
    _asked(pynvml, "nvmlInit")
    return pynvml, _asked(pynvml, "nvmlDeviceGetHandleByUUID", runtime.properties(ordinal).uuid)


def _asked(library: ModuleType, name: str, *arguments: Any) -> Any:
    try:
        return getattr(library, name)(*arguments)
    except library.NVMLError as error:
        raise CuplugError(f"{name} of NVIDIA's management library failed: {error}") from error
