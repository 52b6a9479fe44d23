// Pieces of self-contained HTML pages: text that cannot break out, tables that sort.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stator {

// With &, <, > and quotes as entities: for text and for attribute values.
std::string HtmlText(std::string_view text);

// A cell of a table: what is shown and what the column is sorted by.
struct HtmlCell {
  std::string text;
  double value = 0;
  bool number = false;
};
HtmlCell HtmlNumber(const char* format, double value);
HtmlCell HtmlWords(std::string text);

// A click on a column's head sorts by it.
std::string HtmlTable(const std::vector<std::string>& heads,
                      const std::vector<std::vector<HtmlCell>>& rows);

// The page around `body`: its style, for light and dark, and the script that sorts. Loads nothing.
std::string HtmlPage(const std::string& title, const std::string& body);

}  // namespace stator
