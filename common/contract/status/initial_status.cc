#include "common/contract/status/initial_status.h"

namespace lockstep {

StatusDocument InitialStatus(const WorkerEnvironment& environment) {
  StatusDocument document;
  document.job = environment.job;
  document.job_uid = environment.job_uid;
  document.pod = environment.pod;
  document.task = environment.task;
  document.rank = environment.rank;
  document.world_size = environment.world_size;
  document.incarnation = environment.incarnation;
  document.attempt = environment.attempt;
  document.epoch = environment.epoch;
  document.checkpoint_directory = environment.checkpoint_directory;
  return document;
}

}  // namespace lockstep
