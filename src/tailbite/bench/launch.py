"""Run one command and report what it took: ``python launch.py REPORT CPUS COMMAND...`` (POSIX).

A process of its own because the peak memory of a command includes that of the process it was started from, and this
one is small: it imports next to nothing.
"""

import os
import sys
import time


def main() -> None:
    report, cpus, *command = sys.argv[1:]
    if cpus and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [int(c) for c in cpus.split(",")])
    began = time.perf_counter()
    pid = os.posix_spawnp(command[0], command, os.environ)
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - began
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    with open(report, "w", encoding="ascii") as f:
        f.write(f"{os.waitstatus_to_exitcode(status)} {wall!r} {usage.ru_utime!r} {usage.ru_stime!r} {peak}")


if __name__ == "__main__":
    main()
