// The program `stator` as a user runs it.
#include "frontend/driver/checkpoint.h"
#include "frontend/driver/file.h"
#include "tests/e2e/run_support.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace stator {
namespace {

struct Outcome {
  int status = 0;
  std::string out, err;
};

class CommandLineTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(program_)) GTEST_SKIP() << program_ << " is not built";
  }
  // `arguments` go through a shell.
  Outcome Run(const std::string& arguments) { return Run(program_, arguments); }
  Outcome Run(const std::string& program, const std::string& arguments) {
    Outcome result;
    const std::string errors = dir_ / "stderr";
    FILE* pipe = popen(StrCat(program, " ", arguments, " 2>", errors, " </dev/null").c_str(), "r");
    STATOR_CHECK(pipe, "popen");
    std::array<char, 4096> chunk;
    while (const size_t n = std::fread(chunk.data(), 1, chunk.size(), pipe)) {
      result.out.append(chunk.data(), n);
    }
    const int status = pclose(pipe);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    const std::vector<char> text = ReadFile(errors);
    result.err.assign(text.begin(), text.end());
    return result;
  }
  std::string Small(const std::string& out) {
    const TrainConfig c = SmallConfig(dir_, out);
    return StrCat(" --device cpu --n_layer 1 --n_head 2 --n-embd=32 --block_size 32 --batch_size 8",
                  " --max_iters 4 --warmup_iters 1 --eval_iters 2 --sample_tokens 20 --data ",
                  c.data[0], " --out_dir ", c.out_dir);
  }
  TempDir dir_;
  const std::string program_ = std::string(STATOR_BINARY_DIR) + "/stator";
};

TEST_F(CommandLineTest, trains_and_samples) {
  const Outcome train = Run("train" + Small("o"));
  ASSERT_EQ(train.status, 0) << train.err;
  EXPECT_EQ(train.err, "");
  EXPECT_HAS(train.out, "step 4  loss ");
  EXPECT_HAS(train.out, "byte-bigram entropy");
  EXPECT_HAS(train.out, "sample:\n");
  const Outcome sample = Run(StrCat("sample --device cpu --out_dir ", dir_ / "o"));
  EXPECT_EQ(sample.status, 0) << sample.err;
  // The same weights, prompt and seed: the same text as at the end of training.
  EXPECT_EQ(train.out.substr(train.out.find("sample:\n") + 8), sample.out);
}

TEST_F(CommandLineTest, bad_usage_exits_with_two_and_a_hint) {
  EXPECT_EQ(Run("").status, 2);
  const Outcome command = Run("trian");
  EXPECT_EQ(command.status, 2);
  EXPECT_HAS(command.err, "unknown command 'trian', did you mean 'train'?");
  const Outcome flag = Run("train --n_layers 3");
  EXPECT_EQ(flag.status, 2);
  EXPECT_HAS(flag.err, "unknown flag '--n_layers', did you mean 'n_layer'?");
}

// It would build for minutes before it said so.
TEST_F(CommandLineTest, the_script_knows_the_commands_before_it_builds) {
  const std::string script =
      StrCat("env STATOR_SKIP_INSTALL=1 STATOR_PRESET=none ", STATOR_SOURCE_DIR, "/run");
  const Outcome typo = Run(script, "trian");
  EXPECT_EQ(typo.status, 2);
  EXPECT_HAS(typo.err, "unknown subcommand 'trian'");
  const std::vector<char> text = ReadFile(std::string(STATOR_SOURCE_DIR) + "/run");
  const std::string all = Run("").err;  // "stator: a command is missing: train, ..., doctor\n..."
  const size_t first = all.find("train");
  std::string commands = all.substr(first, all.find(", doctor") - first);
  for (size_t at = 0; (at = commands.find(", ", at)) != std::string::npos;) {
    commands.replace(at, 2, " | ");
  }
  EXPECT_HAS(std::string(text.begin(), text.end()), StrCat("  ", commands, " | -*)"));
}

