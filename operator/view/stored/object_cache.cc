#include "operator/view/stored/object_cache.h"

namespace lockstep::control {

bool IsOlderVersion(std::string_view a, std::string_view b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

void RecentUids::Insert(const std::string& uid, Absence absence, const std::string& version) {
  if (uid.empty()) {
    return;
  }
  const auto [known, is_new] = uids_.try_emplace(uid, Removal{absence, version});
  if (!is_new) {
    if (known->second.absence != Absence::kGone) {
      known->second = {absence, version};
    }
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
  if (known == uids_.end()) {
    return true;
  }
  const Removal& removal = known->second;
  switch (removal.absence) {
    case Absence::kGone:
      return false;
    case Absence::kDeselected:  // that version is the one without the label
      return IsOlderVersion(removal.version, version);
    case Absence::kUnlisted:
      return !IsOlderVersion(version, removal.version);
  }
  return false;
}

}  // namespace lockstep::control
