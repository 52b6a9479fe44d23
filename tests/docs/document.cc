#include "tests/docs/document.h"

#include "ir/base/error.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

namespace stator::testing {
namespace {

using Lines = std::vector<std::string>;

const std::string kAny = "...";
const std::string kFence = "```";

// "a...c" against "abc".
bool LineMatches(const std::string& pattern, const std::string& line) {
  size_t at = 0, from = 0;
  for (bool first = true;; first = false) {
    const size_t gap = pattern.find(kAny, from);
    const std::string part = pattern.substr(from, gap == pattern.npos ? gap : gap - from);
    const bool last = gap == pattern.npos;
    if (first && last) return part == line;
    if (first) {
      if (!line.starts_with(part)) return false;
      at = part.size();
    } else if (last) {
      return line.size() >= at + part.size() && line.ends_with(part);
    } else {
      const size_t found = line.find(part, at);
      if (found == line.npos) return false;
      at = found + part.size();
    }
    from = gap + kAny.size();
  }
}

bool MatchFrom(const Lines& pattern, size_t p, const Lines& lines, size_t l) {
  for (; p < pattern.size(); ++p, ++l) {
    if (pattern[p] == kAny) {
      for (size_t skip = l; skip <= lines.size(); ++skip) {
        if (MatchFrom(pattern, p + 1, lines, skip)) return true;
      }
      return false;
    }
    if (l == lines.size() || !LineMatches(pattern[p], lines[l])) return false;
  }
  return l == lines.size();
}

// Without the indentation that all lines share.
Lines Unindented(const Lines& lines) {
  size_t common = std::string::npos;
  for (const std::string& line : lines) {
    const size_t indent = line.find_first_not_of(' ');
    if (indent != line.npos) common = std::min(common, indent);
  }
  Lines out;
  for (const std::string& line : lines) {
    out.push_back(line.size() < common ? line : line.substr(common));
  }
  return out;
}

void ReadCommands(Block& block) {
  for (size_t i = 0; i < block.lines.size(); ++i) {
    const std::string& line = block.lines[i];
    if (line.starts_with("$ ")) {
      block.commands.push_back({line.substr(2), {}, 0});
      while (block.lines[i].ends_with("\\") && i + 1 < block.lines.size()) {
        block.commands.back().text += "\n" + block.lines[++i];
      }
      block.commands.back().first_line = block.line + static_cast<int>(i) + 1;
    } else if (block.commands.empty()) {
      Fail(ErrorCode::kParse, block.document, ":", block.line, ": output without a command");
    } else {
      block.commands.back().expected.push_back(line);
    }
  }
}

}  // namespace

Lines SplitLines(const std::string& text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string ReadWholeFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) Fail(ErrorCode::kIo, "cannot read ", path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<Block> ReadBlocks(const std::string& folder, const std::string& name) {
  std::vector<Block> blocks;
  bool inside = false;
  int number = 0;
  for (const std::string& line : SplitLines(ReadWholeFile(folder + "/" + name))) {
    ++number;
    if (!line.starts_with(kFence)) {
      if (inside) blocks.back().lines.push_back(line);
      continue;
    }
    inside = !inside;
    if (!inside) continue;
    Block block{name, number, "", "", {}, {}};
    std::istringstream(line.substr(kFence.size())) >> block.language >> block.file;
    blocks.push_back(block);
  }
  if (inside) Fail(ErrorCode::kParse, name, ":", blocks.back().line, ": the fence is never closed");
  for (Block& block : blocks) {
    if (block.language == "console") ReadCommands(block);
  }
  return blocks;
}

bool Matches(const Lines& expected, const Lines& actual) {
  return MatchFrom(expected, 0, actual, 0);
}

Lines WithWildcards(const Lines& expected, const Lines& actual) {
  if (Matches(expected, actual)) return expected;
  Lines out;
  for (const std::string& line : actual) {
    const auto described =
        std::find_if(expected.begin(), expected.end(), [&](const std::string& e) {
          return e != kAny && e.find(kAny) != e.npos && LineMatches(e, line);
        });
    out.push_back(described == expected.end() ? line : *described);
  }
  return out;
}

bool Contains(const Lines& file, const Lines& lines) {
  auto from = file.begin();
  for (auto begin = lines.begin(); begin != lines.end();) {
    const auto end = std::find(begin, lines.end(), kAny);
    const Lines piece = Unindented(Lines(begin, end));
    const auto size = std::distance(begin, end);
    while (std::distance(from, file.end()) >= size && Unindented(Lines(from, from + size)) != piece)
      ++from;
    if (std::distance(from, file.end()) < size) return false;
    from += size;
    begin = end == lines.end() ? end : end + 1;
  }
  return true;
}

}  // namespace stator::testing
