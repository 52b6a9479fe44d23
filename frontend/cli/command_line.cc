#include "frontend/cli/command_line.h"

#include "frontend/cli/version.h"
#include "ir/base/str.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <sstream>

namespace stator {
namespace {

constexpr int kBadUsage = 2;

const char* GroupTitle(ConfigGroup group) {
  switch (group) {
    case ConfigGroup::kModel:
      return "Model";
    case ConfigGroup::kData:
      return "Data";
    case ConfigGroup::kOptimization:
      return "Optimization";
    case ConfigGroup::kDevice:
      return "Device and compiler";
    case ConfigGroup::kRun:
      return "Run";
    case ConfigGroup::kSample:
      return "Sample";
  }
  return "";
}

// "--n-layer=4" as "--n_layer=4": both spellings of a key are fine.
std::string Underscored(const std::string& argument) {
  if (!argument.starts_with("--")) return argument;
  const size_t end = std::min(argument.find('='), argument.size());
  std::string name = argument.substr(2, end - 2);
  std::replace(name.begin(), name.end(), '-', '_');
  return FindConfigKey(name) ? StrCat("--", name, argument.substr(end)) : argument;
}

std::string HelpText(const ConfigKey& key) {
  std::string text(key.help);
  if (!key.choices.empty()) text += StrCat(" (", key.choices, ")");
  const std::string value = ConfigText(TrainConfig(), key);
  if (value == "true") return StrCat(text, " [true; --", key.name, "=false turns it off]");
  if (value.find('\n') == std::string::npos && !value.empty()) text += StrCat(" [", value, "]");
  return text;
}

constexpr int64_t kMostUpdates = 1'000'000'000'000;

// An integer from `least` to kMostUpdates. CLI11's own checks go through doubles, and its
// conversion takes what is too large as the largest integer.
CLI::Validator Between(int64_t least) {
  const auto check = [least](const std::string& text) -> std::string {
    int64_t v = 0;
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, v);
    if (error == std::errc() && at == end && v >= least && v <= kMostUpdates) return "";
    return StrCat("'", text, "' is not an integer from ", least, " to ", kMostUpdates);
  };
  return CLI::Validator(check, "INTEGER");
}

// Without a text these options would read as not given.
const CLI::Validator& NotEmpty() {
  static const CLI::Validator validator(
      [](const std::string& text) -> std::string { return text.empty() ? "it is empty" : ""; }, "");
  return validator;
}

// Every configuration key as a flag of `app`; values land in `flags`, in the order of the command
// line.
void AddConfigFlags(CLI::App& app, std::vector<ConfigSources::Flag>& flags) {
  for (const ConfigKey& key : ConfigKeys()) {
    const std::string name(key.name);
    const auto store = [&flags, name](const std::vector<std::string>& values) {
      flags.push_back({name, values});
      return true;
    };
    CLI::Option* option = app.add_option("--" + name, store, HelpText(key));
    const bool list = std::holds_alternative<StringList TrainConfig::*>(key.field);
    if (list) {
      option->type_name(key.group == ConfigGroup::kData ? "FILE..." : "TEXT...");
      option->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args();
    } else {
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
      if (std::holds_alternative<bool TrainConfig::*>(key.field)) {
        option->expected(0);  // "true" where it is given without a value
      } else {
        option->type_name(std::holds_alternative<std::string TrainConfig::*>(key.field) ? "TEXT"
                                                                                        : "NUMBER");
      }
    }
    option->group(GroupTitle(key.group));
  }
}

CLI::App& AddConfigCommand(CLI::App& app, const char* name, const char* help, CommandLine& out) {
  CLI::App& command = *app.add_subcommand(name, help);
  command.add_option("config", out.config.toml, "TOML file of the keys below")
      ->type_name("CONFIG")
      ->check(NotEmpty());
  AddConfigFlags(command, out.config.flags);
  command.allow_extras();
  return command;
}

void AddProfileCommand(CLI::App& app, CommandLine& out) {
  CLI::App& profile = AddConfigCommand(
      app, "profile", "time every step of an update against what the device can do", out);
  ProfileOptions& o = out.profile;
  profile
      .add_option("--compare", o.compare,
                  "variants to time, the first one in full: fused,unfused [what --fuse says]")
      ->delimiter(',')
      ->expected(1)
      ->take_all()
      ->check(CLI::IsMember({"fused", "unfused"}));
  profile.add_option("--steps", o.steps, "updates to time [20]")->check(Between(1));
  profile.add_option("--warmup", o.warmup, "updates to run before [3]")->check(Between(0));
  profile.add_option("--html", o.html, "write a page with roofline, timeline and tables")
      ->check(NotEmpty());
  profile
      .add_option("--trace", o.trace,
                  "write one update as a trace for Perfetto or chrome://tracing")
      ->check(NotEmpty());
  profile.add_option("--json", o.json, "write every figure")->check(NotEmpty());
}

// "--memory=" would take the next argument, and "--bias=" would be true; "={}" is CLI11's way to
// write an empty value, and so the same.
std::string WithoutValue(const std::vector<std::string>& arguments) {
  for (const std::string& a : arguments) {
    if (!a.starts_with("--")) continue;
    const std::string value = a.substr(std::min(a.find('='), a.size()));
    if (value == "=" || value == "={}") return StrCat("'", a, "' names no value");
  }
  return "";
}

// `--bias false` would be true, with "false" as the configuration's file. `arguments`: the last one
// first.
std::string WordAfterFlag(const std::vector<std::string>& arguments) {
  for (size_t i = arguments.size(); i-- > 1;) {
    const std::string &flag = arguments[i], &word = arguments[i - 1];
    const ConfigKey* key = flag.starts_with("--") ? FindConfigKey(flag.substr(2)) : nullptr;
    if (key == nullptr || !std::holds_alternative<bool TrainConfig::*>(key->field)) continue;
    if (ParseBool(word)) return StrCat("'", flag, " ", word, "': write ", flag, "=", word);
  }
  return "";
}

// What is left over of the command line, with the flag that was perhaps meant.
std::string Unexpected(const CLI::App& command) {
  const std::vector<std::string> rest = command.remaining();
  if (rest.empty()) return "";
  std::string word = rest[0];
  if (!word.starts_with("--")) return StrCat("unexpected argument '", word, "'");
  word = word.substr(2, word.find('=') - 2);
  for (char& c : word) {
    if (c == '-') c = '_';
  }
  std::vector<std::string> known;
  for (const ConfigKey& key : ConfigKeys()) known.emplace_back(key.name);
  return StrCat("unknown flag '", rest[0], "'", DidYouMean(word, known));
}

// A plan file is shown as it is: a key beside it would have no effect.
std::string BesideLoad(const CommandLine& line) {
  if (line.load.empty() || (line.config.toml.empty() && line.config.flags.empty())) return "";
  const std::string& toml = line.config.toml;
  return StrCat(toml.empty() ? "--" + line.config.flags[0].key : toml,
                " says what to compile, and --load describes a plan that is there already");
}

}  // namespace

