#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/json/json.h"
#include "operator/kubeclient/kube/item.h"
#include "operator/kubeclient/kube/request.h"

namespace lockstep::control::sim {

// Objects are never changed in place: a version, once stored, is shared by history and readers.
using ObjectPtr = std::shared_ptr<const Json>;

// One write: null where there was, or is, nothing.
struct Change {
  int64_t version = 0;
  kube::ObjectKey key;
  ObjectPtr before;
  ObjectPtr after;
};

// All objects of one kind.
struct Collection {
  kube::ResourceType type;
  std::string api_version;
  std::string kind;
  std::map<kube::ObjectKey, ObjectPtr> objects;
  std::deque<Change> history;  // oldest first
  int64_t forgotten = 0;       // changes up to this version are no longer in the history
};

// What an API server keeps: objects by kind, one version counter over all of them, and what has
// changed since a while. Stores whatever it is given; rules are the ApiServer's.
class ObjectStore {
 public:
  ObjectStore();

  // Null for a kind that nobody here uses. `group` and `plural` as in a path.
  Collection* Find(std::string_view group, std::string_view plural);

  Collection& Of(const kube::ResourceType& type);
  const Collection& Of(const kube::ResourceType& type) const;

  std::vector<Collection*> All();

  // Null when there is none.
  ObjectPtr Get(const kube::ResourceType& type, const kube::ObjectKey& key) const;

  // Stores the object under the next version, which is written into its metadata.
  ObjectPtr Put(Collection* collection, const kube::ObjectKey& key, Json object);

  // Removes the object. What watchers are told carries the version of its removal.
  void Remove(Collection* collection, const kube::ObjectKey& key);

  // The objects as they were after `version`. Precondition (checked): the history reaches back.
  std::map<kube::ObjectKey, ObjectPtr> At(const Collection& collection, int64_t version) const;

  // Forgets all history: every watch that is behind must list again.
  void Compact();

  int64_t version() const { return version_; }

 private:
  void Note(Collection* collection, Change change);

  std::map<std::string, Collection> collections_;  // by "group/plural"
  int64_t version_ = 100;                          // choice: versions of different lengths occur
};

// Holds an owner back until its dependents have gone.
inline constexpr const char* kForegroundFinalizer = "foregroundDeletion";

std::string UidOf(const Json& object);
bool IsDeleting(const Json& object);
std::vector<std::string> FinalizersOf(const Json& object);

}  // namespace lockstep::control::sim
