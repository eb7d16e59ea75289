#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/controller/errand/cluster_notes.h"
#include "operator/controller/errand/errand.h"
#include "operator/view/cluster_view.h"

namespace lockstep::control {

// Lists objects page by page, as the server itself has them, not its cache.
class Listing {
 public:
  // Calls `learn` with each object.
  Listing(kube::Selection selection, std::function<void(std::string_view json)> learn)
      : selection_(std::move(selection)), learn_(std::move(learn)) {}

  bool is_over() const { return is_over_; }

  // The next page, until it is over.
  kube::Request Next() const;
  Status Read(kube::CallResult result);

 private:
  kube::Selection selection_;
  std::function<void(std::string_view json)> learn_;
  std::string continue_token_;
  bool is_over_ = false;
};

// Finds out what the view cannot tell of one job, before it is decided on: whether its status, its
// pods and its service are what they seem. Asks nothing when nothing is in doubt.
// `view` and `notes` outlive it.
class Look final : public Errand {
 public:
  Look(JobId key, ClusterView* view, ClusterNotes* notes);

  std::vector<ErrandCall> Next() override;
  std::vector<Status> TakeAnswers() override;

 private:
  bool IsBehindItsPods(const StoredJob& stored) const;
  bool HasPodsToList(const StoredJob& stored) const;
  ErrandCall JobReading();
  ErrandCall PodListing();
  ErrandCall ServiceReading();
  std::vector<ErrandCall> LabelRestorings(const StoredJob& stored);
  Status ReadRelabelled(const std::string& pod, kube::CallResult result);
  Status ReadJob(const std::string& known_uid, kube::CallResult result);
  Status ReadService(kube::CallResult result);
  void Note(Status status);

  const JobId key_;
  ClusterView* view_;
  ClusterNotes* notes_;
  Status answer_ = OkStatus();
  bool has_read_job_ = false;
  bool has_read_service_ = false;
  bool has_asked_untold_ = false;
  bool has_relabelled_ = false;
  int rounds_ = 0;
  int64_t lists_seen_ = 0;  // by the view, when the present round began
  std::optional<Listing> pods_;
};

// Asks the server for these pods of the job; what each reply tells enters the view.
// `note` takes what went wrong; `view` and `notes` outlive the calls.
std::vector<ErrandCall> PodReadings(const JobId& key,
                                    const std::vector<std::string>& names,
                                    ClusterView* view,
                                    ClusterNotes* notes,
                                    const std::function<void(Status)>& note);

// Reads all jobs: what another leader wrote last may be newer than our view.
class JobsLook final : public Errand {
 public:
  JobsLook(ClusterView* view, ClusterNotes* notes);

  std::vector<ErrandCall> Next() override;

  std::vector<Status> TakeAnswers() override { return {answer_}; }

 private:
  ClusterView* view_;
  ClusterNotes* notes_;
  const int64_t lists_seen_;  // by the view, when this began
  std::set<JobId> unlisted_;  // known, and not among those listed so far
  Listing jobs_;
  Status answer_ = OkStatus();
};

}  // namespace lockstep::control
