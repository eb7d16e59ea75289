#include <algorithm>
#include <string>
#include <utility>

#include "operator/api/encode.h"
#include "operator/reconcile/testing/fake_world.h"
#include "tests/sim/simulation.h"

// The jobs that users of the simulated cluster make.
namespace lockstep::control::sim {
namespace {

constexpr const char* kNamespace = "team";

// Choice: the largest job, four pods, fits two nodes of 64 cores whatever it asks for and whatever
// a LimitRange makes of it.
constexpr uint64_t kTrainerCoresMax = 12;
constexpr uint64_t kSidecarCoresMax = 6;
constexpr uint64_t kInitCoresMax = 24;

// More than waiting gangs are looked at one by one.
constexpr int kGiantsMany = 66;

Json Asking(Json container, uint64_t cores) {
  container["resources"]["requests"]["cpu"] = std::to_string(cores);
  return container;
}

// What stands in the job's manifest of its pods. Some ask for nothing, some in every way there is.
Json TemplateOf(bool is_training, Prng* prng) {
  Json trainer = {{"name", "trainer"},
                  {"env", Json::array({{{"name", "EDITION"}, {"value", "0"}}})}};
  if (!is_training) {
    trainer["image"] = "example/train:1";
    trainer["command"] = Json::array({"python3", "train.py"});
  }
  Json spec = Json::object();
  if (prng->Below(2) == 0) {
    trainer = Asking(trainer, 1 + prng->Below(kTrainerCoresMax));
  }
  if (prng->Below(3) == 0) {
    const Json tool = {{"name", "tool"}, {"image", "example/tool:1"}};
    Json sidecar = tool;
    sidecar["name"] = "sidecar";
    sidecar["restartPolicy"] = "Always";
    spec["initContainers"] = Json::array({Asking(sidecar, 1 + prng->Below(kSidecarCoresMax)),
                                          Asking(tool, 1 + prng->Below(kInitCoresMax))});
    spec["overhead"] = {{"cpu", "1500m"}};
  }
  spec["containers"] = Json::array({trainer});
  return {{"spec", spec}};
}

}  // namespace

void Simulation::CreateJobs() {
  int count = 1 + static_cast<int>(context_.prng.Below(3));
  if (context_.has_shares) {
    count += static_cast<int>(context_.shares_prng.Below(4));  // more than there is room for
  }
  if (context_.Happens(10)) {
    const int giants = context_.Happens(10) ? kGiantsMany : 1;
    for (int i = 0; i < giants; ++i) {
      CreateJob("job" + std::to_string(next_name_++), kGpusOfNode + 1);
    }
    context_.Count("a job that never fits");
  }
  for (int i = 0; i < count; ++i) {
    CreateJob("job" + std::to_string(next_name_++));
  }
}

void Simulation::CreateJob(const std::string& name) {
  const auto gpus = static_cast<int64_t>(context_.prng.Below(3));
  CreateJob(name, context_.has_shares ? std::max<int64_t>(1, gpus) : gpus);
}

void Simulation::CreateJob(const std::string& name, int64_t gpus) {
  Prng* const prng = &context_.prng;
  const int workers = 1 + static_cast<int>(prng->Below(4));
  TrainingJob job = prng->Below(3) != 0 ? MakeTrainingJob(workers) : MakeCommandJob(workers);
  if (job.spec.training.has_value()) {
    job.spec.training->dataset.train.images = "images.gz";
    job.spec.training->dataset.train.labels = "labels.gz";
  }
  job.spec.roles[0].pod.raw = TemplateOf(job.spec.training.has_value(), prng);
  // By the name, and not by a draw, which would change what all draws after it come to.
  job.spec.recovery.relaunch = !job.spec.training.has_value() && name.back() % 2 == 0;
  job.metadata.name = name;
  job.metadata.namespace_name = kNamespace;
  job.spec.roles[0].gpus = gpus;
  job.spec.run_policy.backoff_limit = prng->Below(4) == 0 ? 3 : 1000;
  if (keeps_time_ && prng->Below(2) == 0) {
    job.spec.run_policy.active_deadline =
        std::chrono::seconds(60 + static_cast<int64_t>(prng->Below(300)));
  }
  if (keeps_time_ && prng->Below(2) == 0) {
    job.spec.scheduling.timeout = std::chrono::seconds(20 + static_cast<int64_t>(prng->Below(100)));
    context_.Count("a job that waits no longer than it says");
  }
  job.spec.success_policy =
      prng->Below(2) == 0 ? SuccessPolicy::kAllWorkers : SuccessPolicy::kChiefOrWorker0;
  job.spec.scheduling.binding = prng->Below(3) == 0 ? PodBinding::kDirect : PodBinding::kAffinity;
  if (context_.has_shares) {
    GiveShare(&job);
  }
  Json body = EncodeTrainingJob(job);
  body.erase("status");
  body["metadata"].erase("uid");
  body["metadata"].erase("generation");
  const kube::Reply reply = server_.Handle(
      kube::Create(kube::kTrainingJobs, kNamespace, DumpJson(body)), context_.ServerTime());
  context_.Tell("user: creates " + name + " with " + std::to_string(workers) + " workers of " +
                std::to_string(job.spec.roles[0].gpus) + " GPUs (" + std::to_string(reply.status) +
                ")");
}

}  // namespace lockstep::control::sim
