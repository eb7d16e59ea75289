#pragma once

#include <optional>
#include <string>

#include "common/base/result.h"
#include "operator/api/job/job_id.h"
#include "operator/controller/errand/cluster_notes.h"
#include "operator/kubeclient/kube/request.h"
#include "operator/reconcile/decision.h"

namespace lockstep::control {

// The call that carries it out.
kube::Request RequestOf(const std::string& namespace_name, const WriteObject& write);

// What the reply says of it. An object that is to be changed or deleted and is another by now is
// looked at anew when the watch shows it: nothing is left to do.
Status AnswerTo(const WriteObject& write, kube::CallResult result);

// A placeholder pod of which a webhook has made something else: no watch may show it, as they go by
// its scheduler.
struct SpoiltPod {
  WriteObject removal;
  Status trouble;  // what is wrong with it
};

// Whether the object that a create has made, or has found, is one. `result`: the reply that has it.
std::optional<SpoiltPod> FindSpoilt(const WriteObject& write, const kube::CallResult& result);

// What a name that a create found taken means, by what is there (the reply to a GET): the object is
// the job's own, or kAlreadyExists.
Status OwnedBy(const std::string& job_uid, const WriteObject& write, kube::CallResult result);

// Keeps in mind why the server did not take it, or that it did.
void NoteWrite(const JobId& job,
               const WriteObject& write,
               const Status& answer,
               ClusterNotes* notes);

}  // namespace lockstep::control
