#include "operator/view/object_cache.h"

namespace lockstep::control {

bool IsOlderVersion(std::string_view a, std::string_view b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

void RecentUids::Insert(const std::string& uid, const std::string& version) {
  if (uid.empty()) {
    return;
  }
  const auto [known, is_new] = uids_.try_emplace(uid, version);
  if (!is_new) {
    known->second = known->second.empty() || version.empty() ? "" : version;
    return;
  }
  order_.push_back(uid);
  if (order_.size() > kCountMax) {
    uids_.erase(order_.front());
    order_.pop_front();
  }
}

bool RecentUids::MayComeBack(const std::string& uid, std::string_view version) const {
  const auto known = uids_.find(uid);
  return known == uids_.end() || (!known->second.empty() && IsOlderVersion(known->second, version));
}

}  // namespace lockstep::control
