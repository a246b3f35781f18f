#!/usr/bin/env python3
"""check_umbrella.py COMPILER [FLAG ...]: tenon/tenon.h includes nothing of chat/, constrain/, lab/ and testing/.

So a program pays for chat templates, constraints, the laboratory and the laws only where it includes them. The compiler lists the headers (-M).
"""
import re
import subprocess
import sys

LEFT_OUT = ("chat", "constrain", "lab", "testing")


def headers(command, header):
    """The headers of the library that `header` includes, as tenon/<path>."""
    run = subprocess.run([*command, "-M", "-x", "c++", "-"], input=f"#include <{header}>\n", capture_output=True, encoding="utf-8")
    if run.returncode:
        sys.exit(f"FAIL: {header} does not compile\n{run.stderr}")
    return set(re.findall(r"include/(tenon/[\w./-]+)", run.stdout))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    found = headers(sys.argv[1:], "tenon/tenon.h")
    if "tenon/engine/engine.h" not in found:
        sys.exit("FAIL: the compiler lists no header of the library")
    wrong = sorted(h for h in found if h.split("/")[1] in LEFT_OUT)
    if wrong:
        sys.exit(f"FAIL: tenon/tenon.h includes {', '.join(wrong)}")
    # The check itself can fail.
    if "tenon/constrain/constraints.h" not in headers(sys.argv[1:], "tenon/constrain/constraints.h"):
        sys.exit("FAIL: the compiler does not list tenon/constrain/constraints.h where it is included")
    print(f"tenon/tenon.h includes {len(found)} headers of the library")


if __name__ == "__main__":
    main()
