#include "frontend/driver/html.h"

#include "frontend/driver/format.h"
#include "ir/base/str.h"

namespace stator {
namespace {

constexpr const char* kStyle = R"css(
:root { color-scheme: light dark; --paper: #fbfbf9; --ink: #1d2024; --faint: #6b7078; --line: #d9dade;
        --card: #ffffff; --kernel: #2f6fb7; --matmul: #b3541e; --attention: #6d3fa0; --other: #5b7a3a;
        --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16181c; --ink: #e6e7ea; --faint: #9aa0a8; --line: #34383f; --card: #1e2126;
          --kernel: #6aa7ec; --matmul: #ee9558; --attention: #b18ae4; --other: #9cc072; --bad: #ff8a80; }
}
body { margin: 0 auto; max-width: 1180px; padding: 1.5rem; background: var(--paper); color: var(--ink);
       font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p, dl { margin: .3rem 0; } .faint { color: var(--faint); } .bad { color: var(--bad); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; }
dt { color: var(--faint); } dd { margin: 0; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { padding: .25rem .6rem; text-align: left; white-space: nowrap; border-bottom: 1px solid var(--line); }
td { font-family: ui-monospace, monospace; font-size: 12px; }
th { cursor: pointer; user-select: none; position: sticky; top: 0; background: var(--card); }
th[data-up="1"]::after { content: " \25B2"; } th[data-up="0"]::after { content: " \25BC"; }
.n { text-align: right; font-variant-numeric: tabular-nums; }
svg { display: block; } svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg .axis { stroke: var(--line); stroke-width: 1; } svg .faint { fill: var(--faint); }
svg .roof { stroke: var(--ink); stroke-width: 1.5; fill: none; }
.kernel { fill: var(--kernel); } .matmul { fill: var(--matmul); } .attention { fill: var(--attention); }
.other { fill: var(--other); } svg circle { fill-opacity: .7; }
i.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin: 0 .3em 0 1em; }
i.kernel { background: var(--kernel); } i.matmul { background: var(--matmul); }
i.attention { background: var(--attention); } i.other { background: var(--other); }
)css";

constexpr const char* kScript = R"js(
for (const head of document.querySelectorAll('th')) {
  head.addEventListener('click', () => {
    const body = head.closest('table').tBodies[0];
    const column = head.cellIndex;
    const up = head.dataset.up === '0';
    for (const other of head.parentNode.cells) delete other.dataset.up;
    head.dataset.up = up ? '1' : '0';
    const key = (row) => {
      const cell = row.cells[column];
      return 'v' in cell.dataset ? Number(cell.dataset.v) : cell.textContent;
    };
    const rows = [...body.rows].sort((a, b) => {
      const x = key(a), y = key(b);
      const order = typeof x === 'number' ? x - y : x.localeCompare(y);
      return up ? order : -order;
    });
    body.append(...rows);
  });
}
const zoom = document.getElementById('zoom');
if (zoom) {
  zoom.addEventListener('input', () => {
    document.getElementById('timeline').style.width = 100 * 2 ** Number(zoom.value) + '%';
  });
}
)js";

}  // namespace

std::string HtmlText(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

HtmlCell HtmlNumber(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return {text, value, true};
}

HtmlCell HtmlWords(std::string text) { return {std::move(text), 0, false}; }

std::string HtmlTable(const std::vector<std::string>& heads,
                      const std::vector<std::vector<HtmlCell>>& rows) {
  std::string out = "<div class=\"scroll\"><table><thead><tr>";
  for (size_t i = 0; i < heads.size(); ++i) {
    const bool number = !rows.empty() && rows[0][i].number;
    out += StrCat("<th", number ? " class=\"n\"" : "", ">", HtmlText(heads[i]), "</th>");
  }
  out += "</tr></thead><tbody>\n";
  for (const std::vector<HtmlCell>& row : rows) {
    out += "<tr>";
    for (const HtmlCell& cell : row) {
      out += cell.number ? StrCat("<td class=\"n\" data-v=\"", Format("%.9g", cell.value), "\">")
                         : "<td>";
      out += HtmlText(cell.text) + "</td>";
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string HtmlPage(const std::string& title, const std::string& body) {
  return StrCat("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
                "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
                HtmlText(title), "</title>\n<style>", kStyle, "</style>\n</head>\n<body>\n", body,
                "<script>", kScript, "</script>\n</body>\n</html>\n");
}

}  // namespace stator
