#include "operator/reconcile/gang/gang_origin.h"

#include <gtest/gtest.h>

#include "common/base/digest.h"
#include "common/json/json.h"

namespace lockstep::control {
namespace {

TrainingJobSpec SpecOfACommand() {
  TrainingJobSpec spec;
  spec.roles.resize(1);
  spec.roles[0].gpus = 2;
  spec.roles[0].pod.raw = Json::object({{"spec", {{"hostNetwork", true}}}});
  return spec;
}

// The status of a gang that runs has it: with another one the gang would count as outdated.
TEST(RevisionOf, IsThatOfEarlierVersions) {
  EXPECT_EQ(RevisionOf(SpecOfACommand()),
            Sha256Hex(R"({"strategy":"MultiWorkerMirrored","training":null,"roles":[)"
                      R"({"name":"worker","gpus":2,"processes":1,"supervise":true,)"
                      R"("template":{"spec":{"hostNetwork":true}}}],)"
                      R"("patience":{"rendezvousTimeout":60000,"silentAfter":1500},)"
                      R"("priorityClass":""})")
                .substr(0, kRevisionDigits));
}

TEST(RevisionOf, IsNotComputedAgainForAJobThatWasRead) {
  TrainingJob job;
  job.spec = SpecOfACommand();
  EXPECT_EQ(OriginNow(job, {}).revision, RevisionOf(job.spec));
  job.revision = "as it was read";
  EXPECT_EQ(OriginNow(job, {}).revision, "as it was read");
  job.metadata.generation = 2;
  GangOrigin origin;
  origin.revision = "as it was read";
  EXPECT_FALSE(IsOutdated(job, origin));
}

}  // namespace
}  // namespace lockstep::control
