#include "frontend/driver/report.h"

#include "frontend/driver/clock.h"
#include "frontend/driver/file.h"
#include "frontend/driver/json.h"
#include "ir/base/error.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>

namespace stator {
namespace {

int TerminalWidth(FILE* out) {
  winsize size{};
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string Duration(double seconds) {
  const auto s = static_cast<int64_t>(std::lround(seconds));
  return s >= 3600 ? Format("%lldh%02lldm", static_cast<long long>(s / 3600),
                            static_cast<long long>(s / 60 % 60))
                   : Format("%lld:%02lld", static_cast<long long>(s / 60),
                            static_cast<long long>(s % 60));
}

std::string Rate(double tokens_per_second) {
  return tokens_per_second >= 1e6   ? Format("%.2fM", tokens_per_second / 1e6)
         : tokens_per_second >= 1e4 ? Format("%.1fk", tokens_per_second / 1e3)
                                    : Format("%.0f", tokens_per_second);
}

Json Number(double v) { return std::isfinite(v) ? Json(v) : Json(); }  // JSON has no nan

// Keeps the lines of steps up to `last`; a run that was killed has printed more than it saved.
void KeepUpTo(const std::string& path, int64_t last) {
  std::ifstream in(path);
  if (!in) return;
  std::string kept, line;
  while (std::getline(in, line)) {
    try {
      if (JsonInt(ParseJson(line, path), "step", path) <= last) kept += line + "\n";
    } catch (const Error&) {
      break;  // cut off by a crash: nothing after it counts
    }
  }
  WriteFileAtomically(path, kept);
}

}  // namespace

Report::Report(const Options& options) : options_(options) {
  terminal_ = isatty(fileno(options_.out));
  if (options_.log_interval == 0) {
    options_.log_interval = terminal_ ? std::max<int64_t>(1, options_.max_iters / 40) : 1;
  }
  if (options_.metrics_path.empty()) return;
  if (options_.first_step > 0) KeepUpTo(options_.metrics_path, options_.first_step);
  metrics_ = std::fopen(options_.metrics_path.c_str(), "a");
  if (!metrics_) {
    Fail(ErrorCode::kIo, "cannot write ", options_.metrics_path, ": ", std::strerror(errno));
  }
}

Report::~Report() {
  Clear();
  if (metrics_) std::fclose(metrics_);
}

void Report::Clear() {
  if (moving_line_) std::fputs("\r\x1b[K", options_.out);
  moving_line_ = false;
}

void Report::Line(const std::string& text) {
  Clear();
  const bool written =
      std::fprintf(options_.out, "%s\n", text.c_str()) >= 0 && std::fflush(options_.out) == 0;
  if (!written && !terminal_ && failed_ == 0) failed_ = errno;
}

void Report::Header(const char* name, const std::string& text) {
  Line(Format("%-9s ", name) + text);
}

void Report::Step(const StepReport& r) {
  const double seconds = std::max(r.seconds, 1e-9);
  mean_seconds_ = mean_seconds_ == 0 ? seconds : 0.95 * mean_seconds_ + 0.05 * seconds;
  const double rate = static_cast<double>(r.tokens) / seconds;
  const Metrics& m = r.metrics;
  if (r.step % options_.log_interval == 0 || r.step == options_.max_iters || !m.finite) {
    std::string line = Format("step %lld  loss %.6f  norm %.4f  lr %.3e  %.1f ms  %s tokens/s",
                              static_cast<long long>(r.step), m.loss, m.grad_norm, m.learning_rate,
                              seconds * 1e3, Rate(rate).c_str());
    if (options_.peak_flops > 0) {
      line += Format("  MFU %.1f %%", 100 * rate * options_.flops_per_token / options_.peak_flops);
    }
    if (m.loss_scale > 0) line += Format("  scale %g", m.loss_scale);
    Line(line);
  }
  if (metrics_) {
    Record(PrintJson(Json::Object{{"step", r.step},
                                  {"loss", Number(m.loss)},
                                  {"grad_norm", Number(m.grad_norm)},
                                  {"lr", Number(m.learning_rate)},
                                  {"finite", m.finite},
                                  {"loss_scale", Number(m.loss_scale)},
                                  {"ms", Number(seconds * 1e3)},
                                  {"tokens", r.tokens}}));
  }
  if (terminal_) Progress(r, seconds);
}

void Report::Progress(const StepReport& r, double seconds) {
  const double now = Now();
  if (now - last_progress_ < 0.1 && r.step != options_.max_iters) return;
  last_progress_ = now;
  const double share = options_.max_iters > 0
                           ? static_cast<double>(r.step) / static_cast<double>(options_.max_iters)
                           : 1;
  const double left = static_cast<double>(options_.max_iters - r.step) * mean_seconds_;
  const std::string text =
      Format(" %lld/%lld  loss %.4f  %.1f ms  %s left", static_cast<long long>(r.step),
             static_cast<long long>(options_.max_iters), r.metrics.loss, seconds * 1e3,
             Duration(left).c_str());
  const int width = std::min(40, TerminalWidth(options_.out) - static_cast<int>(text.size()) - 3);
  std::string bar;
  if (width > 4) {
    const int full = static_cast<int>(share * width);
    bar = "[" + std::string(full, '#') + std::string(width - full, '.') + "]";
  }
  Clear();
  std::fputs((bar + text).substr(0, TerminalWidth(options_.out) - 1).c_str(), options_.out);
  std::fflush(options_.out);
  moving_line_ = true;
}

void Report::Watched(int64_t step, const WatchedFigures& watched) {
  std::string line = StrCat("step ", step, "  watch ", watched.name, " ", watched.type.ToString());
  Json::Object json = {{"step", step}, {"watch", watched.name}};
  for (const auto& [name, value] : watched.figures) {
    line += Format("  %s %.6g", name.c_str(), value);
    json.emplace_back(name, Number(value));
  }
  Line(line);
  if (metrics_) Record(PrintJson(std::move(json)));
}

void Report::Evaluation(int64_t step, double loss, double bigram) {
  std::string line = Format("step %lld  validation loss %.4f", static_cast<long long>(step), loss);
  if (bigram > 0) line += Format(" nats/byte  (byte-bigram entropy %.4f)", bigram);
  Line(line);
  if (metrics_) Record(PrintJson(Json::Object{{"step", step}, {"val_loss", Number(loss)}}));
}

void Report::RenameMetrics(const std::string& path) {
  if (path == options_.metrics_path) return;
  if (std::rename(options_.metrics_path.c_str(), path.c_str()) != 0) {
    Line(StrCat("cannot rename ", options_.metrics_path, ": ", std::strerror(errno)));
    return;
  }
  options_.metrics_path = path;
}

void Report::Record(const std::string& json_line) {
  // An earlier run's lines stay until this one has something to say.
  const bool fresh = !recorded_ && options_.first_step == 0;
  const bool written = (!fresh || ftruncate(fileno(metrics_), 0) == 0) &&
                       std::fprintf(metrics_, "%s\n", json_line.c_str()) > 0 &&
                       std::fflush(metrics_) == 0;
  recorded_ = true;
  if (written) return;
  // A full disk is no reason to lose what was trained so far.
  Line(StrCat("cannot write ", options_.metrics_path, ": ", std::strerror(errno),
              "; it gets no more lines of this run"));
  std::fclose(metrics_);
  metrics_ = nullptr;
}

}  // namespace stator
