#!/usr/bin/env bash
# Installs a built Stator into a temporary prefix, then configures, builds and runs the consumer
# against that prefix alone. usage: build_consumer.sh <build folder> <C++ compiler>
set -euo pipefail
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
if grep -rqF "$(cd "$here/../.." && pwd)/" "$work"/prefix/lib*/cmake; then
  echo "the installed package names a path in the source tree:"
  grep -rnF "$(cd "$here/../.." && pwd)/" "$work"/prefix/lib*/cmake
  exit 1
fi
cp "$here/CMakeLists.txt" "$here/main.cc" "$work/"
cmake -G Ninja -S "$work" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_CXX_COMPILER="$2" -DCMAKE_BUILD_TYPE=Release
cmake --build "$work/build"
"$work/build/consumer"