CommandLine ParseCommandLine(int argc, const char* const* argv) {
  CommandLine out;
  const std::vector<std::string> commands = {"train",   "sample", "plan", "check",
                                             "profile", "probe",  "tune", "doctor"};
  if (argc < 2) {
    out.text =
        StrCat("stator: a command is missing: ", Join(commands, ", "), "\ntry 'stator --help'\n");
    out.exit_code = kBadUsage;
    return out;
  }
  if (argv[1][0] != '-' && std::find(commands.begin(), commands.end(), argv[1]) == commands.end()) {
    out.text = StrCat("stator: unknown command '", argv[1], "'", DidYouMean(argv[1], commands),
                      "\ntry 'stator --help'\n");
    out.exit_code = kBadUsage;
    return out;
  }
  CLI::App app("Compiles a neural network's training step and runs it.", "stator");
  app.set_version_flag("--version", VersionText());
  app.require_subcommand(1);
  CLI::App& train = AddConfigCommand(app, "train", "train a language model on text", out);
  train
      .add_option(
          "--watch", out.watch.patterns,
          "values inside the step and their figures: 'h.*/attn:absmax,rms'; may stand again")
      ->expected(1)
      ->take_all()
      ->type_name("PATTERN")
      ->check(NotEmpty());
  train
      .add_option("--every", out.watch.every,
                  "updates from one look at the watched values to the next [100]")
      ->check(Between(1))
      ->needs(train.get_option("--watch"));
  AddConfigCommand(app, "sample", "print text drawn from the model in out_dir", out);
  CLI::App& plan = AddConfigCommand(app, "plan", "compile, and say what the plan holds", out);
  plan.add_option("--gpu", out.gpu,
                  "plan for a GPU that is not here, by name: h200; an unknown name lists all")
      ->check(NotEmpty())
      ->excludes(plan.get_option("--device"));
  plan.add_option("-o,--output", out.output, "write the plan to a file")->check(NotEmpty());
  plan.add_option("--dump", out.dump, "write every program's text after every pass to a folder")
      ->check(NotEmpty());
  plan.add_option("--load", out.load, "describe a plan file instead of compiling")
      ->check(NotEmpty())
      ->excludes(plan.get_option("--gpu"), plan.get_option("--output"), plan.get_option("--dump"));
  plan.add_flag("--steps", out.steps, "list every step");
  CLI::App& check = AddConfigCommand(
      app, "check", "compare fused, unfused and interpreted updates, value by value", out);
  check.add_option("--steps", out.check.steps, "updates to compare [3]")->check(Between(0));
  check.add_option("--after", out.check.after, "updates to run before [0]")->check(Between(0));
  check
      .add_option("--reference", out.check.reference,
                  "ask the interpreter: auto (where it is quick), yes, no")
      ->check(CLI::IsMember({"auto", "yes", "no"}));
  AddProfileCommand(app, out);
  CLI::App& probe = AddConfigCommand(app, "probe", "look at a value inside an update", out);
  probe
      .add_option("--tensor", out.probe.tensor,
                  "its name or a pattern: h.3/attn, 'backward/h.*/mlp/up/matmul'")
      ->check(NotEmpty())
      ->required();
  probe.add_option("-o,--output", out.probe.output, "write it to a .npy file")->check(NotEmpty());
  probe.add_option("--after", out.probe.after, "updates to run before [0]")->check(Between(0));
  CLI::App& tune = AddConfigCommand(
      app, "tune", "time GEMM algorithms for a model on this GPU, and keep the choices", out);
  tune.add_option("-o,--output", out.output, "tuning file to write or add to")
      ->check(NotEmpty())
      ->required();
  CLI::App& doctor =
      *app.add_subcommand("doctor", "say what was found, what is missing, what cannot work");
  doctor.add_option("--plan", out.plan_file, "a plan file: can it run here?")->check(NotEmpty());
  try {
    std::vector<std::string> arguments;  // the last one first, as the library wants them
    for (int i = argc - 1; i > 0; --i) arguments.push_back(Underscored(argv[i]));
    for (const std::string& wrong : {WithoutValue(arguments), WordAfterFlag(arguments)}) {
      if (!wrong.empty()) throw CLI::ValidationError(wrong);
    }
    app.parse(arguments);
  } catch (const CLI::ParseError& e) {
    std::ostringstream text, errors;
    const bool asked = e.get_exit_code() == 0;  // for help or the version
    app.exit(e, text, errors);
    out.text = asked ? text.str() : StrCat("stator: ", e.what(), "\ntry 'stator --help'\n");
    out.exit_code = asked ? 0 : kBadUsage;
    return out;
  }
  const CLI::App& command = *app.get_subcommands().at(0);
  std::string text = Unexpected(command);
  if (text.empty()) text = BesideLoad(out);
  if (!text.empty()) {
    out.text = StrCat("stator ", command.get_name(), ": ", text, "\n");
    out.exit_code = kBadUsage;
    return out;
  }
  out.command = command.get_name();
  return out;
}

}  // namespace stator
