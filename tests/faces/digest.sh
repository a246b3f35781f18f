#!/usr/bin/env bash
# digest.sh SOURCE WORK MODEL NAME COMPILER FLAG ...: compiles SOURCE, runs it on MODEL, and compares its output with
# WORK/reference.txt, which NAME `reference` writes. Fingerprints contain type names in the compiler's spelling, so
# those of another compiler are not compared.
set -euo pipefail

source=$1 work=$2 model=$3 name=$4 compiler=$5
mkdir -p "$work"
"$compiler" "$source" "${@:6}" -lutf8proc -pthread -o "$work/$name"
"$work/$name" "$model" >"$work/$name.txt"
rm "$work/$name"
"$compiler" --version | head -1 >"$work/$name.compiler"
if [[ $name == reference ]]; then
  cat "$work/reference.txt"
  exit
fi

# bits NAME
bits() {
  if cmp -s "$work/$name.compiler" "$work/reference.compiler"; then
    cat "$work/$1.txt"
  else
    grep -v " fingerprint " "$work/$1.txt"
  fi
}
if ! diff <(bits reference) <(bits "$name"); then
  echo "FAIL: other bits with $compiler ${*:6}" >&2
  exit 1
fi
echo "$(bits "$name" | wc -l) lines are the same"
