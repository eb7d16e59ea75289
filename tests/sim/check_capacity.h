#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "tests/sim/api_server.h"
#include "tests/sim/sim_context.h"

namespace lockstep::control::sim {

// What must hold of ProvisioningRequests and the PodTemplates that they name, as they are stored:
// read by no decoder of the operator's.
class CapacityChecks {
 public:
  using Require = std::function<void(bool holds, const std::string& what)>;

  CapacityChecks(SimContext* context, const ApiServer* server, Require require)
      : context_(context), server_(server), require_(std::move(require)) {}

  // The operator has made an object.
  void OnCreated(const kube::ResourceType& type, const Json& object);

  // The operator has changed or removed one; null `after`: removed.
  void OnWrite(const Json& before, const ObjectPtr& after);

  // The operator has written a job's status. Returns whether it asks for room from now on.
  bool OnStatusWrite(const Json& before, const Json& after);

  // Somebody else has removed an object of these.
  void NoteRemoved() { removed_at_ = context_->now; }

  // Somebody else has edited that one: nobody goes by it for long.
  void NoteEdited(const std::string& uid) { edited_.insert(uid); }

  // Looks at everything.
  void CheckWorld();

  // In quiet: what there is that no job asks for, or what one asks for and there is not. Empty:
  // nothing.
  std::string OutOfPlace() const;

 private:
  bool IsLeftOver(const kube::ObjectKey& key, const Json& object) const;
  void Bound(const std::string& what, bool is_so, const std::string& problem);

  SimContext* context_;
  const ApiServer* server_;
  Require require_;
  // By "PLURAL/NAME": the uid of the job for which it was made, and of what.
  std::map<std::string, std::pair<std::string, std::string>> made_for_;
  std::map<std::string, TimePoint> since_;  // by what ought not to be for long
  std::optional<TimePoint> removed_at_;
  std::set<std::string> edited_;  // by uid
};

}  // namespace lockstep::control::sim
