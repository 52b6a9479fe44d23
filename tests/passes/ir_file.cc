#include "tests/passes/ir_file.h"

#include "ir/base/error.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace stator::testing {
namespace {

std::vector<std::string> ReadLines(const std::string& file) {
  std::ifstream in(file);
  if (!in) Fail(ErrorCode::kIo, "cannot read ", file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The text after `// keyword`, trimmed; nullopt when the line is something else.
std::optional<std::string> After(const std::string& line, const std::string& keyword) {
  const std::string start = "// " + keyword;
  if (!line.starts_with(start)) return std::nullopt;
  return std::string(Trim(std::string_view(line).substr(start.size())));
}

std::vector<std::string> Words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string w; in >> w;) words.push_back(w);
  return words;
}

std::vector<std::string> PassNames(const std::string& text) {
  std::vector<std::string> names;
  for (const std::string& part : Split(text, ',')) names.emplace_back(Trim(part));
  return names;
}

// A graph's text from line `at` to its closing brace; `at` ends behind it.
std::string TakeGraph(const std::vector<std::string>& lines, size_t& at) {
  std::string text;
  while (at < lines.size()) {
    const std::string& line = lines[at++];
    text += line + "\n";
    if (line == "}") break;
  }
  return text;
}

std::vector<IrCase> ReadIrFile(const std::string& file) {
  const std::vector<std::string> lines = ReadLines(file);
  std::vector<IrCase> cases;
  std::vector<std::string> passes, options;
  for (size_t at = 0; at < lines.size();) {
    const std::string& line = lines[at];
    if (const auto run = After(line, "RUN:")) {
      (cases.empty() ? passes : cases.back().passes) = PassNames(*run);
    } else if (const auto more = After(line, "OPTIONS:")) {
      auto& to = cases.empty() ? options : cases.back().options;
      for (const std::string& w : Words(*more)) to.push_back(w);
    } else if (const auto name = After(line, "CASE ")) {
      IrCase& c = cases.emplace_back();
      c.file = file;
      c.name = *name;
      c.line = static_cast<int>(at) + 1;
      c.passes = passes;
      c.options = options;
    } else if (const auto expect = After(line, "EXPECT")) {
      if (cases.empty()) Fail(ErrorCode::kParse, file, ":", at + 1, ": EXPECT before CASE");
      IrCase& c = cases.back();
      c.expect = *expect;
      c.expect_line = static_cast<int>(at);
      ++at;
      c.expected_begin = static_cast<int>(at);
      if (expect->empty() && at < lines.size() && lines[at].starts_with("graph")) {
        c.expected_text = TakeGraph(lines, at);
      }
      c.expected_end = static_cast<int>(at);
      continue;
    } else if (line.starts_with("graph")) {
      if (cases.empty()) Fail(ErrorCode::kParse, file, ":", at + 1, ": graph before CASE");
      cases.back().input = TakeGraph(lines, at);
      continue;
    }
    ++at;
  }
  for (const IrCase& c : cases) {
    if (c.expect_line == 0) Fail(ErrorCode::kParse, file, ":", c.line, ": no EXPECT");
  }
  return cases;
}

// A GPU whose library takes no attention at all, or any with 25 MiB of scratch a query head.
class TestTarget : public Target {
 public:
  TestTarget(bool attention, int sm) : attention_(attention), sm_(sm) {}
  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string name() const override { return "test"; }
  int sm() const override { return sm_; }
  int64_t memory_bytes() const override { return 0; }
  double peak_flops(DType) const override { return 0; }
  double bandwidth() const override { return 0; }
  bool SupportsAttention(const AttentionQuery&, std::string* why) const override {
    if (!attention_) *why = "a test target";
    return attention_;
  }
  int64_t AttentionWorkspace(const AttentionQuery& query) const override {
    return query.batch * query.heads * (int64_t{25} << 20);
  }

