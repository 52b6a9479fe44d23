#include "frontend/driver/watch.h"

#include "frontend/driver/config.h"
#include "ir/base/error.h"

#include <algorithm>

namespace stator {
namespace {

std::vector<std::string> ParseFigures(const std::string& text) {
  const std::vector<std::string> known = FigureNames();
  std::vector<std::string> names = Split(text, ',');
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string& name = names[i];
    if (std::find(names.begin(), names.begin() + static_cast<ptrdiff_t>(i), name) !=
        names.begin() + static_cast<ptrdiff_t>(i)) {
      Fail(ErrorCode::kInvalidArgument, "watch: '", name, "' is named twice in '", text, "'");
    }
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    Fail(ErrorCode::kInvalidArgument, "watch: '", name, "' is not one of ", Join(known, ", "),
         DidYouMean(name, known));
  }
  return names;
}

}  // namespace

Watch::Watch(CompiledModel& compiled, const WatchOptions& options)
    : graphs_(std::move(compiled.graphs)), every_(options.every) {
  if (every_ < 1) Fail(ErrorCode::kInvalidArgument, "every: ", every_, " is less than one update");
  const std::vector<NamedValue> values = NameValues(compiled.values);
  for (const std::string& text : options.patterns) {
    const size_t colon = text.find(':');
    const std::vector<std::string> figures =
        ParseFigures(colon == std::string::npos ? "absmax,rms" : text.substr(colon + 1));
    for (NamedValue& v : FindValues(values, text.substr(0, colon), "watch")) {
      watched_.push_back({std::move(v), figures});
    }
  }
}

Metrics Watch::Step(Trainer& trainer, const std::vector<Feed>& micro_batches,
                    std::vector<WatchedFigures>* out) const {
  std::vector<WatchedFigures> figures(watched_.size());
  const Metrics metrics = trainer.StepObserved(
      micro_batches, [&](const std::string& program, int run, int step, Executor& executor) {
        if (run > 0) return;
        for (size_t i = 0; i < watched_.size(); ++i) {
          const NamedValue& v = watched_[i].value;
          if (v.at.step != step || v.program != program) continue;
          const Type type = v.type();
          const std::vector<char> bytes = v.Read(executor);
          figures[i] = {v.name, type,
                        ComputeFigures(Tensor::FromBytes(type, bytes.data()), watched_[i].figures)};
        }
      });
  *out = std::move(figures);
  return metrics;
}

}  // namespace stator
