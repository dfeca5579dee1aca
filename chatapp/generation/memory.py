"""How much memory processes take, and how much is free."""

import sys

from chatapp.generation.errors import GenerationError
from chatapp.text.units import size


def peak_memory() -> int:
    """This process's peak resident memory, in bytes."""
    if sys.platform == "win32":
        return int(_counters(ctypes.windll.kernel32.GetCurrentProcess()).peak_working_set)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def available_memory() -> int | None:
    """Bytes that processes can still take without swapping; None if the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:")), None)
    except OSError:
        return None


def check_beams(beams: int, length: int, token_bytes: int) -> None:
    """Raise if the caches of that many beams, of `length` tokens each, do not fit into memory."""
    needed, free = beams * length * token_bytes, available_memory()
    if beams > 1 and free is not None and needed > free:
        raise GenerationError(
            f"{beams} beams of {length:,} tokens need up to {size(needed)} of memory, and {size(free)} "
            "are free; lower num_beams or max_tokens"
        )


def resident_memory(process: int) -> int:
    """The resident memory of another process of this user, in bytes; 0 if it has ended."""
    try:
        return _resident_memory(process)
    except OSError:
        return 0


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    QUERY = 0x0400
    """PROCESS_QUERY_INFORMATION of winnt.h."""

    class _Counters(ctypes.Structure):
        """PROCESS_MEMORY_COUNTERS of psapi.h."""

        _fields_ = [
            ("size", wintypes.DWORD),
            ("page_faults", wintypes.DWORD),
            ("peak_working_set", ctypes.c_size_t),
            ("working_set", ctypes.c_size_t),
            ("rest", ctypes.c_size_t * 6),
        ]

    ctypes.windll.kernel32.GetCurrentProcess.restype = wintypes.HANDLE
    ctypes.windll.kernel32.OpenProcess.restype = wintypes.HANDLE
    ctypes.windll.kernel32.CloseHandle.argtypes = [wintypes.HANDLE]
    ctypes.windll.kernel32.K32GetProcessMemoryInfo.argtypes = [wintypes.HANDLE, ctypes.c_void_p, wintypes.DWORD]

    def _counters(handle: int) -> _Counters:
        counters = _Counters()
        counters.size = ctypes.sizeof(counters)
        if not ctypes.windll.kernel32.K32GetProcessMemoryInfo(handle, ctypes.byref(counters), counters.size):
            raise OSError("Windows does not report a process's memory")
        return counters

    def _resident_memory(process: int) -> int:
        handle = ctypes.windll.kernel32.OpenProcess(QUERY, False, process)
        if not handle:
            raise OSError("there is no such process")
        try:
            return int(_counters(handle).working_set)
        finally:
            ctypes.windll.kernel32.CloseHandle(handle)

elif sys.platform == "darwin":
    import ctypes

    def _resident_memory(process: int) -> int:
        usage = (ctypes.c_uint64 * 64)()  # rusage_info_v0: UUID, six counters, ri_resident_size, ri_phys_footprint, ...
        if ctypes.CDLL(None).proc_pid_rusage(process, 0, ctypes.byref(usage)):
            raise OSError("there is no such process")
        return max(usage[8], usage[9])  # compressed and swapped memory counts too

else:
    import resource

    def _resident_memory(process: int) -> int:
        with open(f"/proc/{process}/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
