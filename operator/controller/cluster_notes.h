#pragma once

#include <cstddef>
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
  // Of the server's words for what it refuses. Choice: a webhook may say anything, and whoever
  // reads it has read enough.
  static constexpr std::size_t kRefusalBytesMax = 1024;

  // Choice: more than a job has objects to write. Those of names that are not written any more go.
  static constexpr std::size_t kRefusedWritesMax = 64;

  WallTime wall_now{};  // of the present step
  News news;
  std::set<JobId> unsettled;         // the server may have a newer status than we know
  std::set<JobId> pods_listed;       // since we lead
  std::set<JobId> foreign_services;  // somebody else's service has the job's name
  std::map<JobId, std::map<std::string, PodRefusal>> refused_pods;  // by pod; no job has none

  // Why the server did not take an object of the job, in its words, by the object's name. No job
  // has none, or more than kRefusedWritesMax.
  std::map<JobId, std::map<std::string, std::string>> refused_writes;

  void Forget(const JobId& key) {
    unsettled.erase(key);
    pods_listed.erase(key);
    foreign_services.erase(key);
    refused_pods.erase(key);
    refused_writes.erase(key);
  }
};

}  // namespace lockstep::control
