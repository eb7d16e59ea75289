#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/time.h"
#include "common/json/json.h"
#include "operator/kubeclient/kube/request.h"
#include "tests/sim/field_owners.h"
#include "tests/sim/object_store.h"
#include "tests/sim/selector.h"

namespace lockstep::control::sim {

// Where a request goes, read back from its path and query.
struct Route {
  Collection* collection = nullptr;
  kube::ObjectKey key;  // the name is empty for a whole collection
  std::string subresource;
  std::map<std::string, std::string> query;

  const std::string& Parameter(const std::string& name) const;
};

// What the pods of one namespace may be, together. Ended pods do not count, but as objects.
struct Quota {
  int64_t pods_max = 0;
  int64_t gpus_max = 0;
  std::optional<int64_t> objects_max{};  // null: any number
};

// What stands between a pod and the cluster, beside quotas.
struct Admission {
  std::map<std::string, std::string> cpu_default;  // by namespace: what a LimitRange fills in
  int denials = 0;                                 // pods of jobs that a webhook is yet to deny,
  int bad_requests = 0;                            // to answer with 400 and no reason,
  int slow_answers = 0;                            // and to let in late
  // What has happened.
  int64_t raised_count = 0;
  int64_t denied_count = 0;
  int64_t bad_request_count = 0;
  int64_t slow_count = 0;
};

// An API server as far as the operator can tell: versions, conflicts, preconditions, selectors,
// status subresources, watches with history and bookmarks, server-side apply, graceful deletion,
// owners and finalizers. tests/conformance holds it to the real one.
//
// A state machine: nothing happens between calls. What controllers and kubelets of a cluster do is
// done by Change, Bind and CollectGarbage when the simulation says so.
class ApiServer {
 public:
  // One call. A watch is refused: see OpenWatch.
  kube::Reply Handle(const kube::Request& request, WallTime now);

  // Starts a watch. Its id, or the refusal.
  struct WatchStart {
    kube::Reply reply;  // 200 with an empty body when it was started
    int id = 0;
  };

  WatchStart OpenWatch(const kube::Request& request);

  // The next bytes of the stream, of at most that many changes; empty when nothing has happened.
  // After an ERROR event the stream has ended: nothing follows.
  std::string ReadWatch(int id, std::size_t changes_max);

  // A bookmark as the next bytes, if the watch asked for bookmarks and has been told everything.
  std::string Bookmark(int id);

  void CloseWatch(int id) { watches_.erase(id); }

  // Writes an object as somebody with all rights would, without a precondition. `change` edits it.
  // Returns false when it is not there. A write that changes nothing is none.
  bool Edit(const kube::ResourceType& type,
            const kube::ObjectKey& key,
            const std::function<void(Json*)>& change);

  // What the garbage collector does next: deletes one object whose owners are gone, or lets go of
  // an owner whose dependents are. Returns false when there is nothing to do.
  bool CollectGarbage(WallTime now);

  // Deletes as DELETE does.
  kube::Reply Delete(Collection* collection,
                     const kube::ObjectKey& key,
                     const Json& options,
                     WallTime now);

  ObjectStore* mutable_store() { return &store_; }

  const ObjectStore& store() const { return store_; }

  std::map<std::string, Quota> quotas;  // by namespace
  Admission admission;
  std::set<std::string> terminating;  // namespaces that are being deleted
  int64_t cache_lag = 0;              // by how many versions lists at version 0 are behind
  bool has_streaming_lists = true;    // else refused with 422, as older servers do
  bool pages_everything = false;      // pages even lists at version 0

 private:
  struct WatchState {
    const Collection* collection = nullptr;
    std::string namespace_name;
    Selector labels;
    Selector fields;
    int64_t version = 0;  // told up to here
    std::string initial;  // bytes to send first
    bool wants_bookmarks = false;
    bool is_over = false;
  };

  std::optional<Route> RouteOf(const kube::Request& request);
  kube::Reply Read(const Route& route) const;
  kube::Reply List(const Route& route) const;
  kube::Reply Create(const Route& route, Json body, WallTime now);
  kube::Reply Update(const Route& route, Json body, WallTime now);
  kube::Reply Patch(const Route& route, const Json& body, WallTime now);
  kube::Reply Apply(const Route& route, const Json& body, WallTime now);
  kube::Reply Replace(const Route& route, const ObjectPtr& before, Json after, WallTime now);
  std::optional<kube::Reply> WebhookRefusal(const Json& pod);
  void ApplyLimitRange(const std::string& namespace_name, Json* pod);
  Quota UsedOf(const std::string& namespace_name) const;
  Json WithUse(const Json& quota) const;
  std::optional<std::string> QuotaProblem(const Json& pod, const std::string& namespace_name) const;
  bool IsAnyOwnerThere(const Json& object, const std::string& namespace_name) const;
  bool EmptyNamespace(const std::string& name, WallTime now);
  bool LetGoOfOwner(Collection* collection, const kube::ObjectKey& key, WallTime now);
  bool RemoveOrphan(Collection* collection, WallTime now);

  ObjectStore store_;
  std::map<int, WatchState> watches_;
  std::map<std::string, FieldOwners> owners_;  // by uid
  int64_t uids_ = 0;
  int next_watch_ = 1;
};

// Whether objects of the kind are custom objects with a generation and a status of its own.
bool IsCustomKind(const Collection& collection);

// "trainingjobs.lockstep.dev" and "TrainingJob.lockstep.dev", or "pods" and "Pod".
std::string QualifiedName(const Collection& collection);
std::string QualifiedKind(const Collection& collection);

// A refusal, or a success without an object, as the API server words it.
kube::Reply StatusReply(int code, std::string_view reason, const std::string& message);
kube::Reply NoSuchResourceReply();
kube::Reply NotFoundReply(const Collection& collection, const std::string& name);
kube::Reply ConflictReply(const std::string& qualified,
                          const std::string& name,
                          const std::string& why);
kube::Reply ForbiddenReply(const Collection& collection,
                           const std::string& name,
                           const std::string& why);
kube::Reply InvalidReply(const Collection& collection,
                         const std::string& name,
                         const std::string& why);
kube::Reply AlreadyExistsReply(const Collection& collection, const Json& object);
kube::Reply ObjectReply(int code, const Collection& collection, const Json& object);

// The object with apiVersion and kind, as replies and watches carry it.
std::string ObjectText(const Collection& collection, const Json& object);

}  // namespace lockstep::control::sim
