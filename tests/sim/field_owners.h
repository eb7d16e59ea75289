#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/json/json.h"

namespace lockstep::control::sim {

// Who has applied which fields of one object, as server-side apply keeps it. Lists are one field,
// and what is written otherwise than by apply belongs to nobody.
class FieldOwners {
 public:
  // What stands in the way of `manager` applying `wanted` to `live`: fields to be changed that
  // others own, each as the API server words it.
  std::vector<std::string> Conflicts(const std::string& manager,
                                     const Json& wanted,
                                     const Json& live) const;

  // The object with `wanted` applied: what the manager applied before and leaves out now is removed
  // unless others own it too. Fields that others owned with another value are the manager's now.
  Json Apply(const std::string& manager, const Json& wanted, const Json& live);

 private:
  using Path = Json::json_pointer;
  using Fields = std::map<Path, Json>;

  static Fields FieldsOf(const Json& object);
  bool IsOwnedByAnother(const std::string& manager, const Path& path) const;

  std::map<std::string, Fields> fields_;  // by manager
};

}  // namespace lockstep::control::sim
