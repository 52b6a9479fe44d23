#include "frontend/driver/config.h"

#include "frontend/driver/checkpoint.h"
#include "frontend/driver/file.h"
#include "frontend/driver/resolve.h"
#include "tests/frontend/driver/driver_support.h"
#include "tests/frontend/driver/fake_executor.h"

#include <gtest/gtest.h>

#include <tuple>

namespace stator {
namespace {

std::string ErrorOfText(std::string_view key, std::string_view text) {
  TrainConfig config;
  return ErrorOf([&] { SetConfigText(config, key, text, StrCat("--", key)); });
}

TEST(Config, values_are_read_by_the_type_of_their_key) {
  TrainConfig c;
  SetConfigText(c, "n_layer", "6", "");
  SetConfigText(c, "learning_rate", "6e-4", "");
  SetConfigText(c, "bias", "False", "");
  SetConfigText(c, "model", "llama", "");
  SetConfigText(c, "data", "a b.txt\nc,d.txt", "");
  EXPECT_EQ(c.n_layer, 6);
  EXPECT_EQ(c.learning_rate, 6e-4);
  EXPECT_FALSE(c.bias);
  EXPECT_EQ(c.model, "llama");
  EXPECT_EQ(c.data, (StringList{"a b.txt", "c,d.txt"}));
  EXPECT_TRUE(c.given.contains("n_layer"));
  EXPECT_FALSE(c.given.contains("n_head"));
}

TEST(Config, true_and_false_have_several_words) {
  TrainConfig c;
  for (const char* word : {"true", "1", "on", "yes"}) {
    c.fast = false;
    SetConfigText(c, "fast", word, "");
    EXPECT_TRUE(c.fast) << word;
  }
  for (const char* word : {"false", "0", "off", "no"}) {
    c.fast = true;
    SetConfigText(c, "fast", word, "");
    EXPECT_FALSE(c.fast) << word;
  }
}

TEST(Config, an_unknown_key_names_the_near_ones) {
  EXPECT_HAS(ErrorOfText("n_layers", "6"), "unknown key 'n_layers', did you mean 'n_layer'");
  EXPECT_HAS(ErrorOfText("learningrate", "6"), "'learning_rate'");
  EXPECT_EQ(ErrorOfText("qqqqqq", "6"), "unknown key 'qqqqqq' (--qqqqqq)");
}

TEST(Config, a_bad_value_names_key_value_and_what_is_accepted) {
  EXPECT_EQ(ErrorOfText("n_layer", "six"), "n_layer: 'six' is not an integer (--n_layer)");
  EXPECT_EQ(ErrorOfText("n_layer", "6x"), "n_layer: '6x' is not an integer (--n_layer)");
  EXPECT_EQ(ErrorOfText("n_layer", "0"), "n_layer: '0' is not at least 1 (--n_layer)");
  EXPECT_EQ(ErrorOfText("dropout", "1"), "dropout: '1.0' is not at most 0.999 (--dropout)");
  EXPECT_HAS(ErrorOfText("learning_rate", "nan"), "is not a number");
  EXPECT_EQ(ErrorOfText("bias", "maybe"), "bias: 'maybe' is not true or false (--bias)");
  EXPECT_EQ(ErrorOfText("model", "gpt"),
            "model: 'gpt' is not one of gpt2, llama, did you mean 'gpt2'? (--model)");
}

TEST(Config, text_reads_back_as_the_same_configuration) {
  TrainConfig c, d;
  c.learning_rate = 0.1 + 0.2;
  c.data = {"x", "y"};
  c.prompt = "";
  c.bias = false;
  for (const auto& [key, text] : ConfigText(c)) SetConfigText(d, key, text, "");
  EXPECT_EQ(ConfigText(c), ConfigText(d));
  EXPECT_EQ(d.learning_rate, c.learning_rate);
}

TEST(Config, every_default_is_accepted_as_a_value) {
  TrainConfig c;
  for (const ConfigKey& key : ConfigKeys()) {
    EXPECT_EQ(ErrorOfText(key.name, ConfigText(c, key)), "") << key.name;
  }
  ValidateConfig(c);
}

TEST(Config, toml_errors_name_the_line) {
  TempDir dir;
  const std::string path = dir / "train.toml";
  const auto load = [&](const char* text) {
    WriteFileAtomically(path, text);
    TrainConfig c;
    return ErrorOf([&] { LoadToml(c, path); });
  };
  EXPECT_EQ(load("n_layer = 3\nlearning_rate = 1\ndata = ['a', 'b']\nmodel = \"llama\"\n"), "");
  EXPECT_EQ(load("n_layer = 3\nn_layr = 4\n"),
            StrCat("unknown key 'n_layr', did you mean 'n_layer'? (", path, ":2)"));
  EXPECT_EQ(load("n_layer = '3'\n"), StrCat("n_layer: '3' is not an integer (", path, ":1)"));
  EXPECT_EQ(load("n_layer = 3.5\n"), StrCat("n_layer: '3.5' is not an integer (", path, ":1)"));
  EXPECT_HAS(load("\n\nn_layer 3\n"), path + ":3:");
  EXPECT_HAS(load("[model]\nn_layer = 3\n"), "top level");
  EXPECT_HAS(load("data = [1]\n"), "only strings");
}

TEST(Config, keys_that_contradict_each_other_are_refused) {
  const auto check = [](const std::vector<std::pair<const char*, const char*>>& keys) {
    TrainConfig c;
    for (const auto& [key, text] : keys) SetConfigText(c, key, text, "");
    return ErrorOf([&] { ValidateConfig(c); });
  };
  EXPECT_EQ(check({{"n_head", "3"}}), "n_head: 3 heads do not divide n_embd 128");
  EXPECT_HAS(check({{"n_kv_head", "2"}}), "only llama");
  EXPECT_EQ(check({{"ffn_dim", "64"}}), "ffn_dim: only llama has it, the model is gpt2");
  EXPECT_EQ(check({{"model", "llama"}, {"dropout", "0.1"}}),
            "dropout: only gpt2 has it, the model is llama");
  EXPECT_EQ(check({{"model", "llama"}, {"bias", "false"}}),
            "bias: only gpt2 has it, the model is llama");
  EXPECT_EQ(check({{"model", "llama"}, {"dropout", "0"}, {"bias", "true"}}), "");
  EXPECT_HAS(check({{"min_lr", "1"}, {"learning_rate", "0.1"}}), "min_lr: 1.0 is above");
  EXPECT_HAS(check({{"max_iters", "10"}, {"warmup_iters", "100"}}), "warmup_iters: 100");
  EXPECT_HAS(check({{"val_fraction", "0"}}), "val_fraction");
}

class FakeTarget : public Target {
 public:
  explicit FakeTarget(DeviceKind kind) : kind_(kind) {}
  DeviceKind kind() const override { return kind_; }
  std::string name() const override { return "test"; }
  int64_t memory_bytes() const override { return 0; }
  double peak_flops(DType) const override { return 0; }
  double bandwidth() const override { return 0; }
  bool SupportsAttention(const AttentionQuery&, std::string*) const override { return false; }

