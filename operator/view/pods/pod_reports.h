#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "common/base/time.h"
#include "common/contract/status/control_message.h"
#include "common/contract/status/status_document.h"
#include "operator/api/job/job_id.h"
#include "operator/kubeclient/kube/item.h"

namespace lockstep::control {

// A status document that a pod gave.
struct PodReport {
  kube::ObjectKey pod;
  StatusDocument document;
  TimePoint received{};
};

// How soon somebody should look at what has changed.
enum class ReportNews { kNone, kCalm, kUrgent };

// What pods said when they were asked how they are, and which of them did not listen then.
class PodReports {
 public:
  struct Entry {
    std::optional<PodReport> report;      // the newest
    std::optional<TimePoint> closed_at;   // nobody listened, if that is the last thing known
    std::optional<TokenVerdict> refusal;  // it did not take our token since it last reported
  };

  // A pod of the job has reported.
  ReportNews Accept(const JobId& job, PodReport report);

  // Nobody listened at the port of a pod of the job.
  ReportNews NoteClosed(const JobId& job, const std::string& pod, TimePoint when);

  // A pod of the job did not take our token.
  ReportNews NoteRefused(const JobId& job, const std::string& pod, TokenVerdict why);

  // Null when nothing was heard of the pod.
  const Entry* Find(const JobId& job, const std::string& pod) const;

  // Forgets the pods of the job that are not among these.
  void KeepOnly(const JobId& job, const std::set<std::string>& pods);

  void Forget(const JobId& job) { entries_.erase(job); }

  void Clear() { entries_.clear(); }

 private:
  std::map<JobId, std::map<std::string, Entry>> entries_;  // by the pod's name
};

}  // namespace lockstep::control
