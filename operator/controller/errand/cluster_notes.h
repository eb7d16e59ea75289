#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "common/base/time.h"
#include "operator/api/job/job_id.h"
#include "operator/reconcile/observed.h"
#include "operator/view/cluster_view.h"

namespace lockstep::control {

// For so long the server may fail to make the pods of a job before anybody is told. Choice: an API
// server or a webhook that is exchanged is back by then.
inline constexpr std::chrono::seconds kFailurePatience{10};

// After so long without a failure the next one counts anew: more than lies between two tries.
inline constexpr std::chrono::seconds kFailureMemory{150};

// The server has failed to make pods of a job, and has made none in between.
struct CreationOutage {
  WallTime since{};
  WallTime last{};
};

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

  std::map<JobId, CreationOutage> outages;

  // Why the server did not take an object of the job, in its words, by the object's name. No job
  // has none, or more than kRefusedWritesMax.
  std::map<JobId, std::map<std::string, std::string>> refused_writes;

  // The server does not want the pod, in its words. `is_invalid`: and never will.
  void NoteRefusal(const JobId& job,
                   const std::string& pod,
                   const std::string& words,
                   bool is_invalid);

  // The server failed over the pod, or over what it needs, as a webhook that is down has it fail.
  // It may come back any moment: a refusal only after kFailurePatience.
  void NoteFailure(const JobId& job, const std::string& pod, const std::string& words);

  void NoteCreated(const JobId& job, const std::string& pod);

  void Forget(const JobId& key) {
    unsettled.erase(key);
    pods_listed.erase(key);
    foreign_services.erase(key);
    refused_pods.erase(key);
    outages.erase(key);
    refused_writes.erase(key);
  }
};

}  // namespace lockstep::control