TEST_F(CommandLineTest, errors_exit_with_one_and_one_line) {
  for (const char* arguments :
       {"train --n_layer 0", "train --device tpu", "train --data /nonexistent", "plan --gpu none",
        "plan --load /nonexistent", "sample --out_dir /nonexistent", "train /nonexistent.toml"}) {
    const Outcome result = Run(arguments);
    EXPECT_EQ(result.status, 1) << arguments;
    EXPECT_TRUE(result.err.starts_with("stator: ")) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "") << arguments;
  }
}

TEST_F(CommandLineTest, plans_without_a_gpu_and_saves_plans) {
  const Outcome h200 = Run("plan --gpu h200 --n_layer 2 --n_embd 64 --n_head 2");
  ASSERT_EQ(h200.status, 0) << h200.err;
  EXPECT_HAS(h200.out, "plan gpt2 for sm_90");
  EXPECT_HAS(h200.out, "program train");
  const std::string file = dir_ / "small.plan";
  const Outcome saved = Run(StrCat("plan", Small("p"), " -o ", file));
  ASSERT_EQ(saved.status, 0) << saved.err;
  const Outcome loaded = Run(StrCat("plan --load ", file));
  ASSERT_EQ(loaded.status, 0) << loaded.err;
  EXPECT_HAS(loaded.out, "made with");
  const Outcome doctor = Run(StrCat("doctor --plan ", file));
  EXPECT_EQ(doctor.status, 0);
  EXPECT_HAS(doctor.out, "stands in the way");
  EXPECT_EQ(doctor.out.find("stands in the way"), doctor.out.rfind("stands in the way"));
  EXPECT_EQ(Run(StrCat("plan --load ", file, " -o ", dir_ / "other.plan")).status, 2);
  const Outcome beside = Run(StrCat("plan --load ", file, " --dropout 0.5"));
  EXPECT_EQ(beside.status, 2);
  EXPECT_HAS(beside.err, "--dropout says what to compile, and --load describes a plan");
  EXPECT_EQ(Run("plan --gpu h200 --device cpu").status, 2);
  EXPECT_HAS(Run("plan --load /dev/zero").err, "/dev/zero is not a regular file");
}

TEST_F(CommandLineTest, help_names_every_key) {
  const Outcome help = Run("train --help");
  EXPECT_EQ(help.status, 0);
  for (const ConfigKey& key : ConfigKeys()) EXPECT_HAS(help.out, StrCat("--", key.name));
  EXPECT_HAS(Run("--version").out, "stator 0.1.0");
}

