#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/result.h"
#include "common/base/strong_id.h"
#include "common/base/time.h"

namespace lockstep::control::kube {

// Calls to an API server as values: nothing here touches a socket.

enum class Verb { kGet, kList, kWatch, kCreate, kUpdate, kApply, kPatch, kDelete };

// A kind of object, as paths name it.
struct ResourceType {
  std::string_view group;    // empty: core
  std::string_view version;  // "v1"
  std::string_view plural;   // "pods"
  bool is_namespaced = true;

  friend bool operator==(const ResourceType&, const ResourceType&) = default;
};

inline constexpr ResourceType kPods{"", "v1", "pods"};
inline constexpr ResourceType kNodes{"", "v1", "nodes", false};
inline constexpr ResourceType kNamespaces{"", "v1", "namespaces", false};
inline constexpr ResourceType kResourceQuotas{"", "v1", "resourcequotas"};
inline constexpr ResourceType kServices{"", "v1", "services"};
inline constexpr ResourceType kSecrets{"", "v1", "secrets"};
inline constexpr ResourceType kEvents{"", "v1", "events"};
inline constexpr ResourceType kLeases{"coordination.k8s.io", "v1", "leases"};
inline constexpr ResourceType kPriorityClasses{"scheduling.k8s.io", "v1", "priorityclasses", false};
inline constexpr ResourceType kPodGroups{"scheduling.k8s.io", "v1alpha2", "podgroups"};
inline constexpr ResourceType kTrainingJobs{"lockstep.dev", "v1", "trainingjobs"};
inline constexpr ResourceType kWorkloads{"kueue.x-k8s.io", "v1beta2", "workloads"};
inline constexpr ResourceType kResourceFlavors{
    "kueue.x-k8s.io", "v1beta2", "resourceflavors", false};
inline constexpr ResourceType kTrainingQueues{"lockstep.dev", "v1", "trainingqueues", false};

// One HTTP request to the API server. The transport adds host, credentials and User-Agent.
struct Request {
  Verb verb = Verb::kGet;
  ResourceType resource;
  std::string method;        // "GET", "POST", "PUT", "PATCH", "DELETE"
  std::string target;        // path and query, already escaped
  std::string content_type;  // empty without a body
  std::string body;

  // Of a write: does no harm when it is carried out after another has begun to lead. It repeats
  // what a stored status has decided, under a name or a uid that nothing else has.
  bool may_outlast_lease = false;

  // Whether the request changes anything: such a one is sent only by a leader.
  bool is_mutating() const { return method != "GET"; }

  friend bool operator==(const Request&, const Request&) = default;
};

// Which objects a list or watch is about.
struct Selection {
  ResourceType resource;
  std::string namespace_name;  // empty: all
  std::string label_selector;
  std::string field_selector;

