#!/bin/sh
# server/main.cpp compiles with the cpp-httplib of Debian 13 (0.18), whose package comes from Debian. Status 77: skipped.
#   versions.sh COMPILER ROOT FOLDER
set -eu
compiler=$1 root=$2 folder=$3
skip() {
  echo "skipped: $1"
  exit 77
}
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || skip "no apt-get: this is not Debian"
mkdir -p "$folder/lists/partial" "$folder/archives/partial"
cd "$folder"
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -n 1)
echo "deb ${mirror:-http://deb.debian.org/debian} trixie main" >sources.list
apt() {
  apt-get -qq -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$folder/lists" \
    -o Dir::Cache="$folder" -o APT::Sandbox::User= -o Acquire::http::Timeout=20 -o Acquire::Retries=1 "$@"
}
if ! ls libcpp-httplib-dev_*.deb >/dev/null 2>&1; then
  apt update >apt.log 2>&1 && apt download libcpp-httplib-dev >>apt.log 2>&1 || skip "Debian 13 is not reachable: $(tail -n 1 apt.log)"
fi
dpkg-deb -x libcpp-httplib-dev_*.deb extracted
sed -n 's/^#define CPPHTTPLIB_VERSION /cpp-httplib /p' extracted/usr/include/httplib.h
"$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -DTENON_COMPILED -isystem extracted/usr/include -I "$root/include" "$root/server/main.cpp"
