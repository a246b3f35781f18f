#!/usr/bin/env bash
# mix.sh SOURCE WORK COMPILER ...: links programs of two units with each compiler and every installed linker. If the
# units use different faces of the library, the linker names the mistake; if they use the same face, the program runs.
# WORK/static and WORK/shared have the installed compiled face.
set -euo pipefail

source_dir=$1 work=$2
here=$source_dir/tests/package
name=tenon_error_header_only_and_compiled_units_are_mixed
folder=$(dirname "$(echo "$work"/shared/lib*/libtenon.so)")
links=0 refused=0

fail() {
  printf 'FAIL: %s\n%s\n' "$1" "$2" >&2
  exit 1
}

# link LABEL ARGUMENT ...: links; sets output and linked.
link() {
  linked=yes
  output=$("${@:2}" -lutf8proc -pthread -o "$objects/program" 2>&1) || linked=no
  links=$((links + 1))
}

expect_refused() {
  link "$@"
  [[ $linked == no ]] || fail "$1: a program of both faces links" "$output"
  [[ $output == *$name* ]] || fail "$1: the linker does not name $name" "$output"
  refused=$((refused + 1))
}

expect_runs() {
  link "$@"
  [[ $linked == yes ]] || fail "$1: a false alarm" "$output"
  "$objects/program" || fail "$1: the program fails" ""
}

# try COMPILER FLAGS LINKER
try() {
  local label="$*" command=("$1" "-fuse-ld=$3") library libtenon
  if [[ $2 == *-flto* ]]; then command+=(-flto -O2); fi
  for library in static shared; do
    libtenon=("$(echo "$work"/static/lib*/libtenon.a)")
    if [[ $library == shared ]]; then libtenon=("-L$folder" -ltenon "-Wl,-rpath,$folder"); fi
    expect_refused "$label $library" "${command[@]}" "$objects/compiled.main.o" "$objects/header_only.part.o" "${libtenon[@]}"
    expect_refused "$label $library" "${command[@]}" "$objects/header_only.main.o" "$objects/compiled.part.o" "${libtenon[@]}"
    expect_runs "$label $library" "${command[@]}" "$objects/compiled.main.o" "$objects/compiled.part.o" "${libtenon[@]}"
  done
  expect_runs "$label" "${command[@]}" "$objects/header_only.main.o" "$objects/header_only.part.o"
  # A shared library that uses the header-only face inside.
  "${command[@]}" -shared "$objects/header_only.part.o" -lutf8proc -o "$objects/libpart.so"
  expect_runs "$label" "${command[@]}" "$objects/header_only.main.o" "-L$objects" -lpart "-Wl,-rpath,$objects"
}

for compiler in "${@:3}"; do
  for flags in -O0 -O2 "-O2 -flto"; do
    objects=$work/mix
    rm -rf "$objects"
    mkdir -p "$objects"
    read -ra words <<<"$flags"
    for face in header_only compiled; do
      for unit in main part; do
        "$compiler" -std=c++20 -fPIC "${words[@]}" "-DTENON_${face^^}" "-D${unit^^}" -I "$source_dir/include" -c "$here/part.cpp" \
          -o "$objects/$face.$unit.o"
      done
    done
    for linker in bfd gold lld mold; do
      command -v "ld.$linker" >/dev/null || continue
      # lld cannot link g++'s LTO, and does not see the types of symbols in clang's.
      if [[ $linker == lld && $flags == *-flto* ]]; then continue; fi
      try "$compiler" "$flags" "$linker"
    done
  done
done
[[ $refused -gt 0 ]] || fail "no linker of bfd, gold, lld and mold was found" ""
echo "$links links, $refused of them refused: $name"
