#include "operator/view/object_cache.h"

namespace lockstep::control {

bool IsOlderVersion(std::string_view a, std::string_view b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

void RecentUids::Insert(const std::string& uid) {
  if (uid.empty() || !uids_.insert(uid).second) {
    return;
  }
  order_.push_back(uid);
  if (order_.size() > kCountMax) {
    uids_.erase(order_.front());
    order_.pop_front();
  }
}

}  // namespace lockstep::control
