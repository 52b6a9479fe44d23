#!/usr/bin/env bash
# Unpacks the cudnn-frontend headers from the PyPI wheel `nvidia-cudnn-frontend`, at the version in
# cudnn_frontend.version, into <cache folder>/cudnn-frontend-<version>/include.
# usage: fetch_cudnn_frontend.sh <cache folder>; does nothing when the headers are already there.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$(head -n 1 "$here/cudnn_frontend.version")
target=$1/cudnn-frontend-$version
[ -e "$target/include/cudnn_frontend.h" ] && exit 0

echo "fetching the cudnn-frontend $version headers from PyPI into $target"
mkdir -p "$1"
work=$(mktemp -d "$1/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
# The headers are the same in every wheel, so ask for one whatever Python runs this.
python3 -m pip download --quiet --retries 1 --disable-pip-version-check --no-deps --only-binary=:all: \
  --python-version 3.12 --implementation cp --abi cp312 \
  --platform "manylinux_2_28_$(uname -m)" --platform "manylinux_2_27_$(uname -m)" \
  --dest "$work" "nvidia-cudnn-frontend==$version"
python3 -m zipfile -e "$work"/nvidia_cudnn_frontend-*.whl "$work/wheel"
header=$(find "$work/wheel" -path '*/include/cudnn_frontend.h' -print -quit)
[ -n "$header" ] || { echo "the wheel holds no include/cudnn_frontend.h" >&2; exit 1; }
mkdir -p "$target"
mv "$(dirname "$header")" "$target/include"
