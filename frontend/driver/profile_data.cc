#include "frontend/driver/profile_data.h"

#include "ir/base/str.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

namespace stator {
namespace {

template <typename Key>
std::vector<ProfileRow> Rows(const Profile& profile, Key key) {
  std::map<std::string, ProfileRow> rows;
  std::map<std::string, std::set<std::string>> scopes, kinds;
  const double total = profile.step_seconds();
  for (const ProfiledStep& s : profile.steps) {
    const std::string name = key(s);
    ProfileRow& row = rows[name];
    row.name = name;
    row.calls += s.runs;
    row.seconds += s.update_seconds();
    row.bytes += s.bytes * s.runs;
    row.flops += s.flops * s.runs;
    row.memory_seconds += s.bytes * s.runs / profile.ceilings.copy;
    row.math_seconds += s.flops * s.runs / profile.ceilings.Flops(s.dtype);
    scopes[name].insert(ScopePattern(s.scope));
    kinds[name].insert(s.kind);
  }
  std::vector<ProfileRow> sorted;
  for (auto& [name, row] : rows) {
    const std::set<std::string>& where = scopes[name];
    const std::vector<std::string> list(where.begin(), where.end());
    row.where = list.size() > 2 ? "several" : Join(list, ", ");
    row.kind = kinds[name].size() == 1 ? *kinds[name].begin() : "several";
    row.share = total > 0 ? row.seconds / total : 0;
    sorted.push_back(std::move(row));
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const ProfileRow& a, const ProfileRow& b) { return a.seconds > b.seconds; });
  return sorted;
}

}  // namespace

double Profile::step_seconds() const {
  double sum = 0;
  for (const ProfiledStep& s : steps) sum += s.update_seconds();
  return sum;
}

double Profile::between_seconds() const {
  double covered = 0, between = 0;  // entries are in the order of their starts
  for (const TimelineEntry& t : timeline) {
    between += std::max(0.0, t.start - covered);
    covered = std::max(covered, t.end);
  }
  return between;
}

const char* Name(Bound bound) {
  return bound == Bound::kMemory ? "memory" : bound == Bound::kMath ? "math" : "-";
}

Bound ProfileRow::bound() const {
  if (memory_seconds == 0 && math_seconds == 0) return Bound::kNothing;
  return memory_seconds >= math_seconds ? Bound::kMemory : Bound::kMath;
}

std::string ScopePattern(const std::string& scope) {
  std::string out;
  for (size_t i = 0; i < scope.size(); ++i) {
    out += scope[i];
    if (scope[i] != '.') continue;
    size_t end = i + 1;
    while (end < scope.size() && std::isdigit(static_cast<unsigned char>(scope[end]))) ++end;
    if (end == i + 1 || (end < scope.size() && scope[end] != '/')) continue;
    out += '*';
    i = end - 1;
  }
  return out;
}

std::vector<ProfileRow> KernelRows(const Profile& profile) {
  return Rows(profile, [](const ProfiledStep& s) { return s.kernel; });
}

std::vector<ProfileRow> ScopeRows(const Profile& profile) {
  return Rows(profile, [](const ProfiledStep& s) {
    return s.scope.empty() ? std::string("(no scope)") : ScopePattern(s.scope);
  });
}

std::vector<ProfileRow> SlowRows(const std::vector<ProfileRow>& kernels) {
  std::vector<ProfileRow> slow;
  for (const ProfileRow& row : kernels) {
    if (row.bound() == Bound::kMemory && row.share > kSlowShare && row.of_copy() < kSlowPart) {
      slow.push_back(row);
    }
  }
  return slow;
}

std::vector<ScopeDifference> CompareScopes(const Profile& first, const Profile& second) {
  std::map<std::string, ScopeDifference> scopes;
  for (const ProfileRow& row : ScopeRows(first)) scopes[row.name].first = row.seconds;
  for (const ProfileRow& row : ScopeRows(second)) scopes[row.name].second = row.seconds;
  std::vector<ScopeDifference> sorted;
  for (auto& [scope, difference] : scopes) {
    difference.scope = scope;
    sorted.push_back(difference);
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const ScopeDifference& a, const ScopeDifference& b) {
                     return std::abs(a.second - a.first) > std::abs(b.second - b.first);
                   });
  return sorted;
}

}  // namespace stator
