#!/usr/bin/env bash
# consume.sh SOURCE WORK COMPILER WAY [BUILD]: builds and runs a small program against the library in one of the ways
# that docs/getting-started.md names; `install` installs BUILD below WORK/prefix first, for find_package.
set -euo pipefail

source_dir=$1 work=$2 compiler=$3 way=$4
model=$source_dir/examples/models/tales
here=$source_dir/tests/package
mkdir -p "$work"

case $way in
  install)
    rm -rf "$work/prefix"
    cmake --install "$5" --prefix "$work/prefix" >/dev/null
    # Nothing was forgotten, and nothing is there that is not ours.
    diff <(cd "$source_dir/include" && find . -type f -exec cksum {} + | sort) \
      <(cd "$work/prefix/include" && find . -type f -exec cksum {} + | sort)
    ;;
  find_package | add_subdirectory | fetch_content)
    rm -rf "${work:?}/$way"
    cmake -S "$here/$way" -B "$work/$way" -G "Unix Makefiles" -DCMAKE_CXX_COMPILER="$compiler" \
      -DCMAKE_PREFIX_PATH="$work/prefix" -DTENON_CHECKOUT="$source_dir"
    cmake --build "$work/$way"
    "$work/$way/consumer" "$model"
    ;;
  plain)
    # shellcheck disable=SC2046  # flags are words
    "$compiler" -std=c++20 -ffp-contract=off -I "$source_dir/include" "$here/main.cpp" \
      -o "$work/plain" -lutf8proc -pthread
    "$work/plain" "$model"
    ;;
  *)
    echo "consume.sh: no such way: $way" >&2
    exit 2
    ;;
esac
