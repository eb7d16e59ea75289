#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "operator/api/job/job_id.h"
#include "operator/controller/cluster.h"
#include "operator/controller/errand/errand.h"
#include "operator/kubeclient/kube/request.h"

namespace lockstep::control {

// Carries on the errands of many jobs, each at the pace of its own replies: every reply is read
// when it comes, and makes place for the next call.
// Thread: one, the controller's. `api` outlives it.
class ErrandRunner {
 public:
  // `calls_of_job_max`: calls of one job that are under way; fewer where their bodies are large.
  // Precondition: at least one.
  ErrandRunner(kube::CallStarter* api, std::size_t calls_of_job_max)
      : api_(api), calls_of_job_max_(calls_of_job_max) {}

  // Precondition (checked): no errand of this job is under way.
  void Begin(const JobId& job, std::unique_ptr<Errand> errand);

  // A reply has come. One to a call that was abandoned is ignored.
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
    std::size_t open_bytes = 0;      // of their bodies
  };

  struct Open {
    JobId job;
    std::size_t bytes = 0;
    std::function<void(kube::CallResult)> read;
  };

  void Advance(const JobId& job);
  void Send(const JobId& job, Running* running);
  bool MaySend(const Running& running) const;

  kube::CallStarter* api_;
  const std::size_t calls_of_job_max_;
  kube::CallTicket last_ticket_;
  std::map<JobId, Running> running_;
  std::map<kube::CallTicket, Open> open_;
  std::vector<ClusterAnswer> finished_;
};

}  // namespace lockstep::control
