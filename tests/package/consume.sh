#!/usr/bin/env bash
# consume.sh SOURCE WORK COMPILER WAY [ARGUMENT ...]: builds and runs a small program with the library in one of the
# ways that docs/getting-started.md names.
#   install BUILD                 installs BUILD in WORK/prefix, for find_package
#   headers, subproject           install without building anything
#   build_type                    the warnings of a project that sets no build type
#   eigen, compile_once           programs with the headers that `headers` installed
#   compiled LINK WAY             the compiled face: LINK is static or shared; WAY is add_subdirectory, fetch_content or
#                                 find_package. The first call compiles the library and installs it in WORK/LINK
#   pkg_config [LINK]             the header-only face, or the compiled one with LINK
#   both_faces                    CMake refuses a target that links both faces; the compiler refuses the flags of both packages
set -euo pipefail

source_dir=$1 work=$2 compiler=$3 way=$4
model=$source_dir/examples/models/tales
here=$source_dir/tests/package
mkdir -p "$work"

# configure PROJECT BUILD [ARGUMENT ...]
configure() {
  cmake -S "$1" -B "$2" -G "Unix Makefiles" -DCMAKE_CXX_COMPILER="$compiler" "${@:3}"
}

# same_headers PREFIX: the installed headers are exactly those of the source.
same_headers() {
  diff <(cd "$source_dir/include" && find . -type f -exec cksum {} + | sort) \
    <(cd "$1/include" && find . -type f -exec cksum {} + | sort)
}

# expect_warnings NUMBER WAY [ARGUMENT ...]: a fresh configuration of WAY warns NUMBER times about the build type.
expect_warnings() {
  rm -rf "$work/build_type"
  local count
  cmake -S "$here/$2" -B "$work/build_type" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$work/headers" \
    -DTENON_CHECKOUT="$source_dir" "${@:3}" >"$work/build_type.txt" 2>&1 || { cat "$work/build_type.txt"; exit 1; }
  count=$(grep -c "tenon: CMAKE_BUILD_TYPE is not set" "$work/build_type.txt" || true)
  if [[ $count != "$1" ]]; then
    echo "FAIL: $count warnings and not $1: ${*:2}" >&2
    cat "$work/build_type.txt" >&2
    exit 1
  fi
}

# expect_refusal TEXT COMMAND ...: the command fails and prints TEXT.
expect_refusal() {
  local output
  if output=$("${@:2}" 2>&1) || [[ $(tr -s ' \n' '  ' <<<"$output") != *"$1"* ]]; then
    printf 'FAIL: no refusal with "%s": %s\n%s\n' "$1" "${*:2}" "$output" >&2
    exit 1
  fi
  echo "refused: $1"
}

# need_pkg_config: skips the test if pkg-config is not installed.
need_pkg_config() {
  if ! command -v pkg-config >/dev/null; then
    echo "skipped: pkg-config was not found (Debian: pkg-config)"
    exit 77
  fi
}

