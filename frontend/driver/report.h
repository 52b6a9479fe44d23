// What a run prints: a header, a line a step, a moving line on a terminal; and metrics.jsonl, which
// keeps every figure to the last bit.
#pragma once

#include "frontend/driver/format.h"
#include "frontend/driver/trainer.h"
#include "frontend/driver/watch.h"

#include <cstdint>
#include <cstdio>
#include <string>

namespace stator {

struct StepReport {
  int64_t step = 0;  // updates so far, this one included
  Metrics metrics;
  double seconds = 0;  // from the end of the update before to the end of this one
  int64_t tokens = 0;  // of the update
};

class Report {
 public:
  struct Options {
    FILE* out = stdout;
    int64_t max_iters = 0;
    int64_t log_interval = 0;  // 0: every update in a file, every tenth part of a run on a terminal
    double flops_per_token = 0;  // with peak_flops: model flops utilization is shown
    double peak_flops = 0;       // per second; 0: not known
    std::string metrics_path;    // "": none
    int64_t first_step = 0;      // a resumed run drops what metrics.jsonl has beyond it
  };
  explicit Report(const Options& options);
  ~Report();
  Report(const Report&) = delete;

  // The errno of the first line that could not be written, 0 while all could. A terminal that is
  // gone is not counted: it says so by SIGHUP, and whoever ignores that wants to go on.
  int failed() const { return failed_; }

  void Line(const std::string& text);  // above the moving line
  void Header(const char* name, const std::string& text);
  void Step(const StepReport& report);
  void Watched(int64_t step, const WatchedFigures& watched);
  // Gives the file of metrics another name, over what is there.
  void RenameMetrics(const std::string& path);
  // `bigram`: nats a byte of the bigram model; 0 when the data is not text.
  void Evaluation(int64_t step, double loss, double bigram);

 private:
  void Clear();
  void Progress(const StepReport& report, double seconds);
  void Record(const std::string& json_line);

  Options options_;
  bool terminal_ = false;
  bool moving_line_ = false;
  int failed_ = 0;
  FILE* metrics_ = nullptr;  // null: none, or given up
  bool recorded_ = false;
  double mean_seconds_ = 0;  // of the updates so far, with the recent ones weighing more
  double last_progress_ = 0;
};

}  // namespace stator
