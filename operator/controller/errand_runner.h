#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "operator/api/job_id.h"
#include "operator/controller/cluster.h"
#include "operator/controller/errand.h"
#include "operator/kube/request.h"

namespace lockstep::control {

// Carries on the errands of many jobs, each at the pace of its own replies.
// Thread: one, the controller's. `api` outlives it.
class ErrandRunner {
 public:
  explicit ErrandRunner(kube::CallStarter* api) : api_(api) {}

  // Precondition (checked): no errand of this job is under way.
  void Begin(const JobId& job, std::unique_ptr<Errand> errand);

  // Replies have come. Those to calls that were abandoned are ignored.
  void Accept(kube::CallsAnswered answered);

  // Drops all errands where they stand.
  void Abandon();

  // The errands that are over since the last call.
  std::vector<ClusterAnswer> TakeFinished();

 private:
  struct Running {
    std::unique_ptr<Errand> errand;
    std::deque<ErrandCall> waiting;  // of the present round
    std::size_t open_count = 0;      // asked, not answered
  };

  struct Open {
    JobId job;
    std::vector<ErrandCall> calls;
  };

  void Advance(const JobId& job);
  void Send(const JobId& job, Running* running);

  kube::CallStarter* api_;
  kube::CallTicket last_ticket_;
  std::map<JobId, Running> running_;
  std::map<kube::CallTicket, Open> open_;
  std::vector<ClusterAnswer> finished_;
};

}  // namespace lockstep::control