 private:
  bool attention_;
  int sm_;
};

Value Decayed(Builder& b, const ParameterUpdate& u) {
  if (u.weight_decay == 0) return u.gradient;
  return b.Add(u.gradient, b.Mul(u.parameter, u.weight_decay));
}

Value SgdUpdate(Builder& b, const ParameterUpdate& u) {
  return b.Sub(u.parameter, b.Mul(Decayed(b, u), u.learning_rate));
}

// SGD with momentum: enough of a moment for tests.
Value MomentumUpdate(Builder& b, const ParameterUpdate& u) {
  const Value m =
      b.graph().AddState(u.name + ".m", u.parameter.type(), {{"role", std::string("moment")}});
  const Value next = b.Add(b.Mul(m, 0.5), Decayed(b, u));
  b.graph().SetNextState(m, next);
  return b.Sub(u.parameter, b.Mul(next, u.learning_rate));
}

}  // namespace

std::vector<IrCase> ReadIrFiles(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".ir") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  std::vector<IrCase> cases;
  for (const std::string& file : files) {
    for (IrCase& c : ReadIrFile(file)) cases.push_back(std::move(c));
  }
  return cases;
}

void ParseOptions(const std::vector<std::string>& options, CaseOptions& to) {
  to.optimizer.schedule = [](Builder& b, Value) { return b.Constant(0.125, DType::kF32); };
  for (const std::string& option : options) {
    const size_t equals = option.find('=');
    const std::string key = option.substr(0, equals);
    const std::string value = equals == option.npos ? "" : option.substr(equals + 1);
    if (key == "compute_dtype") {
      to.pass.compute_dtype = ParseDType(value).value();
    } else if (key == "micro_batches") {
      to.pass.micro_batches = std::stoi(value);
    } else if (key == "recompute_bytes") {
      to.pass.recompute_bytes = std::stoll(value);
    } else if (key == "fuse") {
      to.pass.fuse = value == "true";
    } else if (key == "fast") {
      to.pass.fast = value == "true";
    } else if (key == "numerics") {
      to.pass.numerics = value == "strict" ? Numerics::kStrict : Numerics::kDefault;
    } else if (key == "own_matmul") {
      to.pass.own_matmul = value == "never"    ? OwnMatmul::kNever
                           : value == "faster" ? OwnMatmul::kWhereFaster
                                               : OwnMatmul::kWherePossible;
    } else if (key == "keep_f32") {
      to.pass.keep_f32 = Split(value, '|');
    } else if (key == "target") {
      to.target =
          std::make_unique<TestTarget>(value == "cuda-attention", value == "hopper" ? 90 : 80);
      to.pass.target = to.target.get();
    } else if (key == "optimizer") {
      to.optimizer.update = value == "momentum" ? MomentumUpdate : SgdUpdate;
      to.pass.optimizer = &to.optimizer;
    } else if (key == "clip_norm") {
      to.optimizer.clip_norm = std::stod(value);
    } else if (key == "weight_decay") {
      const double decay = std::stod(value);
      to.optimizer.weight_decay = [decay](const std::string&, const Type&) { return decay; };
    } else if (key == "skip_non_finite") {
      to.optimizer.skip_non_finite = value == "true";
    } else {
      Fail(ErrorCode::kInvalidArgument, "unknown option ", option);
    }
  }
}

void UpdateIrFile(const std::string& file,
                  const std::vector<std::pair<IrCase, std::string>>& actual) {
  std::vector<std::string> lines = ReadLines(file);
  for (auto it = actual.rbegin(); it != actual.rend(); ++it) {  // last first: line numbers hold
    const IrCase& c = it->first;
    lines.erase(lines.begin() + c.expected_begin, lines.begin() + c.expected_end);
    std::string heading = "// EXPECT";
    std::vector<std::string> text;
    if (it->second.starts_with("graph")) {
      text = Split(it->second, '\n');
      text.pop_back();
    } else {
      heading += " " + it->second;
    }
    lines[c.expect_line] = heading;
    lines.insert(lines.begin() + c.expected_begin, text.begin(), text.end());
  }
  std::ofstream out(file);
  for (const std::string& line : lines) out << line << "\n";
}

}  // namespace stator::testing
