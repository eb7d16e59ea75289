#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "common/base/result.h"
#include "operator/kubeclient/kube/request.h"

namespace lockstep::control {

// One call of an errand, and who reads its reply.
struct ErrandCall {
  // When it is sent: the pods of a gang are megabytes. Null: it is not wanted any more.
  std::function<std::optional<kube::Request>()> make;
  std::function<void(kube::CallResult)> read;  // not called of what was not sent
};

// Something that takes calls to the API server, in rounds: what to ask next follows from the
// replies. Touches no socket; ErrandRunner carries it on.
class Errand {
 public:
  virtual ~Errand() = default;

  // The calls of the next round, in no order among each other. Called when every reply of the last
  // one has been read; none: the errand is over.
  virtual std::vector<ErrandCall> Next() = 0;

  // What has become of it, when it is over. Called once.
  virtual std::vector<Status> TakeAnswers() = 0;
};

}  // namespace lockstep::control
