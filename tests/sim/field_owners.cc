#include "tests/sim/field_owners.h"

#include <algorithm>
#include <utility>

namespace lockstep::control::sim {
namespace {

const Json::json_pointer kMetadata("/metadata");

// "/spec/ports" as ".spec.ports".
std::string Worded(const Json::json_pointer& path) {
  std::string text = path.to_string();
  std::replace(text.begin(), text.end(), '/', '.');
  return text;
}

bool Differs(const Json& live, const Json::json_pointer& path, const Json& value) {
  return !live.contains(path) || live.at(path) != value;
}

}  // namespace

FieldOwners::Fields FieldOwners::FieldsOf(const Json& object) {
  Fields fields;
  const auto collect = [&](const auto& self, const Json& value, const Path& path) -> void {
    if (!value.is_object()) {
      fields.emplace(path, value);
      return;
    }
    for (const auto& [key, item] : value.items()) {
      if (path != kMetadata || (key != "name" && key != "namespace" && key != "uid")) {
        self(self, item, path / key);
      }
    }
  };
  collect(collect, object, Path());
  return fields;
}

bool FieldOwners::IsOwnedByAnother(const std::string& manager, const Path& path) const {
  return std::any_of(fields_.begin(), fields_.end(), [&](const auto& entry) {
    return entry.first != manager && entry.second.count(path) > 0;
  });
}

std::vector<std::string> FieldOwners::Conflicts(const std::string& manager,
                                                const Json& wanted,
                                                const Json& live) const {
  std::vector<std::string> conflicts;
  for (const auto& [path, value] : FieldsOf(wanted)) {
    for (const auto& [other, fields] : fields_) {
      if (other != manager && fields.count(path) > 0 && Differs(live, path, value)) {
        conflicts.push_back("conflict with \"" + other + "\": " + Worded(path));
      }
    }
  }
  return conflicts;
}

Json FieldOwners::Apply(const std::string& manager, const Json& wanted, const Json& live) {
  Fields fields = FieldsOf(wanted);
  for (const auto& [path, value] : fields) {
    for (auto& [other, others] : fields_) {
      if (other != manager && Differs(live, path, value)) {
        others.erase(path);
      }
    }
  }
  Json after = live;
  for (const auto& [path, value] : fields_[manager]) {
    if (fields.count(path) == 0 && !IsOwnedByAnother(manager, path) && after.contains(path)) {
      after.at(path.parent_pointer()).erase(path.back());
    }
  }
  after.merge_patch(wanted);
  fields_[manager] = std::move(fields);
  return after;
}

}  // namespace lockstep::control::sim
