#include "trainer-runtime/collectives/nccl/testing/fake_nccl_ends.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace lockstep::runtime::nccl {
namespace {

struct OwnEnds {
  std::mutex mutex;
  std::vector<std::pair<Comm*, UniqueId>> list;
};

OwnEnds& Ends() {
  static OwnEnds ends;
  return ends;
}

}  // namespace

void RememberEnd(Comm* comm, const UniqueId& id) {
  OwnEnds& ends = Ends();
  const std::lock_guard lock(ends.mutex);
  for (const auto& [other, other_id] : ends.list) {
    if (std::memcmp(&other_id, &id, sizeof(id)) == 0) {
      other->has_siblings = true;
      comm->has_siblings = true;
    }
  }
  ends.list.emplace_back(comm, id);
}

void ForgetEnd(const Comm* comm) {
  OwnEnds& ends = Ends();
  const std::lock_guard lock(ends.mutex);
  std::erase_if(ends.list, [comm](const auto& end) { return end.first == comm; });
}

std::vector<const Comm*> EndsBeside(const Comm* comm) {
  OwnEnds& ends = Ends();
  const std::lock_guard lock(ends.mutex);
  const auto own = std::find_if(
      ends.list.begin(), ends.list.end(), [comm](const auto& end) { return end.first == comm; });
  std::vector<const Comm*> beside;
  for (const auto& [other, id] : ends.list) {
    if (std::memcmp(&id, &own->second, sizeof(id)) == 0) {
      beside.push_back(other);
    }
  }
  return beside;
}

}  // namespace lockstep::runtime::nccl
