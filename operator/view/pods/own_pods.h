#pragma once

#include "operator/kubeclient/kube/item.h"
#include "operator/kubeclient/kube/objects.h"
#include "operator/view/stored/stored_job.h"

namespace lockstep::control {

// Whether somebody will tell of the pod's end: it carries our label, or it is the job's, which
// gives it back. `job`: that JobOf says; null: there is none.
bool IsFollowed(const StoredJob* job, const kube::Pod& pod);

// Whether the watch's word that `gone` has gone may only mean that somebody took its label off: it
// was the job's, and neither had it ended nor had anybody asked it to go. The server tells which.
// `known`: what was known under its name; null: nothing.
bool MayBeDeselected(const StoredJob* job,
                     const kube::Item<kube::Pod>* known,
                     const kube::Item<kube::Pod>& gone);

}  // namespace lockstep::control
