#!/usr/bin/env bash
# Which folder may include which: reads every #include in the tree and prints those that the table
# below forbids, one a line as file:line. Exit status 1 when there is one.
# usage: check_layers.sh [root of the tree]
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}"

# First column: files; second: the project headers they may include. Both are extended regular
# expressions over paths from the root. The first row that matches a file counts. What the runtime may
# include has rows of its own, so that it cannot see a graph through another header.
layers='
^ir/base/                     ^ir/base/
^ir/(dtype|type|target|space|reduce_tree|philox)[.]h   ^ir/base/|^ir/(dtype|type|target)[.]h$
^ir/                          ^ir/
^passes/                      ^(passes|ir)/
^codegen/plan(_[^/]*)?[.]     ^codegen/plan(_[^/]*)?[.]h$|^ir/base/|^ir/(dtype|type|target|space)[.]h$
^codegen/                     ^(codegen|ir)/
^runtime/                     ^runtime/|^codegen/plan(_[^/]*)?[.]h$|^ir/base/|^ir/(dtype|target|reduce_tree|philox)[.]h$
^frontend/dsl/                ^(frontend/dsl|ir)/
^frontend/(driver|cli)/       ^(frontend|runtime|codegen|passes|ir)/
'
# Headers of the device's and the communicators' libraries, and the only places that may see them.
device_headers='^(cuda|cuda_[a-z0-9_]*|cuda[A-Z][A-Za-z]*|cudart[a-z_]*|cublas[A-Za-z0-9_]*|cudnn[a-z0-9_]*|nvrtc|nccl|nvml|cupti[a-z_]*|mpi|nvtx3/.*)[.](h|hpp)$|^(cuda|nvtx3)/'
device_places='^runtime/(cuda|comm)/'

folders=()
for folder in ir passes codegen runtime frontend; do
  [ -d $folder ] && folders+=($folder)
done
find "${folders[@]}" -type f \( -name '*.h' -o -name '*.cc' -o -name '*.inc' \) | LC_ALL=C sort |
  LAYERS=$layers DEVICE_HEADERS=$device_headers DEVICE_PLACES=$device_places awk '
    BEGIN {
      rows = split(ENVIRON["LAYERS"], lines, "\n")
      for (i = 1; i <= rows; i++)
        if (split(lines[i], column, " ") == 2) { ++n; files[n] = column[1]; allowed[n] = column[2] }
    }

    function Report(file, line, text, why) {
      printf "%s:%d: %s (%s)\n", file, line, text, why
      bad = 1
    }

    function Check(file, line, text,   header, quoted, i) {
      quoted = text ~ /"/
      header = text
      sub(/^[ \t]*#[ \t]*include[ \t]*["<]/, "", header)
      sub(/[">].*$/, "", header)
      if (header ~ ENVIRON["DEVICE_HEADERS"]) {
        if (file !~ ENVIRON["DEVICE_PLACES"])
          Report(file, line, text, "device libraries are for runtime/cuda and runtime/comm alone")
        return
      }
      if (!quoted && header !~ /^(ir|passes|codegen|runtime|frontend|tests|bench)\//) return
      for (i = 1; i <= n; i++) {
        if (file !~ files[i]) continue
        if (header !~ allowed[i]) Report(file, line, text, "may include " allowed[i])
        return
      }
      Report(file, line, text, "no row of the layer table covers this file")
    }

    # Lines inside a raw string (a generated kernel, say) include nothing.
    {
      file = $0; line = 0; closing = ""
      while ((getline text < file) > 0) {
        ++line
        if (closing == "" && text ~ /^[ \t]*#[ \t]*include[ \t]*["<]/) Check(file, line, text)
        rest = text
        while (rest != "") {
          if (closing != "") {
            at = index(rest, closing)
            if (!at) break
            rest = substr(rest, at + length(closing))
            closing = ""
          }
          if (!match(rest, /(^|[^A-Za-z0-9_])R"[^ ()\\]*\(/)) break
          closing = substr(rest, RSTART, RLENGTH)
          sub(/^.*R"/, "", closing)
          sub(/\($/, "", closing)
          closing = ")" closing "\""
          rest = substr(rest, RSTART + RLENGTH)
        }
      }
      close(file)
      ++checked
    }
    END {
      if (!bad) printf "layers: %d files, no forbidden include\n", checked
      exit bad
    }'
