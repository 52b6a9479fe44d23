// An executor without a device: states in memory, programs as host functions.
#pragma once

#include "ir/base/error.h"
#include "runtime/executor.h"

#include <algorithm>
#include <map>
#include <utility>

namespace stator {

class FakeExecutor : public Executor {
 public:
  using Host = std::function<OutputMap(FakeExecutor&, const std::map<std::string, Bytes>&)>;

  explicit FakeExecutor(std::vector<StateEntry> states) {
    plan_.states = std::move(states);
    plan_.fingerprint = {{"stator", "test"}};
    for (const StateEntry& s : plan_.states) memory_[s.name].resize(s.type.Bytes());
  }
  void AddProgram(const std::string& name, Host host) {
    plan_.programs.emplace_back().name = name;
    hosts_[name] = std::move(host);
  }

  const Plan& plan() const override { return plan_; }
  void WriteState(const std::string& name, Bytes bytes) override {
    STATOR_CHECK(memory_.at(name).size() == bytes.size(), name);
    memory_[name].assign(bytes.begin(), bytes.end());
    ++writes;
  }
  void FillState(const std::string& name, const StateSource& source) override {
    std::vector<char> bytes(memory_.at(name).size());
    const size_t piece = 1000 * static_cast<size_t>(ByteWidth(plan_.FindState(name)->type.dtype));
    for (size_t at = 0; at < bytes.size(); at += piece) {
      source(static_cast<int64_t>(at),
             std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
    }
    WriteState(name, bytes);
  }
  std::vector<char> ReadState(const std::string& name) override {
    if (name == fails_at) Fail(ErrorCode::kIo, "no space left on device");
    return memory_.at(name);
  }
  int64_t Enqueue(const std::string& program, const std::map<std::string, Bytes>& in) override {
    STATOR_CHECK(results_.size() < kMaxInFlight, "a ticket would be lost");
    results_[++ticket_] = hosts_.at(program)(*this, in);
    launched.push_back(program);
    return ticket_;
  }
  OutputMap Wait(int64_t ticket) override {
    OutputMap out = std::move(results_.at(ticket));
    results_.erase(ticket);
    return out;
  }
  void Synchronize() override {}
  MemoryReport memory() const override { return {}; }
  void RunStepwise(const std::string&, const std::map<std::string, Bytes>&,
                   const std::function<StepVisitor>&) override {}
  std::vector<char> ReadBuffer(BufferRef, int64_t) override { return {}; }
  TimedRun RunTimed(const std::string&, const std::map<std::string, Bytes>&) override { return {}; }
  DeviceConditions Conditions() override { return {.why_not = "there is no device"}; }

  std::string fails_at;               // reading this state throws
  int writes = 0;                     // of states
  std::vector<std::string> launched;  // programs, in order

 private:
  Plan plan_;
  std::map<std::string, std::vector<char>> memory_;
  std::map<std::string, Host> hosts_;
  std::map<int64_t, OutputMap> results_;
  int64_t ticket_ = 0;
};

// A state of `n` f32 elements.
inline StateEntry F32State(const std::string& name, int64_t n, const std::string& role) {
  StateEntry s;
  s.name = name;
  s.type = {DType::kF32, {n}};
  s.role = role;
  return s;
}

}  // namespace stator
