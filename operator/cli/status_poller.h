#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "common/base/unique_fd.h"
#include "common/contract/status_document.h"
#include "operator/transport/http_client.h"

namespace lockstep::control {

struct StatusPollerOptions {
  std::string job_key;
  // A frozen process never answers: after this long it is asked again (choice: below the time in
  // which a hang must be noticed).
  Duration answer_timeout = std::chrono::milliseconds(500);
};

// A status document and when it arrived.
struct StatusArrival {
  StatusDocument document;
  TimePoint received;
};

// Asks the pods for their status documents, each at most once at a time, so that one which does
// not answer holds up nobody. Answers wait in a queue of at most one entry a pod.
// Thread: one; answers come from the client's thread through fd().
class StatusPoller {
 public:
  // `client` outlives the poller. Errors: kIo, kResourceExhausted.
  static Result<std::unique_ptr<StatusPoller>> Make(StatusPollerOptions options,
                                                    HttpClient* client);

  // The pods to ask, name -> address. Others are forgotten.
  void SetTargets(const std::map<std::string, std::string>& targets);

  // Asks every pod that was not asked within `interval` and has answered since.
  void Process(TimePoint now, Duration interval);

  // When Process has somebody to ask; far away if there is nobody.
  TimePoint NextDeadline(TimePoint now, Duration interval) const;

  // Documents that came since the last call. What is not a valid document is dropped.
  std::vector<StatusArrival> TakeArrivals();

  // Readable when TakeArrivals has something.
  int fd() const;

 private:
  struct Target {
    std::string address;
    TimePoint asked_at{};
    bool is_waiting = false;
  };

  struct Answer {
    std::string pod;
    Result<HttpResponse> response;
    TimePoint received;
  };

  // Shared with calls under way, which may outlive the poller.
  class Inbox;

  StatusPoller(StatusPollerOptions options, HttpClient* client, std::shared_ptr<Inbox> inbox);

  StatusPollerOptions options_;
  HttpClient* client_;
  std::string authorization_;
  std::shared_ptr<Inbox> inbox_;  // its mutex is all that the threads share
  std::map<std::string, Target> targets_;
};

}  // namespace lockstep::control
