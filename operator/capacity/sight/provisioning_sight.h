#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/json/json.h"

namespace lockstep::control {

// A ProvisioningRequest, a PodTemplate that one names, a placeholder pod, or a PodGroup, with the
// label of the job.
struct CapacityObject {
  std::string name;
  std::string uid;
  std::string revision;  // of what it was made of; see CapacityRevision
  bool is_ours = false;  // it belongs to this very job
  bool is_deleting = false;
  Json conditions;        // of its status, as they are stored; may be null
  std::string trouble{};  // of a placeholder pod: why no autoscaler is asked by it; empty: none
  // Of a request its spec, of a PodTemplate its template, as they are stored; else null.
  Json content{};
  int64_t generation = 0;  // of the same, as the server counts edits; 0: it does not

  friend bool operator==(const CapacityObject&, const CapacityObject&) = default;
};

// In place of the server's words, which tell of a page that was not found.
inline constexpr const char* kKindIsUnknown = "the API server does not know objects of this kind";

// What is seen of the objects by which a job asks autoscalers for room.
struct ProvisioningSight {
  bool is_followed = false;  // requests and templates have been listed
  std::vector<CapacityObject> requests;
  std::vector<CapacityObject> templates;
  bool are_placeholders_followed = false;  // they have been listed
  std::vector<CapacityObject> placeholders;
  // Why the server did not take what was written last, by the object's name; kKindIsUnknown: it
  // does not know such objects.
  std::map<std::string, std::string> refusals;

  friend bool operator==(const ProvisioningSight&, const ProvisioningSight&) = default;
};

}  // namespace lockstep::control
