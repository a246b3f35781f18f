"""Runs `tenon check` on a malformed model, with its time and memory."""
import os
import subprocess
import time

import support

SECONDS, MEGABYTES = 2, 64  # as the reference data of malformed checkpoints allows, more than a sound file


def check(path):
    """Exit status, output, seconds, and the largest resident megabytes of `tenon check`."""
    begin = time.monotonic()
    process = subprocess.Popen([support.PROGRAM, "check", "--model", path, "--threads", "1"], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
    output = process.stdout.read().decode("utf-8")
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, output, time.monotonic() - begin, usage.ru_maxrss / 1024
