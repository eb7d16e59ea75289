#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/time.h"
#include "common/contract/status/status_document.h"
#include "operator/api/job/training_job.h"
#include "operator/kubeclient/kube/objects.h"

namespace lockstep::control {

// A pod to ask for its status document, and how often.
struct PollTarget {
  std::string pod;
  std::string address;
  Duration interval{};

  friend bool operator==(const PollTarget&, const PollTarget&) = default;
};

// Whether a process speaks of a peer that is lost or silent, or that a meeting has waited for too
// long.
bool Accuses(const StatusDocument& document);

// What pods have told, by their names.
struct PollKnowledge {
  std::map<std::string, const StatusDocument*> documents;  // the newest of each
  std::set<std::string> closed;                            // nobody listened when last asked
};

// Which pods of the job to ask. While all is well the two lowest ranks speak for all: they know
// their peers, and are asked less often before their first word. Once the whole gang runs, ranks
// whose devices are not known yet are asked until they have told; and while one of them accuses a
// peer, has stopped to listen, or says where its ranks hang, all are asked: the accused can answer
// for itself, and the others can say what they know of it. Where programs may be started anew
// within their pods, or ranks train a model each, each pod is asked now and then, and all of them
// soon while one waits for that start.
std::vector<PollTarget> PollPlan(const TrainingJob& job,
                                 const std::vector<const kube::Pod*>& pods,
                                 const PollKnowledge& known);

}  // namespace lockstep::control
