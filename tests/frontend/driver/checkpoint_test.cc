#include "frontend/driver/checkpoint.h"

#include "frontend/driver/file.h"
#include "frontend/dsl/initializer.h"
#include "ir/tensor.h"
#include "tests/frontend/driver/driver_support.h"
#include "tests/frontend/driver/fake_executor.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <limits>

namespace stator {
namespace {

namespace fs = std::filesystem;

std::vector<StateEntry> States() {
  std::vector<StateEntry> states = {F32State("w", 3, "parameter"), F32State("w.m", 3, "moment"),
                                    F32State("grad/w", 3, "gradient"),
                                    F32State("w.bf16", 3, "shadow")};
  states[3].type.dtype = DType::kBF16;
  states[3].derived = true;
  return states;
}

void Fill(FakeExecutor& executor, float value) {
  for (const StateEntry& s : executor.plan().states) {
    std::vector<char> bytes(s.type.Bytes());
    for (size_t i = 0; i + 4 <= bytes.size(); i += 4) std::memcpy(&bytes[i], &value, 4);
    executor.WriteState(s.name, bytes);
  }
}

class Checkpoint : public testing::Test {
 protected:
  static std::unique_ptr<FakeExecutor> New(std::vector<StateEntry> states = States()) {
    auto executor = std::make_unique<FakeExecutor>(std::move(states));
    executor->AddProgram("derive", [](auto&, const auto&) { return OutputMap(); });
    return executor;
  }
  TempDir dir_;
  std::string out_ = dir_ / "out";
  CheckpointInfo info_{.iteration = 7, .config = {{"n_layer", "3"}}, .versions = {{"stator", "1"}}};
};

TEST_F(Checkpoint, states_and_position_come_back) {
  auto executor = New();
  Fill(*executor, 1.5f);
  const std::string directory = SaveCheckpoint(*executor, info_, out_);
  EXPECT_EQ(directory, FindCheckpoint(out_));
  const CheckpointInfo read = ReadCheckpointInfo(directory);
  EXPECT_EQ(read.iteration, 7);
  EXPECT_EQ(read.config, info_.config);
  EXPECT_EQ(read.versions, info_.versions);

  auto fresh = New();
  RestoreCheckpoint(*fresh, directory, Restore::kEverything);
  EXPECT_EQ(fresh->ReadState("w"), executor->ReadState("w"));
  EXPECT_EQ(fresh->ReadState("w.m"), executor->ReadState("w.m"));
  EXPECT_EQ(fresh->launched, std::vector<std::string>{"derive"});
  // Accumulators start at zero; the shadow is for "derive" to write.
  EXPECT_EQ(fresh->ReadState("grad/w"), std::vector<char>(12));
  EXPECT_EQ(fresh->ReadState("w.bf16"), std::vector<char>(6));
}

TEST_F(Checkpoint, parameters_alone_can_be_restored) {
  auto executor = New();
  Fill(*executor, 2);
  SaveCheckpoint(*executor, info_, out_);
  auto fresh = New({F32State("w", 3, "parameter")});
  RestoreCheckpoint(*fresh, FindCheckpoint(out_), Restore::kParameters);
  EXPECT_EQ(fresh->ReadState("w"), executor->ReadState("w"));
}

TEST_F(Checkpoint, a_model_that_does_not_fit_is_refused_before_any_write) {
  auto executor = New();
  const std::string directory = SaveCheckpoint(*executor, info_, out_);
  const auto error = [&](std::vector<StateEntry> states) {
    auto other = New(std::move(states));
    const std::string message =
        ErrorOf([&] { RestoreCheckpoint(*other, directory, Restore::kEverything); });
    EXPECT_EQ(other->writes, 0);
    return message;
  };
  EXPECT_HAS(error({F32State("w", 4, "parameter"), F32State("w.m", 3, "moment")}),
             "'w' is f32[3] in");
  EXPECT_HAS(error({F32State("w", 3, "parameter"), F32State("w.m", 3, "moment"),
                    F32State("v", 3, "parameter")}),
             "has no 'v'");
  EXPECT_HAS(error({F32State("w", 3, "parameter")}), "holds 'w.m', which this model has not");
}

TEST_F(Checkpoint, a_newer_one_replaces_the_older) {
  auto executor = New();
  const std::string first = SaveCheckpoint(*executor, info_, out_);
  const std::vector<std::string> own = {"step-best", "step-00000100.kept", "step-7",
                                        "step-00000100.2.kept"};
  for (const std::string& name : own) fs::copy(first, StrCat(out_, "/", name));
  info_.iteration = 9;
  const std::string second = SaveCheckpoint(*executor, info_, out_);
  EXPECT_FALSE(fs::exists(first));
  for (const std::string& name : own) EXPECT_TRUE(fs::exists(StrCat(out_, "/", name))) << name;
  EXPECT_EQ(FindCheckpoint(out_), second);
  // The same step once more, as a run that resumed and did nothing.
  const std::string third = SaveCheckpoint(*executor, info_, out_);
  EXPECT_NE(second, third);
  EXPECT_EQ(ReadCheckpointInfo(FindCheckpoint(out_)).iteration, 9);
}

TEST_F(Checkpoint, files_that_a_killed_run_had_begun_are_removed) {
  auto executor = New();
  fs::create_directory(out_);
  const std::vector<std::string> begun = {"latest.tmp-123", "metrics.jsonl.tmp-4567"};
  const std::vector<std::string> own = {"latest.tmp-", "metrics.jsonl.tmp-1.kept", "x.tmp-123"};
  for (const auto* names : {&begun, &own}) {
    for (const std::string& name : *names) WriteFileAtomically(StrCat(out_, "/", name), "x");
  }
  SaveCheckpoint(*executor, info_, out_);
  for (const std::string& name : begun) EXPECT_FALSE(fs::exists(StrCat(out_, "/", name))) << name;
  for (const std::string& name : own) EXPECT_TRUE(fs::exists(StrCat(out_, "/", name))) << name;
}

TEST_F(Checkpoint, a_failed_save_leaves_the_old_one_loadable) {
  auto executor = New();
  Fill(*executor, 1);
  SaveCheckpoint(*executor, info_, out_);
  Fill(*executor, 2);
  executor->fails_at = "w.m";
  info_.iteration = 8;
  EXPECT_HAS(ErrorOf([&] { SaveCheckpoint(*executor, info_, out_); }), "no space left");
  EXPECT_FALSE(fs::exists(out_ + "/.tmp-step-00000008"));  // nor takes more of a full disk
  auto fresh = New();
  RestoreCheckpoint(*fresh, FindCheckpoint(out_), Restore::kEverything);
  float w = 0;
  std::memcpy(&w, fresh->ReadState("w").data(), 4);
  EXPECT_EQ(w, 1);
  EXPECT_EQ(ReadCheckpointInfo(FindCheckpoint(out_)).iteration, 7);
  executor->fails_at.clear();
  SaveCheckpoint(*executor, info_, out_);
  for (const auto& entry : fs::directory_iterator(out_)) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(".tmp")) << entry.path();
  }
}

