#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/json/json.h"
#include "operator/kubeclient/kube/request.h"

namespace lockstep::control {

// One kind of ours as the API server knows it.
struct ServedKind {
  std::string kind;                    // "TrainingJob"
  std::vector<std::string> missing{};  // fields of ours that it does not know: "spec.roles[].gpus"

  friend bool operator==(const ServedKind&, const ServedKind&) = default;
};

// Compares the definitions in the cluster with those of this program. The API server drops fields
// that its definition does not have, from what users and the operator write, and tells nobody.
// A definition that knows more than this program is fine. Thread: any.
class ServedSchema {
 public:
  // Reads the compiled-in definitions, which takes some milliseconds.
  ServedSchema();

  // What to ask the API server. Every user that is logged in may read it (system:discovery).
  static kube::Request Ask();

  // Judges the answer: the kinds of ours that the server knows. Errors: kUnavailable (it does not
  // answer, or does not know the group yet: nothing is known), kInvalidArgument (it may not be
  // read, or is not what it should be).
  Result<std::vector<ServedKind>> Judge(const kube::CallResult& answer) const;

 private:
  std::vector<std::pair<std::string, Json>> own_;  // schema by kind
};

// What is wrong, and what to do; empty: nothing is.
std::string DescribeMissing(const std::vector<ServedKind>& kinds);

}  // namespace lockstep::control
