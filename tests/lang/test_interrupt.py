"""Work that is cut into short compiled calls can be interrupted between them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lang_support import HEADER

SCRIPT = HEADER + '''
@function
def spin(x: u64, n: u64) -> u64:
    for i in range(n):
        x = mulhi(x, x * 3 + i) ^ i
    return x


lib = cpu.Library("spin", [spin])
x = lib.spin(1, 1)
print("ready", flush=True)
try:
    while True:
        x = lib.spin(x, 1_000_000)
except KeyboardInterrupt:
    print("interrupted", lib.spin(1, 1) == spin(1, 1), flush=True)
'''


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no POSIX signals")
def test_a_loop_of_calls_can_be_interrupted(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            time.sleep(0.1)
            assert process.poll() is None
            start = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "interrupted True\n"
            assert time.monotonic() - start < 5
            assert process.wait(5) == 0
        finally:
            process.kill()
