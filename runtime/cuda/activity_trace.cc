#include "runtime/cuda/activity_trace.h"

#include "ir/base/str.h"

#if STATOR_WITH_CUPTI
#include <cupti.h>
#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#endif

namespace stator {

#if STATOR_WITH_CUPTI
namespace {

constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};
constexpr size_t kBufferBytes = size_t{4} << 20, kBufferAlignment = 8;

struct Cupti {
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush = nullptr;
  decltype(&cuptiActivityGetNextRecord) next = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped = nullptr;
  decltype(&cuptiGetResultString) text = nullptr;
  std::string why_not;

  Cupti() {
    void* library = nullptr;
    for (const char* name : {"libcupti.so.13", "libcupti.so"}) {
      if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (library == nullptr) {
      why_not = "libcupti.so.13 was not found (its folder may be missing in LD_LIBRARY_PATH)";
      return;
    }
    Find(library, "cuptiActivityRegisterCallbacks", register_callbacks);
    Find(library, "cuptiActivityEnable", enable);
    Find(library, "cuptiActivityDisable", disable);
    Find(library, "cuptiActivityFlushAll", flush);
    Find(library, "cuptiActivityGetNextRecord", next);
    Find(library, "cuptiActivityGetNumDroppedRecords", dropped);
    Find(library, "cuptiGetResultString", text);
  }

  template <typename F>
  void Find(void* library, const char* name, F& function) {
    function = reinterpret_cast<F>(dlsym(library, name));
    if (function == nullptr) why_not = StrCat("libcupti has no ", name);
  }

  // "" for success.
  std::string Describe(CUptiResult status, const std::string& doing) const {
    if (status == CUPTI_SUCCESS) return "";
    const char* name = nullptr;
    (void)text(status, &name);
    return StrCat("CUPTI cannot ", doing, ": ", name != nullptr ? name : "unknown error");
  }
};

const Cupti& Library() {
  static const Cupti cupti;
  return cupti;
}

// Where records go: the callbacks are plain functions, called from any thread.
struct Records {
  std::mutex mutex;
  bool keep = false;
  size_t dropped = 0;
  std::vector<DeviceActivity> activities;
};
Records& Sink() {
  static Records records;
  return records;
}

void Keep(const CUpti_Activity& record, Records& sink) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL: {
      const auto& r = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
      sink.activities.push_back({r.start, r.end, r.name != nullptr ? r.name : "?"});
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& r = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
      sink.activities.push_back({r.start, r.end, ""});
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& r = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
      sink.activities.push_back({r.start, r.end, ""});
      break;
    }
    default:
      break;  // of kinds that were not asked for
  }
}

void CUPTIAPI GiveBuffer(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;  // without one, records are counted as dropped
  *max_records = 0;                               // as many as fit
}

void CUPTIAPI TakeBuffer(CUcontext context, uint32_t stream, uint8_t* buffer, size_t,
                         size_t valid_bytes) {
  Records& sink = Sink();
  const std::lock_guard lock(sink.mutex);
  CUpti_Activity* record = nullptr;
  while (Library().next(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    if (sink.keep) Keep(*record, sink);
  }
  size_t dropped = 0;
  if (Library().dropped(context, stream, &dropped) == CUPTI_SUCCESS && sink.keep) {
    sink.dropped += dropped;
  }
  std::free(buffer);
}

}  // namespace

ActivityTrace::ActivityTrace() : why_not_(Attach()) {}

ActivityTrace::~ActivityTrace() {
  if (why_not_.empty()) (void)DisableAll();
}

std::string ActivityTrace::Attach() {
  const Cupti& cupti = Library();
  if (!cupti.why_not.empty()) return cupti.why_not;
  std::string why = cupti.Describe(cupti.register_callbacks(GiveBuffer, TakeBuffer), "be attached");
  return why.empty() ? EnableAll() : why;
}

std::string ActivityTrace::EnableAll() {
  for (const CUpti_ActivityKind kind : kKinds) {
    std::string why = Library().Describe(Library().enable(kind), "trace the device");
    if (!why.empty()) return why;
  }
  return "";
}

std::string ActivityTrace::DisableAll() {
  std::string why = Library().Describe(Library().flush(0), "hand over its records");
  for (const CUpti_ActivityKind kind : kKinds) {
    std::string off = Library().Describe(Library().disable(kind), "stop tracing");
    if (why.empty()) why = std::move(off);
  }
  return why;
}

void ActivityTrace::Start(std::string* why_not) {
  {
    Records& sink = Sink();
    const std::lock_guard lock(sink.mutex);
    sink.activities.clear();
    sink.dropped = 0;
    sink.keep = true;
  }
  *why_not = EnableAll();
}

std::vector<DeviceActivity> ActivityTrace::Stop(std::string* why_not) {
  *why_not = DisableAll();
  Records& sink = Sink();
  const std::lock_guard lock(sink.mutex);
  sink.keep = false;
  if (why_not->empty() && sink.dropped > 0) {
    *why_not = StrCat("CUPTI lost ", sink.dropped, " records");
  }
  return std::move(sink.activities);
}

#else

ActivityTrace::ActivityTrace() : why_not_("this build has no CUPTI") {}
ActivityTrace::~ActivityTrace() = default;
void ActivityTrace::Start(std::string*) {}
std::vector<DeviceActivity> ActivityTrace::Stop(std::string*) { return {}; }

#endif

}  // namespace stator
