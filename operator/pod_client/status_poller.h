#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/base/result.h"
#include "common/base/time.h"
#include "common/contract/environment/topology.h"
#include "common/contract/status/control_message.h"
#include "common/contract/status/status_document.h"
#include "operator/pod_client/http_client.h"

namespace lockstep::control {

struct StatusPollerOptions {
  // A frozen process never answers: after this long it is asked again (choice: below the time in
  // which a hang must be noticed).
  Duration answer_timeout = std::chrono::milliseconds(500);

  // A pod that does not answer is asked less and less often, down to once in this time; zero: as
  // often as any other.
  Duration interval_max{};

  // Calls under way at once; the others wait their turn. No group has more of them under way than
  // are left, but for its first: pods that never answer leave room for those of other groups.
  std::size_t open_max = 64;

  const Clock* clock = nullptr;  // required; outlives the poller. Tokens are good for a while
};

// One pod to ask.
struct StatusTarget {
  std::string address;
  std::string job_key;  // opens its status
  Duration interval{};
  int port = kStatusPort;
  std::size_t answer_bytes_max = 0;  // as in HttpRequest

  friend bool operator==(const StatusTarget&, const StatusTarget&) = default;
};

// Pods of one group, by name.
using StatusTargets = std::map<std::string, StatusTarget>;

// What came back from one pod.
struct StatusAnswer {
  std::string group;
  std::string pod;
  Result<HttpResponse> response;
  TimePoint received;
};

// Asks pods for their status documents, each at most once at a time, so that one which does not
// answer holds up nobody.
// Thread: one; answers come on the client's.
class StatusPoller {
 public:
  // Takes an answer to the poller's thread, which hands it to Accept. Called on the client's
  // thread; calls under way may outlive the poller.
  using Deliver = std::function<void(StatusAnswer)>;

  // `client` outlives the poller.
  StatusPoller(StatusPollerOptions options, HttpClient* client, Deliver deliver);

  // The pods of a group to ask from now on. Others of the group are forgotten.
  void SetTargets(const std::string& group, const StatusTargets& targets, TimePoint now);

  // Asks every pod whose time has come.
  void Process(TimePoint now);

  // When Process has somebody to ask; null if there is nobody.
  std::optional<TimePoint> NextDeadline() const;

  // What an answer tells of a pod that is still asked.
  struct Finding {
    std::optional<StatusDocument> document;
    bool is_closed = false;               // its host says that nobody is at its port (any more)
    std::optional<TokenVerdict> refusal;  // it did not take our token, because
    int unanswered = 0;  // times in a row that it was asked and somebody listened, but said nothing
  };

  Finding Accept(const StatusAnswer& answer);

 private:
  using Key = std::pair<std::string, std::string>;  // group and pod

  struct Pod {
    StatusTarget target;
    TimePoint asked_at{};
    TimePoint due{};
    Duration pause{};  // until it is asked again
    bool is_waiting = false;
    int unanswered = 0;
    std::string token;  // of the target's key; empty: none yet
    WallTime token_made{};
  };

  // Calls of one group.
  struct Group {
    std::size_t open_count = 0;
    std::set<std::pair<TimePoint, std::string>> parked;  // due pods, until one of these has ended
  };

  bool MayAsk(const std::string& group) const;
  void Unpark(const std::string& group);
  void Forget(const Key& key, TimePoint due);
  void Ask(const Key& key, Pod* pod, TimePoint now);
  const std::string& TokenFor(const std::string& name, Pod* pod) const;

  StatusPollerOptions options_;
  HttpClient* client_;
  Deliver deliver_;
  std::map<Key, Pod> pods_;
  std::set<std::pair<TimePoint, Key>> due_;  // pods that neither wait for an answer nor are parked
  std::map<std::string, Group> groups_;      // with calls under way
  std::size_t open_ = 0;
};

}  // namespace lockstep::control
