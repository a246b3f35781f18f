#!/usr/bin/env python3
"""check_require.py INCLUDE: every header below INCLUDE/tenon meets core/require.h before any other code of the library.

So a compiler without C++20, or with a flag that is refused, reports one line whichever header comes first. The first
include of the library in each header must be core/require.h, or a header for which the same holds. Files *.inc are
included by headers only.
"""
import pathlib
import re
import sys

REQUIRE = "tenon/core/require.h"
CODE = re.compile(r"^(?!\s*(//|#|$))", re.MULTILINE)


def first_include(text):
    """The first include of the library, or None where code comes before it."""
    text = text.replace("\\\n", " ")
    include = re.search(r'^\s*#\s*include\s+["<](tenon/[^">]+)[">]', text, re.MULTILINE)
    code = CODE.search(text)
    return include[1] if include and (not code or include.start() < code.start()) else None


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    first = {}
    for path in sorted(root.glob("tenon/**/*")):
        if path.suffix in (".h", ".cuh"):
            first[path.relative_to(root).as_posix()] = first_include(path.read_text(encoding="utf-8"))
    if REQUIRE not in first or len(first) < 2:
        sys.exit(f"FAIL: {root} has no {REQUIRE}, or nothing else")
    first.pop("tenon/core/face.h", None)  # a part of core/require.h, which alone includes it
    wrong = []
    for header in first:
        seen, at = set(), header
        while at is not None and at != REQUIRE and at not in seen:
            seen.add(at)
            at = first.get(at)
        if at != REQUIRE:
            wrong.append(header)
    if wrong:
        sys.exit(f"FAIL: these do not include {REQUIRE} before all other code of the library: {', '.join(wrong)}")
    print(f"{len(first)} headers")


if __name__ == "__main__":
    main()
