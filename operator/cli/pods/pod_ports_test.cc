#include "operator/cli/pods/pod_ports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using ::testing::ElementsAre;

TrainingJob JobOf(bool is_training) {
  TrainingJob job;
  job.metadata.name = "job";
  job.metadata.namespace_name = "default";
  RoleSpec worker;
  worker.name = Role::kWorker;
  worker.replicas = 2;
  worker.processes = 2;
  job.spec.roles = {worker};
  if (is_training) {
    job.spec.training.emplace();
  }
  return job;
}

const LoopbackAddressing kOwn{"127.83.7", 12000};

TEST(PortsOfPod, OfTheBuiltInTrainerAreThoseOfItsProcessesAndItsStatus) {
  EXPECT_THAT(PortsOfPod(JobOf(true), kOwn, {Role::kWorker, 1}),
              ElementsAre(ListenPlace{"127.83.7.2", 12005},
                          ListenPlace{"127.83.7.2", 12006},
                          ListenPlace{"127.83.7.2", 12001}));
}

TEST(PortsOfPod, OfACommandMayBeBoundEverywhereAndRankZeroHasMore) {
  EXPECT_THAT(PortsOfPod(JobOf(false), kOwn, {Role::kWorker, 0}),
              ElementsAre(ListenPlace{"127.83.7.1", 12003, true},
                          ListenPlace{"127.83.7.1", 12004, true},
                          ListenPlace{"127.83.7.1", 12001},
                          ListenPlace{"127.83.7.1", 12000, true},
                          ListenPlace{"127.83.7.1", 12002}));
}

}  // namespace
}  // namespace lockstep::control