 private:
  DeviceKind kind_;
};

TEST(Config, what_nobody_gave_follows_from_the_width_and_the_device) {
  TrainConfig c;
  SetConfigText(c, "n_embd", "768", "");
  SetConfigText(c, "n_head", "12", "");
  SetConfigText(c, "max_iters", "50", "");
  EXPECT_EQ(ApplyDeviceDefaults(c, FakeTarget(DeviceKind::kCuda)), "");
  EXPECT_DOUBLE_EQ(c.learning_rate, 5e-4);
  EXPECT_DOUBLE_EQ(c.min_lr, 5e-5);
  EXPECT_EQ(c.warmup_iters, 5);
  EXPECT_EQ(c.n_layer, 4);
  TrainConfig larger;
  SetConfigText(larger, "learning_rate", "0.5", "");
  EXPECT_HAS(ApplyDeviceDefaults(larger, FakeTarget(DeviceKind::kCuda)), "there is a GPU");
  EXPECT_EQ(larger.n_embd, 384);
  EXPECT_EQ(larger.learning_rate, 0.5);
}

TEST(Config, sizes_have_units) {
  const auto bytes = [](const char* text) {
    TrainConfig c;
    c.memory = text;
    return MemoryBudget(c);
  };
  EXPECT_EQ(bytes(""), 0);
  EXPECT_EQ(bytes("1000"), 1000);
  EXPECT_EQ(bytes("24GiB"), int64_t{24} << 30);
  EXPECT_EQ(bytes("0.5 MiB"), 1 << 19);
  for (const char* bad : {"24GB", "GiB", "-1GiB", "0", "0.5", "1e30GiB", "24GiBs"}) {
    EXPECT_HAS(ErrorOf([&] { bytes(bad); }), "is no size such as 24GiB");
  }
}

TEST(Config, flags_override_the_file) {
  TempDir dir;
  WriteFileAtomically(dir / "c.toml", "n_layer = 3\nn_head = 8\n");
  const TrainConfig c = ResolveConfig({.toml = dir / "c.toml", .flags = {{"n_layer", {"5"}}}});
  EXPECT_EQ(c.n_layer, 5);
  EXPECT_EQ(c.n_head, 8);
}

TEST(Config, resuming_without_a_checkpoint_is_refused) {
  TempDir dir;
  EXPECT_HAS(
      ErrorOf([&] {
        ResolveConfig({.toml = "", .flags = {{"resume", {"true"}}, {"out_dir", {dir / "o"}}}});
      }),
      "there is no checkpoint in");
}

// Earlier versions took and saved keys that the model does not read.
TEST(Config, saved_keys_without_effect_do_not_stop_a_run_that_resumes) {
  for (const auto& [model, key, text] : {std::tuple{"llama", "dropout", "0.1"},
                                         {"llama", "bias", "false"},
                                         {"gpt2", "ffn_dim", "64"},
                                         {"gpt2", "rope_theta", "5e5"}}) {
    TempDir dir;
    TrainConfig old;
    SetConfigText(old, "model", model, "");
    SetConfigText(old, key, text, "");
    FakeExecutor executor({F32State("w", 4, "parameter")});
    SaveCheckpoint(executor, {.iteration = 7, .config = ConfigText(old), .versions = {}},
                   dir / "o");
    ConfigSources sources = {.toml = "", .flags = {{"resume", {"true"}}, {"out_dir", {dir / "o"}}}};
    const TrainConfig resumed = ResolveConfig(sources);
    EXPECT_EQ(resumed.model, model);
    EXPECT_EQ(ConfigText(resumed).at(key), ConfigText(TrainConfig()).at(key));
    EXPECT_EQ(ErrorOf([&] { ValidateConfig(resumed); }), "") << key;
    sources.flags.push_back({key, {text}});
    EXPECT_HAS(ErrorOf([&] { ResolveConfig(sources); }), StrCat(key, ": only "));
  }
}

// A checkpoint could not keep them, and would say so only when hours of training are to be saved.
TEST(Config, texts_are_what_a_checkpoint_can_keep) {
  EXPECT_HAS(ErrorOfText("prompt", "caf\xe9"), "is not UTF-8");
  EXPECT_HAS(ErrorOfText("data", "a.txt\ncaf\xe9.txt"), "is not UTF-8");
  EXPECT_EQ(ErrorOfText("data", "caf\xc3\xa9.txt"), "");
  const auto list = [](const StringList& names) {
    return ErrorOf([&] { ResolveConfig({.toml = "", .flags = {{"data", names}}}); });
  };
  EXPECT_EQ(list({""}), "data: '' is not a name: it is empty (--data)");
  EXPECT_HAS(list({"a\nb"}), "is not on one line");
  EXPECT_EQ(list({"a", "b"}), "");
}

}  // namespace
}  // namespace stator