case $way in
  install)
    rm -rf "$work/prefix"
    cmake --install "$5" --prefix "$work/prefix" >/dev/null
    same_headers "$work/prefix"
    ;;
  headers)
    rm -rf "$work/headers" "$work/headers_build"
    # The option also works in a tree that was configured with the program.
    configure "$source_dir" "$work/headers_build" -DTENON_LIBRARY_ONLY=ON -DTENON_BUILD_PROGRAM=ON -DTENON_BUILD_SERVER=ON
    cmake --install "$work/headers_build" --prefix "$work/headers" >/dev/null
    same_headers "$work/headers"
    [[ ! -e $work/headers/bin ]]
    ;;
  subproject)
    rm -rf "$work/subproject" "$work/subproject_build"
    configure "$here/add_subdirectory" "$work/subproject_build" -DTENON_CHECKOUT="$source_dir" -DTENON_INSTALL=ON
    cmake --install "$work/subproject_build" --prefix "$work/subproject" >/dev/null
    same_headers "$work/subproject"
    [[ ! -e $work/subproject/bin ]]
    ;;
  build_type)
    for project in find_package add_subdirectory fetch_content; do
      expect_warnings 1 $project -G "Unix Makefiles"
      expect_warnings 0 $project -G "Unix Makefiles" -DCMAKE_BUILD_TYPE=Debug
      expect_warnings 0 $project -G "Unix Makefiles" -DCMAKE_CXX_FLAGS="-g -O1"
      if command -v ninja >/dev/null; then expect_warnings 0 $project -G "Ninja Multi-Config"; fi
    done
    ;;
  find_package | add_subdirectory | fetch_content)
    rm -rf "${work:?}/$way"
    configure "$here/$way" "$work/$way" -DCMAKE_PREFIX_PATH="$work/prefix" -DTENON_CHECKOUT="$source_dir"
    cmake --build "$work/$way"
    "$work/$way/consumer" "$model"
    ;;
  eigen)
    rm -rf "$work/eigen"
    configure "$here/eigen" "$work/eigen" -DCMAKE_PREFIX_PATH="$work/headers" -DCMAKE_BUILD_TYPE=Release "${@:5}"
    cmake --build "$work/eigen"
    "$work/eigen/consumer"
    ;;
  compile_once)
    # The example of getting-started with installed headers: its main unit includes no part of an engine.
    flags=(-std=c++20 -O1 -I "$work/headers/include" -I "$source_dir/examples")
    main=$source_dir/examples/29_compile_once.cpp
    parts=$("$compiler" "${flags[@]}" -MM "$main" | grep -E "tenon/(tenon|engine/engine|model/decoder)\.h|tenon/(ops/cpu|weights)/" || true)
    if [[ -n $parts ]]; then
      echo "FAIL: $main includes $parts" >&2
      exit 1
    fi
    "$compiler" "${flags[@]}" "$main" "${main%.cpp}/engine.cpp" -o "$work/compile_once" -lutf8proc -pthread
    "$work/compile_once" --model "$model"
    ;;
  compiled)
    link=$5 consumer=$6 tree=$work/compiled_build
    shared=OFF
    if [[ $link == shared ]]; then shared=ON; fi
    arguments=(-DTENON_WAY="$consumer" -DTENON_CHECKOUT="$source_dir" -DBUILD_SHARED_LIBS="$shared")
    if [[ $consumer == find_package ]]; then
      tree=$work/compiled_$link
      rm -rf "$tree"
      arguments+=(-DCMAKE_PREFIX_PATH="$work/$link")
    fi
    # One tree for all tests that compile the library: neither the way nor the kind of library changes an object.
    configure "$here/compiled" "$tree" -DTENON_INSTALL=ON -DTENON_COMPILED_FACE=ON "${arguments[@]}"
    cmake --build "$tree" --parallel 2
    "$tree/consumer" "$model"
    "$tree/constrained" "$model"
    "$tree/chat"
    if [[ $consumer == add_subdirectory ]]; then
      rm -rf "${work:?}/$link"
      cmake --install "$tree" --prefix "$work/$link" >/dev/null
      same_headers "$work/$link"
      [[ ! -e $work/$link/bin ]]
      for library in libtenon libtenon_constrain libtenon_chat; do
        if [[ $link == static ]]; then ls "$work"/static/lib*/$library.a; else ls "$work"/shared/lib*/$library.so; fi
      done
    fi
    ;;
  pkg_config)
    need_pkg_config
    link=${5:-headers} package=tenon-compiled
    if [[ $link == headers ]]; then package=tenon; fi
    # The prefix is given to `cmake --install` only, and the installed tree is moved afterwards.
    rm -rf "$work/moved_$link"
    cp -a "$work/$link" "$work/moved_$link"
    folder=$(dirname "$(find "$work/moved_$link" -name $package.pc)")
    export PKG_CONFIG_PATH=$folder
    read -ra flags <<<"$(pkg-config --cflags --libs $package)"
    if [[ $link == shared ]]; then flags+=("-Wl,-rpath,$(pkg-config --variable=libdir $package)"); fi
    pkg-config --exact-version="$(sed -n 's/.*kVersion.*"\(.*\)".*/\1/p' "$work/moved_$link/include/tenon/version.h")" $package
    "$compiler" -std=c++20 "$here/main.cpp" -o "$work/pkg_config_$link" "${flags[@]}"
    "$work/pkg_config_$link" "$model"
    if [[ $link != headers ]]; then
      read -ra flags <<<"$(pkg-config --cflags --libs tenon-constrain)"
      flags+=("-Wl,-rpath,$(pkg-config --variable=libdir tenon-constrain)")
      "$compiler" -std=c++20 "$here/constrained.cpp" -o "$work/pkg_config_$link" "${flags[@]}"
      "$work/pkg_config_$link" "$model"
      read -ra flags <<<"$(pkg-config --cflags --libs tenon-chat)"
      flags+=("-Wl,-rpath,$(pkg-config --variable=libdir tenon-chat)")
      "$compiler" -std=c++20 "$here/chat.cpp" -o "$work/pkg_config_$link" "${flags[@]}"
      "$work/pkg_config_$link"
    fi
    ;;
  both_faces)
    for how in direct by_a_library by_constraints; do
      rm -rf "$work/both_faces"
      expect_refusal "INTERFACE_TENON_FACE property of \"tenon::" \
        configure "$here/both_faces" "$work/both_faces" -DCMAKE_PREFIX_PATH="$work/static" -DHOW=$how -DCMAKE_BUILD_TYPE=Debug
    done
    need_pkg_config
    PKG_CONFIG_PATH=$(find "$work/static" -name "tenon*.pc" -printf "%h:")
    export PKG_CONFIG_PATH
    read -ra flags <<<"$(pkg-config --cflags tenon tenon-compiled)"
    expect_refusal "tenon: one target links tenon::tenon and tenon::compiled; link one of them" \
      "$compiler" -std=c++20 -fsyntax-only "$here/main.cpp" "${flags[@]}"
    ;;
  plain)
    # shellcheck disable=SC2046  # flags are words
    "$compiler" -std=c++20 -I "$source_dir/include" "$here/main.cpp" \
      -o "$work/plain" -lutf8proc -pthread
    "$work/plain" "$model"
    ;;
  *)
    echo "consume.sh: no such way: $way" >&2
    exit 2
    ;;
esac
