// What a kernel must move between its memory and the device's, whatever text it has: each element
// that it reads, once, and each that it writes. `stator profile` holds a kernel's time against it.
//
// Of an operand these are the windows that its region reads: slices count as they are, repeated
// elements once, what several windows share once. Where an index picks rows, at most as many
// elements as are picked. What is written in place is read and written. Caches' lines are not
// looked at: a column of a matrix counts its own elements.
#pragma once

#include "codegen/window.h"
#include "ir/graph.h"

#include <map>
#include <set>

namespace stator {

struct RegionParts;

class Traffic {
 public:
  // Of the windows of the values that own the storage.
  void Read(Value base, const Window& window) { reads_[base].windows.insert(window); }
  // At places of `base` that only a run tells: an element for each of `window` on `picker`, a
  // result that picks them.
  void Pick(Value base, Value picker, const Window& window) {
    reads_[base].picks[picker].insert(window);
  }
  void Write(Value result) { written_.insert(result); }
  // What another kernel does in the same launch.
  void Add(const Traffic& other);

  double Bytes() const;
  // The values that own what is read, and those that are written.
  std::set<Value> read() const;
  const std::set<Value>& written() const { return written_; }

 private:
  struct Reads {
    std::set<Window> windows;
    std::map<Value, std::set<Window>> picks;  // by what picks
  };
  std::map<Value, Reads> reads_;
  std::set<Value> written_;
};

Traffic TrafficOf(const RegionParts& parts);

}  // namespace stator
