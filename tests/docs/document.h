// Fenced blocks of a Markdown document, as tests.
//
//   ```console                  lines `$ command`, each followed by what it prints
//   ```cpp examples/mlp.cc      stands in that file, but for how far it is indented; any language
//   ```text, ```sh, ...         shown only; not for C++
//
// In an output `...` stands for any characters of a line, and as a line of its own for any lines.
// In a piece of a file it is a line of its own and stands for any lines.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace stator::testing {

struct Command {
  std::string text;  // may have several lines, each but the last ending in a backslash
  std::vector<std::string> expected;  // its output, standard error included
  int first_line = 0;                 // of `expected` in the document, counted from 0
};

struct Block {
  std::string document;  // "docs/tour.md"
  int line = 0;          // of the opening fence, counted from 1
  std::string language;  // "console"
  std::string file;      // named by the fence; may be empty
  std::vector<std::string> lines;
  std::vector<Command> commands;  // of a console block
};

inline void PrintTo(const Block& b, std::ostream* out) { *out << b.document << ':' << b.line; }

std::vector<std::string> SplitLines(const std::string& text);
std::string ReadWholeFile(const std::string& path);

// `name` is relative to `folder`.
std::vector<Block> ReadBlocks(const std::string& folder, const std::string& name);

// Whether `actual` is what `expected` describes.
bool Matches(const std::vector<std::string>& expected, const std::vector<std::string>& actual);

// `actual` with the `...` of `expected` kept, in lines that it still describes.
std::vector<std::string> WithWildcards(const std::vector<std::string>& expected,
                                       const std::vector<std::string>& actual);

// Whether the lines stand in `file`, in order and without others between them but where `...` is.
bool Contains(const std::vector<std::string>& file, const std::vector<std::string>& lines);

}  // namespace stator::testing
