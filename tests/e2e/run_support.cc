#include "tests/e2e/run_support.h"

#include "frontend/driver/checkpoint.h"
#include "frontend/driver/file.h"
#include "frontend/driver/json.h"

#include <fstream>
#include <limits>

namespace stator {

std::string SmallText() {
  const std::vector<std::string> subjects = {"the stator", "a rotor", "the old engine", "no one"};
  const std::vector<std::string> verbs = {" stands still while ", " turns because ",
                                          " waits until "};
  std::string text;
  for (size_t i = 0; i < 400; ++i) {
    text += subjects[i * i % 4] + verbs[i % 3] + subjects[(i * 7 + i / 5) % 4] + " goes round.\n";
  }
  return text;
}

TrainConfig SmallConfig(const TempDir& dir, const std::string& out_name) {
  const std::string text = dir / "text.txt";
  WriteFileAtomically(text, SmallText());
  TrainConfig c;
  c.device = "cpu";
  c.data = {text};
  c.n_layer = 1, c.n_head = 2, c.n_embd = 32, c.block_size = 32;
  c.batch_size = 8;
  c.max_iters = 24, c.warmup_iters = 4;
  c.learning_rate = 3e-3, c.min_lr = 3e-4;
  c.eval_iters = 2, c.log_interval = 1000;
  c.sample_tokens = 0;
  c.out_dir = dir / out_name;
  return c;
}

std::vector<Step> ReadSteps(const std::string& out_dir) {
  std::vector<Step> steps;
  std::ifstream in(out_dir + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const Json json = ParseJson(line, out_dir);
    if (!json.Find("loss")) continue;
    const auto number = [&](const char* key) {  // null: not finite
      const double* value = json.Find(key)->As<double>();
      return value ? *value : std::numeric_limits<double>::infinity();
    };
    steps.push_back({number("loss"), number("grad_norm"), number("lr")});
  }
  return steps;
}

std::vector<char> CheckpointFile(const std::string& out_dir, const std::string& name) {
  return ReadFile(FindCheckpoint(out_dir) + "/" + name);
}

}  // namespace stator
