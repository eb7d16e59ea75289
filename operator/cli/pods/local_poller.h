#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

#include "common/base/io/unique_fd.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/contract/environment/topology.h"
#include "common/contract/status/status_document.h"
#include "common/process/thread_watch.h"
#include "operator/cli/pods/pod_silence.h"
#include "operator/pod_client/http_client.h"
#include "operator/pod_client/status_poller.h"

namespace lockstep::control {

struct LocalPollerOptions {
  std::string job_key;
  // A frozen process never answers: after this long it is asked again (choice: below the time in
  // which a hang must be noticed).
  Duration answer_timeout = std::chrono::milliseconds(500);
};

// One pod of the run to ask.
struct LocalTarget {
  std::string address;
  int port = kStatusPort;
  bool has_runtime = false;  // that listens from the pod's first moment
  pid_t leader = 0;          // the pod's first process, which has the runtime's status
};

// A status document and when it arrived.
struct StatusArrival {
  StatusDocument document;
  TimePoint received;
};

// Asks the pods of one run for their status documents, and makes their answers something to poll.
// Thread: one; answers come from the client's thread through fd().
class LocalPoller {
 public:
  // `client` outlives the poller. Errors: kIo, kResourceExhausted.
  static Result<std::unique_ptr<LocalPoller>> Make(LocalPollerOptions options, HttpClient* client);

  // The pods to ask, by name, and how often each. Others are forgotten.
  void SetTargets(std::map<std::string, LocalTarget> targets, Duration interval, TimePoint now);

  // Asks every pod whose time has come.
  void Process(TimePoint now) { poller_.Process(now); }

  // When Process has somebody to ask; null if there is nobody.
  std::optional<TimePoint> NextDeadline() const { return poller_.NextDeadline(); }

  // Documents that came since the last call. What is not a valid document is dropped.
  std::vector<StatusArrival> TakeArrivals();

  // Pods that do not answer.
  std::set<std::string> MutePods() const { return silence_.Mute(); }

  // Readable when TakeArrivals has something.
  int fd() const;

 private:
  // Shared with calls under way, which may outlive the poller.
  class Inbox;

  LocalPoller(const LocalPollerOptions& options,
              HttpClient* client,
              const std::shared_ptr<Inbox>& inbox);

  std::string job_key_;
  std::shared_ptr<Inbox> inbox_;  // its mutex is all that the threads share
  const double core_count_;
  std::map<std::string, LocalTarget> targets_;
  ThreadWatch watch_;
  PodSilence silence_;
  StatusPoller poller_;
};

}  // namespace lockstep::control