TEST_F(Checkpoint, parameters_that_are_not_finite_replace_nothing) {
  auto executor = New();
  const std::string first = SaveCheckpoint(*executor, info_, out_);
  info_.iteration = 8;
  const float inf = std::numeric_limits<float>::infinity();
  for (const float broken : {inf, -inf, std::numeric_limits<float>::quiet_NaN()}) {
    const float w[] = {1, 2, broken};
    executor->WriteState("w", Bytes(reinterpret_cast<const char*>(w), sizeof w));
    EXPECT_EQ(ErrorOf([&] { SaveCheckpoint(*executor, info_, out_); }),
              "no checkpoint after 8 updates: 'w' has elements that are not finite");
    EXPECT_EQ(FindCheckpoint(out_), first);
  }
  Fill(*executor, std::numeric_limits<float>::max());
  EXPECT_EQ(ErrorOf([&] { SaveCheckpoint(*executor, info_, out_); }), "");
}

TEST_F(Checkpoint, one_element_among_many_that_is_not_finite_is_seen) {
  const int64_t n = 600'000;  // more than two slices
  for (const int64_t at : {int64_t{0}, int64_t{262'143}, int64_t{262'144}, n - 1}) {
    FakeExecutor executor({F32State("w", n, "parameter")});
    std::vector<float> w(n, 1);
    w[at] = std::numeric_limits<float>::infinity();
    executor.WriteState("w", Bytes(reinterpret_cast<const char*>(w.data()), n * sizeof(float)));
    EXPECT_HAS(ErrorOf([&] { SaveCheckpoint(executor, info_, out_); }), "are not finite") << at;
  }
}

