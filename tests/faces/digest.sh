#!/usr/bin/env bash
# digest.sh SOURCE WORK MODEL NAME COMPILER FLAG ...: compiles SOURCE, runs it on MODEL, and compares its output with
# WORK/reference.txt, which NAME `reference` writes. Fingerprints are among the lines: they are equal across compilers.
set -euo pipefail

source=$1 work=$2 model=$3 name=$4 compiler=$5
mkdir -p "$work"
"$compiler" "$source" "${@:6}" -lutf8proc -pthread -o "$work/$name"
"$work/$name" "$model" >"$work/$name.txt"
rm "$work/$name"
if [[ $name == reference ]]; then
  cat "$work/reference.txt"
  exit
fi

if ! diff "$work/reference.txt" "$work/$name.txt"; then
  echo "FAIL: other bits with $compiler ${*:6}" >&2
  exit 1
fi
echo "$(wc -l <"$work/$name.txt") lines are the same"