TEST_F(CommandLineTest, whole_numbers_are_in_range_or_refused) {
  for (const char* arguments : {"profile --steps 0", "profile --steps 99999999999999999999",
                                "probe --tensor x --after -1", "train --watch x --every 1e3"}) {
    const Outcome result = Run(arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_HAS(result.err, "is not an integer from ");
  }
  EXPECT_HAS(Run("train --every 2").err, "--every requires --watch");
}

TEST_F(CommandLineTest, flags_are_true_or_false_and_the_last_one_holds) {
  const auto plan = [&](const std::string& flags) {
    const Outcome result = Run("plan --gpu h200 --n_layer 1 " + flags);
    return result.status == 0 ? result.out.substr(0, result.out.find(" parameters")) : result.err;
  };
  const std::string with = plan("--bias"), without = plan("--bias=false");
  EXPECT_NE(with, without);
  for (const char* flags :
       {"--bias=no --bias", "--bias=off --bias=yes", "--bias=0 --bias=1 --bias=on"}) {
    EXPECT_EQ(plan(flags), with) << flags;
  }
  EXPECT_EQ(plan("--bias --bias=true --bias=no"), without);
  for (const char* value : {"maybe", "99999999999999999999", "'true false'", "2", "-1", "1.5"}) {
    EXPECT_HAS(plan(StrCat("--bias=", value)), "is not true or false (--bias)");
  }
  for (const char* flag : {"--bias=", "--bias={}", "--memory="}) {
    EXPECT_HAS(plan(flag), StrCat("stator: '", flag, "' names no value"));
  }
  for (const char* word : {"true", "false", "on", "off", "yes", "no", "0", "1"}) {
    EXPECT_HAS(plan(StrCat("--qkv-bias ", word)),
               StrCat("stator: '--qkv_bias ", word, "': write --qkv_bias=", word));
  }
}

TEST_F(CommandLineTest, empty_values_are_refused) {
  for (const char* arguments :
       {"plan --gpu ''", "plan -o ''", "plan --load ''", "plan --dump ''", "plan ''", "tune -o ''",
        "doctor --plan ''", "profile --html ''", "profile --trace ''", "profile --json ''",
        "probe --tensor ''", "probe --tensor x -o ''", "train --watch ''"}) {
    const Outcome result = Run(arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_HAS(result.err, "it is empty");
    EXPECT_EQ(result.out, "") << arguments;
  }
}

TEST_F(CommandLineTest, output_that_cannot_be_written_is_an_error) {
  for (const std::string& arguments :
       {std::string("plan --gpu h200"), std::string("--help"), "train" + Small("full")}) {
    const Outcome result = Run(arguments + " >/dev/full");
    EXPECT_EQ(result.status, 1) << arguments;
    EXPECT_HAS(result.err, "stator: cannot write to the standard output");
  }
  EXPECT_EQ(FindCheckpoint(dir_ / "full"), "");  // nothing was trained
}

TEST_F(CommandLineTest, training_saves_where_its_reader_is_gone) {
  const std::string errors = dir_ / "train.err";
  Run("sh", StrCat("-c '", program_, " train", Small("o"), " --max_iters 1000000 2>", errors,
                   " | head -n 12'"));
  EXPECT_NE(FindCheckpoint(dir_ / "o"), "");
  const std::vector<char> text = ReadFile(errors);
  EXPECT_HAS(std::string(text.begin(), text.end()), "Broken pipe; ");
  EXPECT_HAS(std::string(text.begin(), text.end()), " updates are saved in " + (dir_ / "o"));
}

TEST_F(CommandLineTest, what_is_not_worth_a_checkpoint_is_not_called_saved) {
  const std::string errors = dir_ / "train.err";
  Run("sh",
      StrCat("-c '", program_, " train", Small("o"), " --learning_rate 1e6 --min_lr 0",
             " --threads 1 --optimizer sgd --grad_clip 0 --warmup_iters 0 --max_iters 1000000 2>",
             errors, " | head -n 60'"));
  EXPECT_EQ(FindCheckpoint(dir_ / "o"), "");
  const std::vector<char> text = ReadFile(errors);
  const std::string error(text.begin(), text.end());
  EXPECT_FALSE(Has(error, "are saved in")) << error;
  // The run may come to its own end before it hears of its reader's.
  const bool ended = Has(error, "no finite gradient in");
  EXPECT_TRUE(ended || Has(error, "Broken pipe; nothing was saved")) << error;
}

// The master of a new terminal; -1 where the system has none to give, as without /dev/pts.
int OpenTerminal() {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0) return -1;
  if (grantpt(terminal) == 0 && unlockpt(terminal) == 0 &&
      access(ptsname(terminal), R_OK | W_OK) == 0) {
    return terminal;
  }
  close(terminal);
  return -1;
}

// A program on `terminal`, which ignores SIGHUP as under nohup; `until` it has printed that, then
// the terminal is gone. Returns the exit status.
int RunOnALostTerminal(int terminal, const std::string& command, const std::string& until) {
  const std::string name = ptsname(terminal);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGHUP, SIG_IGN);
    setsid();
    const int end = open(name.c_str(), O_RDWR);
    close(terminal);
    dup2(end, 0), dup2(end, 1), dup2(end, 2);
    execl("/bin/sh", "sh", "-c", ("exec " + command).c_str(), nullptr);
    _exit(127);
  }
  std::string text;
  std::array<char, 256> chunk;
  while (!Has(text, until)) {
    const ssize_t n = read(terminal, chunk.data(), chunk.size());
    if (n <= 0) break;
    text.append(chunk.data(), n);
  }
  close(terminal);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_HAS(text, until);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_F(CommandLineTest, a_run_outlives_its_terminal) {
  const int terminal = OpenTerminal();
  if (terminal < 0) GTEST_SKIP() << "this system has no terminals to give (/dev/pts)";
  const std::string errors = dir_ / "err";
  EXPECT_EQ(RunOnALostTerminal(
                terminal,
                StrCat(program_, " train", Small("o"), " --threads 1 --max_iters 60 2>", errors),
                "step 5 "),
            0);
  EXPECT_EQ(ReadCheckpointInfo(FindCheckpoint(dir_ / "o")).iteration, 60);
  EXPECT_EQ(ReadFile(errors).size(), 0u);
}

