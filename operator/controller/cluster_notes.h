#pragma once

#include <map>
#include <set>
#include <string>

#include "common/base/time.h"
#include "operator/api/job_id.h"
#include "operator/reconcile/observed.h"
#include "operator/view/cluster_view.h"

namespace lockstep::control {

// What replies have told besides what the view of the cluster holds.
struct ClusterNotes {
  WallTime wall_now{};  // of the present step
  News news;
  std::set<JobId> unsettled;         // the server may have a newer status than we know
  std::set<JobId> pods_listed;       // since we lead
  std::set<JobId> foreign_services;  // somebody else's service has the job's name
  std::map<JobId, std::map<std::string, PodRefusal>> refused_pods;  // by pod; no job has none

  std::map<JobId, std::string> refused_workloads;  // in the server's words

  void Forget(const JobId& key) {
    unsettled.erase(key);
    pods_listed.erase(key);
    foreign_services.erase(key);
    refused_pods.erase(key);
    refused_workloads.erase(key);
  }
};

}  // namespace lockstep::control