// Kills a process at each of its file operations in turn, by letting state reads do the counting.
TEST_F(Checkpoint, a_kill_in_the_middle_of_a_save_leaves_the_old_one_loadable) {
  auto executor = New();
  Fill(*executor, 1);
  SaveCheckpoint(*executor, info_, out_);
  for (const char* victim : {"w", "w.m"}) {
    const pid_t child = fork();
    if (child == 0) {
      class Killed : public FakeExecutor {
       public:
        Killed(const char* at) : FakeExecutor(States()), at_(at) {}
        std::vector<char> ReadState(const std::string& name) override {
          if (name == at_) kill(getpid(), SIGKILL);
          return FakeExecutor::ReadState(name);
        }
        std::string at_;
      } dying(victim);
      info_.iteration = 100;
      SaveCheckpoint(dying, info_, out_);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(ReadCheckpointInfo(FindCheckpoint(out_)).iteration, 7);
  }
}

TEST_F(Checkpoint, damage_is_named) {
  auto executor = New();
  const std::string directory = SaveCheckpoint(*executor, info_, out_);
  const auto error = [&] { return ErrorOf([&] { ReadCheckpointInfo(directory); }); };
  const std::vector<char> model = ReadFile(directory + "/model.safetensors");
  fs::resize_file(directory + "/model.safetensors", 20);
  EXPECT_HAS(error(), "model.safetensors: cut off or changed");
  fs::remove(directory + "/model.safetensors");
  EXPECT_HAS(error(), "model.safetensors: missing");
  WriteFileAtomically(directory + "/checkpoint.json",
                      R"({"format":"stator checkpoint","version":2})");
  EXPECT_HAS(error(), "version 2, this stator reads up to 1");
  WriteFileAtomically(directory + "/checkpoint.json", R"({"format":"else"})");
  EXPECT_HAS(error(), "not a checkpoint");
  WriteFileAtomically(out_ + "/latest", "../../etc\n");
  EXPECT_HAS(ErrorOf([&] { FindCheckpoint(out_); }), "no name of a checkpoint");
}

TEST_F(Checkpoint, a_flipped_bit_is_noticed_and_named) {
  for (const std::string part : {"model", "state"}) {
    auto executor = New();
    Fill(*executor, 1.5f);
    const std::string directory = SaveCheckpoint(*executor, info_, out_);
    const auto error = [&] {
      return ErrorOf([&] { RestoreCheckpoint(*New(), directory, Restore::kEverything); });
    };
    EXPECT_EQ(error(), "");
    const std::string path = StrCat(directory, "/", part, ".safetensors");
    std::vector<char> bytes = ReadFile(path);
    bytes.back() ^= 1;
    WriteFileAtomically(path, {bytes.data(), bytes.size()});
    EXPECT_HAS(error(), StrCat(path, ": '", part == "model" ? "w" : "w.m", "' is damaged: its"));
    // Without checksums, as those before had none.
    const std::vector<char> json = ReadFile(directory + "/checkpoint.json");
    const std::string text(json.begin(), json.end());
    const size_t at = text.find("\"crc32\"");
    ASSERT_NE(at, text.npos);
    WriteFileAtomically(directory + "/checkpoint.json", text.substr(0, text.rfind(',', at)) + "}");
    EXPECT_EQ(error(), "");
  }
}

TEST_F(Checkpoint, one_that_nothing_calls_the_latest_is_found) {
  auto executor = New();
  const std::string first = SaveCheckpoint(*executor, info_, out_);
  fs::remove(out_ + "/latest");
  EXPECT_EQ(FindCheckpoint(out_), first);
  fs::copy(first, first + ".2");
  fs::create_directory(out_ + "/step-99999999");  // not whole
  EXPECT_EQ(FindCheckpoint(out_), first + ".2");
}

TEST_F(Checkpoint, one_replaced_while_it_is_read_is_looked_up_again) {
  auto executor = New();
  Fill(*executor, 1);
  SaveCheckpoint(*executor, info_, out_);
  int tries = 0;
  auto fresh = New();
  const auto restore = [&](const std::string& directory) {
    if (++tries <= 3) {  // a run beside this one saves
      ++info_.iteration;
      SaveCheckpoint(*executor, info_, out_);
    }
    RestoreCheckpoint(*fresh, directory, Restore::kEverything);
  };
  WithCheckpoint(out_, restore);
  EXPECT_EQ(tries, 4);
  EXPECT_EQ(fresh->ReadState("w"), executor->ReadState("w"));
  // What is damaged stays so, and a run that saves all the time wins in the end.
  fs::remove(FindCheckpoint(out_) + "/model.safetensors");
  EXPECT_HAS(ErrorOf([&] { WithCheckpoint(out_, restore); }), "model.safetensors");
  EXPECT_EQ(tries, 5);
  tries = -1000;
  EXPECT_HAS(ErrorOf([&] { WithCheckpoint(out_, restore); }), "model.safetensors");
  EXPECT_EQ(tries, -990);
}

TEST_F(Checkpoint, paths_that_cannot_be_followed_are_named) {
  fs::create_directory(out_);
  fs::create_symlink("latest", out_ + "/latest");
  EXPECT_HAS(ErrorOf([&] { FindCheckpoint(out_); }),
             StrCat("cannot read ", out_, "/latest: Too many levels of symbolic links; without"));
  const std::string loop = dir_ / "loop", endless = dir_ / std::string(300, 'x');
  fs::create_symlink("loop", loop);
  EXPECT_HAS(ErrorOf([&] { FindCheckpoint(loop); }), StrCat("cannot look at ", loop));
  EXPECT_HAS(ErrorOf([&] { FindCheckpoint(endless); }), "checkpoint.json: File name too long");
}

TEST_F(Checkpoint, no_checkpoint_is_no_error_to_look_for) { EXPECT_EQ(FindCheckpoint(out_), ""); }

TEST(InitializeStates, depends_on_seed_and_name) {
  const auto make = [](uint64_t seed) {
    FakeExecutor executor({F32State("a", 8, "parameter"), F32State("b", 8, "parameter"),
                           F32State("a.m", 8, "moment")});
    std::vector<StateEntry> states = executor.plan().states;
    states[0].init = states[1].init = "normal(0.02)";
    FakeExecutor with_init(states);
    InitializeStates(with_init, seed);
    return std::vector{with_init.ReadState("a"), with_init.ReadState("b"),
                       with_init.ReadState("a.m")};
  };
  EXPECT_EQ(make(1), make(1));
  EXPECT_NE(make(1)[0], make(2)[0]);
  EXPECT_NE(make(1)[0], make(1)[1]);
  EXPECT_EQ(make(1)[2], std::vector<char>(32));
}

TEST(InitializeStates, rounds_what_is_drawn_to_the_dtype) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    std::vector<StateEntry> states = {F32State("w", 2345, "parameter")};
    states[0].type.dtype = dtype;
    states[0].init = "normal(0.02)";
    FakeExecutor executor(states);
    InitializeStates(executor, 1);
    Tensor expected(states[0].type);
    const std::vector<float> drawn = dsl::Initialize("normal(0.02)", states[0].type, 1, "w");
    for (size_t i = 0; i < drawn.size(); ++i) expected.Set(static_cast<int64_t>(i), drawn[i]);
    EXPECT_EQ(executor.ReadState("w"), expected.ToBytes()) << Name(dtype);
  }
}

}  // namespace
}  // namespace stator
