#!/usr/bin/env python3
"""Checks that a wrong use of the library fails to compile with one readable line.

    check.py FILE PRECOMPILED COMPILER [FLAG ...]

FILE begins with `// expect: <regex>`, and optionally `// flags: <flags for the misuse>`. It must compile as it is,
without a warning; otherwise the misuse could fail for another reason. With TENON_MISUSE defined it must fail with
exactly one line `error: ...` that matches the regex, no warning, and no other message of the library (`tenon: `).
If the compiler's own message is clear, the regex matches that and the library prints nothing.
PRECOMPILED/umbrella.h includes the whole library. Its precompiled form is in the same folder and saves most of the time.
"""
import re
import shlex
import subprocess
import sys


def fail(why, output=""):
    sys.exit(f"FAIL: {why}\n{output}")


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    file, precompiled, compiler, flags = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    with open(file, encoding="utf-8") as f:
        lines = f.read().split("\n")
    expect = re.fullmatch(r"// expect: (.+)", lines[0])
    if not expect:
        fail(f"{file}: the first line is not `// expect: <regex>`")
    extra = re.fullmatch(r"// flags: (.+)", lines[1])
    misuse_flags = shlex.split(extra[1]) if extra else []

    version = subprocess.run([compiler, "--version"], capture_output=True, encoding="utf-8", check=True).stdout
    clang = "clang" in version
    # The source line under a diagnostic would repeat the text of the static_assert.
    no_source_line = "-fno-caret-diagnostics" if clang else "-fno-diagnostics-show-caret"
    command = [compiler, "-std=c++20", "-fsyntax-only", no_source_line, "-fdiagnostics-color=never"]
    first = ""
    if not misuse_flags:  # a precompiled header fits only the same flags
        command += ["-include-pch", f"{precompiled}/umbrella.h.gch"] if clang else []
        first = f'#include "{precompiled}/umbrella.h"\n'

    def compile(define, more):
        source = f'{first}{define}#include "{file}"\n'
        return subprocess.run([*command, *flags, *more, "-x", "c++", "-"], input=source, capture_output=True,
                              encoding="utf-8", errors="replace")

    sound = compile("", [])
    if sound.returncode:
        fail("it does not compile without the misuse either", sound.stderr)
    if sound.stderr:
        fail("it compiles without the misuse, but not in silence", sound.stderr)

    wrong = compile("#define TENON_MISUSE\n", misuse_flags)
    if not wrong.returncode:
        fail("the misuse compiles")
    output = wrong.stderr.split("\n")
    errors = [line for line in output if re.search(r"\berror:", line)]
    warnings = [line for line in output if re.search(r"\bwarning:", line)]
    spoken = [line for line in output if "tenon: " in line]
    if len(errors) != 1:
        fail(f"{len(errors)} errors, 1 expected", wrong.stderr)
    if warnings:
        fail(f"{len(warnings)} warnings beside the error", wrong.stderr)
    if not re.search(expect[1], errors[0]):
        fail(f"the error does not match {expect[1]!r}", wrong.stderr)
    speaks = 1 if expect[1].startswith("tenon: ") else 0
    if len(spoken) != speaks:
        fail(f"{len(spoken)} lines say `tenon: `, {speaks} expected", wrong.stderr)
    print(errors[0])


if __name__ == "__main__":
    main()
