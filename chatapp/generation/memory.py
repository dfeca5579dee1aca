"""How much memory this process has taken."""

import sys


def peak_memory() -> int:
    """The largest resident size of this process so far, in bytes."""
    if sys.platform == "win32":
        return _peak_working_set()
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    class _Counters(ctypes.Structure):
        """PROCESS_MEMORY_COUNTERS of psapi.h."""

        _fields_ = [
            ("size", wintypes.DWORD),
            ("page_faults", wintypes.DWORD),
            ("peak_working_set", ctypes.c_size_t),
            ("rest", ctypes.c_size_t * 7),
        ]

    def _peak_working_set() -> int:
        counters = _Counters()
        counters.size = ctypes.sizeof(counters)
        current = ctypes.windll.kernel32.GetCurrentProcess
        current.restype = wintypes.HANDLE
        query = ctypes.windll.kernel32.K32GetProcessMemoryInfo
        query.argtypes = [wintypes.HANDLE, ctypes.c_void_p, wintypes.DWORD]
        if not query(current(), ctypes.byref(counters), counters.size):
            raise OSError("Windows does not tell this process's peak memory")
        return int(counters.peak_working_set)