  friend bool operator==(const Selection&, const Selection&) = default;
};

struct WatchOptions {
  std::string resource_version;  // empty: the newest
  std::chrono::seconds timeout{300};
  bool sends_initial_events = false;  // WatchList: with resourceVersionMatch=NotOlderThan
};

struct ListOptions {
  std::string resource_version;  // empty: a consistent read; "0": whatever the server has
  std::string continue_token;
  int limit = 0;  // 0: no paging asked for
};

Request Get(const ResourceType& resource, std::string_view namespace_name, std::string_view name);
Request List(const Selection& selection, const ListOptions& options);
Request Watch(const Selection& selection, const WatchOptions& options);
// The server refuses fields that it does not know: what a person wrote amiss in a pod's template
// would be dropped in silence otherwise.
Request Create(const ResourceType& resource, std::string_view namespace_name, std::string body);

// The same request, which the server carries out but for the last step: nothing is stored, and
// controllers hear of nothing.
Request DryRun(Request request);

// Server-side apply of exactly the fields in `body`. `force` takes fields over from others.
struct ApplyOptions {
  std::string_view field_manager = "lockstep-operator";
  bool force = true;
  std::string_view subresource;  // "status", or empty
};

Request Apply(const ResourceType& resource,
              std::string_view namespace_name,
              std::string_view name,
              std::string body,
              const ApplyOptions& options = {});

// Replaces the object; `body` carries the resourceVersion that it replaces (compare and set).
Request Update(const ResourceType& resource,
               std::string_view namespace_name,
               std::string_view name,
               std::string body,
               std::string_view subresource = "");

// Merge patch (RFC 7386).
Request MergePatch(const ResourceType& resource,
                   std::string_view namespace_name,
                   std::string_view name,
                   std::string body,
                   std::string_view subresource = "");

struct DeleteOptions {
  std::string uid;  // precondition; empty: any
  std::optional<std::chrono::seconds> grace;
  bool is_foreground = false;
};

Request Delete(const ResourceType& resource,
               std::string_view namespace_name,
               std::string_view name,
               const DeleteOptions& options);

// A moment as a metav1.MicroTime, which has exactly six digits of a second. Source:
// k8s.io/apimachinery.
std::string FormatMicroTime(WallTime when);

// Statuses of replies that mean more than success or failure. Source: RFC 9110.
inline constexpr int kHttpUnauthorized = 401;
inline constexpr int kHttpForbidden = 403;
inline constexpr int kHttpNotFound = 404;

// What came back over HTTP, whatever its status.
struct Reply {
  int status = 0;
  std::string body;
  std::optional<std::chrono::seconds> retry_after;

  bool is_success() const { return status >= 200 && status < 300; }
};

// Why no reply came.
enum class FaultKind { kRefused, kDns, kTls, kTimeout, kReset, kTruncated, kCancelled, kNotLeader };

std::string_view FaultKindName(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kReset;
  bool request_sent = false;  // a write may have happened
  std::string message;        // for people
};

using CallResult = std::variant<Reply, Fault>;

// Whether a write with this result may have been carried out, without our hearing of it.
bool MayHaveHappened(const CallResult& result);

// Names calls that were begun together.
using CallTicket = StrongId<struct CallTicketTag>;

// All their answers, in the order of the requests.
struct CallsAnswered {
  CallTicket ticket;
  std::vector<CallResult> results;
};

// Begins calls whose answers come later, as messages. Two implementations: the client, and the
// simulated network.
class CallStarter {
 public:
  virtual ~CallStarter() = default;

  // Begins to carry out all of them side by side. CallsAnswered with this ticket follows once, to
  // whoever the implementation was told to tell, never from inside this call. Calls of one lane
  // take turns with those of others: none of them waits behind a whole crowd. Fencing and retries
  // are those of ApiCaller.
  virtual void StartCalls(CallTicket ticket,
                          const std::string& lane,
                          std::vector<Request> requests) = 0;

  // Nothing that was begun answers any more, and what was not sent yet is not sent.
  virtual void AbandonCalls() = 0;
};

// Carries out requests. Two implementations: the transport, and the simulated API server.
class ApiCaller {
 public:
  virtual ~ApiCaller() = default;

  // Carries out all of them side by side, in no order, as far as the caller's limit of open calls
  // allows, and waits for all answers: one for each request, in order. Waits at most its own
  // time-out; never throws. Requests that change something come back as kNotLeader, unsent, while
  // this process may not be the leader.
  // Retries by itself: 429 and 5xx with Retry-After, and GET after a reset; nothing else.
  virtual std::vector<CallResult> CallAll(const std::vector<Request>& requests) = 0;

  CallResult Call(const Request& request) { return std::move(CallAll({request}).front()); }
};

// The body of a failed call ("kind": "Status") as an Error: 404 kNotFound, 409 AlreadyExists
// kAlreadyExists, 409 otherwise kStale, 410 kStale, 422 and 400 kInvalidArgument, 403 for quota
// and 413 kResourceExhausted, other 403 and 401 kInvalidArgument (the message says who may not do
// what), 429, 5xx and all faults kUnavailable, timeouts kTimeout. The message is the server's.
Error ToError(const CallResult& result);

// The reply of a successful call, or the error.
Result<Reply> RequireSuccess(CallResult result);

}  // namespace lockstep::control::kube