TEST_F(CommandLineTest, several_files_follow_one_flag) {
  const std::string text = SmallConfig(dir_, "two").data[0];
  const Outcome two = Run(StrCat("train", Small("two"), " ", text, " --data ", text));
  EXPECT_EQ(two.status, 1);  // a text where the configuration stands
  const Outcome train =
      Run(StrCat("train --max_iters 1 --device cpu --n_layer 1 --n_embd 32 ",
                 "--block_size 32 --batch_size 8 --eval_iters 1 --sample_tokens 0 ", "--out_dir ",
                 dir_ / "two", " --data ", text, " ", text));
  EXPECT_EQ(train.status, 0) << train.err;
  EXPECT_HAS(train.out, "2 files from ");
}

TEST_F(CommandLineTest, a_watch_that_never_looks_is_told) {
  const Outcome train = Run("train" + Small("w") + " --watch 'h.*/attn' --every 9");
  EXPECT_EQ(train.status, 0) << train.err;
  EXPECT_HAS(train.out, "nothing is watched: the first look would be after update 9");
}

TEST_F(CommandLineTest, a_pattern_takes_one_word_and_may_stand_again) {
  EXPECT_HAS(Run("train --help").out, "--watch PATTERN  ");
  const Outcome train =
      Run("train" + Small("w") + " --every 2 --watch h.0/mlp/up:rms --watch h.0/attn:absmax");
  EXPECT_EQ(train.status, 0) << train.err;
  EXPECT_HAS(train.out, "watch h.0/mlp/up");
  EXPECT_HAS(train.out, "watch h.0/attn");
  EXPECT_HAS(Run("profile --compare fused,fast").err, "fast not in {fused,unfused}");
}

TEST_F(CommandLineTest, stator_opt_says_what_it_cannot_do) {
  const std::string opt = std::string(STATOR_BINARY_DIR) + "/stator-opt";
  if (!std::filesystem::exists(opt)) GTEST_SKIP() << opt << " is not built";
  const std::string file = dir_ / "g.ir";
  WriteFileAtomically(
      file, "graph @f(%x: f32[4]) -> f32[4] {\n  %0 = neg(%x) : f32[4]\n  return %0\n}\n");
  EXPECT_EQ(Run(opt, "--emit plan " + file).status, 0);
  const Outcome early = Run(opt, "--emit plan --pass canonicalize " + file);
  EXPECT_EQ(early.status, 1);
  EXPECT_HAS(early.err, "end --pass with plan-memory");
  EXPECT_HAS(Run(opt, dir_.path()).err, "is a folder");
  EXPECT_NE(Run(opt, "--micro-batches 0 " + file).status, 0);
}

TEST_F(CommandLineTest, says_what_a_finished_run_has_left_to_do) {
  const std::string keys = StrCat(
      "train --device cpu --n_layer 1 --n_embd 32 --n_head 2 --block_size 16 --batch_size 2 ",
      "--max_iters 2 --warmup_iters 1 --sample_tokens 0 --eval_iters 1 --out_dir ",
      dir_ / "finished");
  ASSERT_EQ(Run(keys).status, 0);
  const Outcome again = Run(keys + " --resume");
  EXPECT_EQ(again.status, 0);
  EXPECT_HAS(again.out, "the run was finished after 2 updates: nothing is trained");
}

TEST_F(CommandLineTest, doctor_says_first_that_a_plan_cannot_be_read) {
  const Outcome outcome = Run("doctor --plan /nope");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_HAS(outcome.err, "cannot read /nope");
}

}  // namespace
}  // namespace stator
