#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "operator/api/job/encode.h"
#include "operator/reconcile/testing/fake_world.h"
#include "tests/sim/gang_reader.h"
#include "tests/sim/selector.h"
#include "tests/sim/simulation.h"

// The jobs that users of the simulated cluster make.
namespace lockstep::control::sim {
namespace {

// Choice: the largest job, four pods, fits two nodes of 64 cores whatever it asks for and whatever
// a LimitRange makes of it.
constexpr uint64_t kTrainerCoresMax = 12;
constexpr uint64_t kSidecarCoresMax = 6;
constexpr uint64_t kInitCoresMax = 24;

constexpr int kWorkersMax = 4;

// What users begin in peace, beside what waits. Choice: each kind ends often enough to be known for
// half of the time, and a seed takes twice as long as others.
constexpr int kGoOnTicks = 600;
constexpr int kGoOnJobs = 12;

// Where it is checked who passes whom, as much again thrice: few pass by what was learnt alone.
constexpr int kGoOnLonger = 4;

constexpr int64_t kGoOnWaiting = 3;
constexpr int64_t kGoOnEnded = 6;  // that users leave

// Who waits at the end, behind others that hold all GPUs. Choice: of the ticks, that watches tell
// of what is there.
constexpr int kQueuedJobs = 3;
constexpr int kSettleTicks = 60;
constexpr int64_t kStepsForever = 1'000'000;

// More than waiting gangs are looked at one by one.
constexpr int kGiantsMany = 66;

Json Asking(Json container, uint64_t cores) {
  container["resources"]["requests"]["cpu"] = std::to_string(cores);
  return container;
}

// What stands in the job's manifest of its pods. Some ask for nothing, some in every way there is.
Json TemplateOf(bool is_training, const std::string& image, Prng* prng) {
  Json trainer = {{"name", "trainer"},
                  {"env", Json::array({{{"name", "EDITION"}, {"value", "0"}}})}};
  if (!is_training) {
    trainer["image"] = image;
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

void NameData(TrainingJob* job) {
  if (job->spec.training.has_value()) {
    job->spec.training->dataset.train.images = "images.gz";
    job->spec.training->dataset.train.labels = "labels.gz";
  }
}

// A program of about the same length every time. Now and then one takes far longer.
int64_t DrawSteps(int64_t steps, Prng* prng, SimContext* context) {
  if (prng->Below(6) == 0) {
    context->Count("a program that runs for longer than its kind");
    return 3 * steps;
  }
  return steps * (90 + static_cast<int64_t>(prng->Below(21))) / 100;
}

}  // namespace

void Simulation::CreateJobs() {
  const auto next_name = [this] { return "job" + std::to_string(next_name_++); };
  int count = 1 + static_cast<int>(context_.prng.Below(3));
  if (context_.has_shares) {
    count += static_cast<int>(context_.shares_prng.Below(4));  // more than there is room for
  }
  if (context_.Happens(10)) {
    const int giants = context_.Happens(10) ? kGiantsMany : 1;
    for (int i = 0; i < giants; ++i) {
      const int workers = 1 + static_cast<int>(context_.prng.Below(kWorkersMax));
      CreateJob(next_name(), workers, kGpusOfNode + 1);
    }
    context_.Count("a job that never fits");
  }
  if (context_.has_fair_queues) {
    count += static_cast<int>(context_.bad_users_prng.Below(6));
    CreateJob(next_name(), kWorkersMax, kGpusOfNode + 1);  // first of one of them, for ever
    context_.Count("a job that can never start at the head of a queue");
  }
  for (int i = 0; i < count; ++i) {
    CreateJob(next_name());
  }
  // Its queue would hold it back.
  if (context_.has_autoscaler && !context_.has_shares && context_.autoscaler_prng.Below(2) == 0) {
    has_large_jobs_ = true;
    context_.Count("a job that fits nothing but what an autoscaler adds");
    CreateJob(next_name(), kWorkersMax, kGpusOfNode);
  }
}

void Simulation::CreateJob(const std::string& name) {
  if (context_.learns_run_times) {
    CreateRegularJob(name);
    return;
  }
  const auto gpus = static_cast<int64_t>(context_.prng.Below(3));
  const int workers = 1 + static_cast<int>(context_.prng.Below(kWorkersMax));
  CreateJob(name,
            workers,
            context_.has_shares || context_.has_fair_queues ? std::max<int64_t>(1, gpus) : gpus);
}

void Simulation::CreateJob(const std::string& name, int workers, int64_t gpus) {
  Prng* const prng = &context_.prng;
  TrainingJob job = prng->Below(3) != 0 ? MakeTrainingJob(workers) : MakeCommandJob(workers);
  NameData(&job);
  job.spec.roles[0].pod.raw = TemplateOf(job.spec.training.has_value(), "example/train:1", prng);
  job.metadata.name = name;
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
  const bool is_large = gpus == kGpusOfNode;
  if (is_large) {
    job.spec.scheduling.timeout.reset();
    job.spec.scheduling.provisioning = Provisioning::kProvisioningRequest;
  }
  if (context_.has_bad_users && workers == 1 && !is_large) {
    job.spec.run_policy.clean_pod_policy = CleanPodPolicy::kNone;
  }
  Submit(std::move(job), "");
}

// One of the built-in trainer that outlasts what is done to it.
void Simulation::CreateLongTraining(TrainingJob job, int64_t gpus, int64_t steps) {
  NameData(&job);
  job.metadata.name = "job" + std::to_string(next_name_++);
  job.spec.roles[0].gpus = gpus;
  job.spec.run_policy.backoff_limit = 1000;
  long_training_ = Submit(std::move(job), "");
  if (!long_training_.empty()) {
    processes_.steps_by_job[long_training_] = steps;
  }
}

// The user makes it as users do. Returns its uid; empty: the server has refused it.
std::string Simulation::Submit(TrainingJob job, const std::string& recipe) {
  Prng* const prng = &context_.prng;
  const std::string name = job.metadata.name;
  job.metadata.namespace_name = kNamespace;
  // By the name, and not by a draw, which would change what all draws after it come to.
  job.spec.recovery.relaunch = !job.spec.training.has_value() && name.back() % 2 == 0;
  job.spec.success_policy =
      prng->Below(2) == 0 ? SuccessPolicy::kAllWorkers : SuccessPolicy::kChiefOrWorker0;
  job.spec.scheduling.binding = prng->Below(3) == 0 ? PodBinding::kDirect : PodBinding::kAffinity;
  if (context_.has_autoscaler && context_.autoscaler_prng.Below(2) == 0) {
    job.spec.scheduling.provisioning = Provisioning::kProvisioningRequest;
  }
  if (context_.has_shares) {
    GiveShare(&job);
  }
  if (context_.has_racks && context_.bad_users_prng.Below(2) == 0) {
    job.spec.scheduling.topology.required = kRackLabel;
  }
  if (context_.has_fair_queues) {
    job.spec.scheduling.queue = context_.bad_users_prng.Below(2) == 0 ? "left" : "right";
  }
  Json body = EncodeTrainingJob(job);
  body.erase("status");
  body["metadata"].erase("uid");
  body["metadata"].erase("generation");
  if (!recipe.empty()) {
    body["metadata"]["labels"][kRecipeLabel] = recipe;
  }
  const kube::Reply reply = server_.Handle(
      kube::Create(kube::kTrainingJobs, kNamespace, DumpJson(body)), context_.ServerTime());
  context_.Tell("user: creates " + name + " with " + std::to_string(job.spec.roles[0].replicas) +
                " workers of " + std::to_string(job.spec.roles[0].gpus) + " GPUs (" +
                std::to_string(reply.status) + ")");
  return reply.is_success() ? UidOf(ParseJson(reply.body).value()) : "";
}

// One small, one of middle size, one that takes two nodes.
void Simulation::MakeRecipes() {
  Prng* const prng = &context_.regulars_prng;
  for (const int workers : {1, 2, kWorkersMax}) {
    Recipe recipe;
    recipe.name = "r" + std::to_string(workers);
    const bool is_training = prng->Below(3) == 0;
    recipe.job = is_training ? MakeTrainingJob(workers) : MakeCommandJob(workers);
    NameData(&recipe.job);
    RoleSpec& role = recipe.job.spec.roles[0];
    role.pod.raw = TemplateOf(is_training, "example/" + recipe.name + ":1", prng);
    role.gpus = workers == kWorkersMax ? 2 : 1 + static_cast<int64_t>(prng->Below(2));
    recipe.job.spec.run_policy.backoff_limit = 1000;
    recipe.steps = 60 + static_cast<int64_t>(prng->Below(240));
    recipes_.push_back(std::move(recipe));
  }
}

void Simulation::CreateRegularJob(const std::string& name) {
  Prng* const prng = &context_.regulars_prng;
  const Recipe& recipe = recipes_[prng->Below(recipes_.size())];
  TrainingJob job = recipe.job;
  job.metadata.name = name;
  if (prng->Below(2) == 0) {
    const std::chrono::seconds limit(60 + static_cast<int64_t>(prng->Below(240)));
    job.spec.run_policy.active_deadline = prng->Below(2) == 0 ? limit : 5 * limit;  // to be sure
  }
  const std::string uid = Submit(std::move(job), recipe.name);
  if (!uid.empty()) {
    processes_.steps_by_job[uid] = DrawSteps(recipe.steps, prng, &context_);
  }
}

// Users remove what has ended long ago. An operator that starts anew learns nothing from it.
void Simulation::ForgetOldest() {
  std::string oldest;
  std::string ended_at;
  int64_t ended = 0;
  for (const auto& [key, job] : server_.store().Of(kube::kTrainingJobs).objects) {
    const std::string when = TextAt(*job, "status.completionTime");
    if (when.empty() || IsDeleting(*job)) {
      continue;
    }
    ++ended;
    if (oldest.empty() || when < ended_at) {
      oldest = key.name;
      ended_at = when;
    }
  }
  if (ended > kGoOnEnded) {
    server_.Handle(kube::Delete(kube::kTrainingJobs, kNamespace, oldest, {}),
                   context_.ServerTime());
  }
}

// In peace users go on with what they do every day, so that there is something to learn from, and
// somebody to tell it.
void Simulation::LetUsersGoOn() {
  const int times = context_.has_shares ? 1 : kGoOnLonger;
  const int jobs_max = times * kGoOnJobs;
  for (int i = 0, made = 0; i < times * kGoOnTicks && checks_.problem().empty() && made < jobs_max;
       ++i) {
    Tick();
    const auto& jobs = server_.store().Of(kube::kTrainingJobs).objects;
    const auto waiting = std::count_if(
        jobs.begin(), jobs.end(), [](const auto& job) { return WantsPlaces(*job.second); });
    ForgetOldest();
    if (waiting < kGoOnWaiting && context_.regulars_prng.Below(12) == 0) {
      CreateRegularJob("job" + std::to_string(next_name_++));
      ++made;
    }
  }
}

// In quiet jobs come that hold all GPUs for as long as they are let, and others behind them. An
// autoscaler would add nodes for them, and a node that refuses all have them try again and again.
void Simulation::MakeAQueue() {
  const std::vector<std::string> nodes = nodes_.names();
  if (context_.has_autoscaler || std::any_of(nodes.begin(), nodes.end(), [this](const auto& name) {
        return nodes_.Refuses(name);
      })) {
    return;
  }
  const auto submit = [this](int64_t gpus, int64_t steps) {
    const std::string name = "job" + std::to_string(next_name_++);
    CreateJob(name, 1, gpus);
    if (const ObjectPtr job = server_.store().Get(kube::kTrainingJobs, {kNamespace, name})) {
      processes_.steps_by_job[UidOf(*job)] = steps;
    }
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    submit(kGpusOfNode, kStepsForever);
  }
  for (int i = 0; i < kSettleTicks && checks_.problem().empty(); ++i) {
    Tick();
  }
  for (int i = 0; i < kQueuedJobs; ++i) {
    submit(1, kStepsForever);
  }
  for (int i = 0; i < kSettleTicks && checks_.problem().empty(); ++i) {
    Tick();
  }
  context_.Count("in quiet: jobs behind others that hold all GPUs");
}

}  // namespace lockstep::control::sim
