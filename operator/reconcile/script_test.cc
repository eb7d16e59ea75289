#include "common/base/testing/script.h"

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/check.h"
#include "common/base/testing/paths.h"
#include "common/contract/status/termination_message.h"
#include "operator/api/status/derived_status.h"
#include "operator/reconcile/testing/fake_world.h"

// Stories in text: each block of script/*.txt is what happens to a job, a line "----", and what is
// decided. LOCKSTEP_REWRITE=1 in the environment writes the answers anew; the diff is then read.
//
//   job train|command [workers=N] [gpus=N] [evaluators=N] [backoff=N] [success=AllWorkers]
//                     [volume=yes] [timeout=SECONDS]
//   node NAME            another node like the first, node-a
//   launch | step        a gang that runs | one turn, whose decision is told
//   run                  all pending pods run
//   exit POD CODE [REASON] | say POD OUTCOME WORDS | delete POD GRACE | disrupt|reason POD REASON
//   vanish POD | finish-deletions | advance SECONDS
//   ready|lost|cordon|remove|taint NODE [KEY]
//   report STEP CHECKPOINT   every rank that runs is at that step
//   silence                  nobody reports any more
//   refuse POD WORDS         the API server does not create it | accept POD
//   sidecar POD CONTAINER    the pod's own container has ended, this one runs on
//   replicas N               the spec is changed | conditions: all of them are told
//   wait POD [REASON WORDS]  its kubelet cannot start the container, or can again
//   finalizer POD NAME       keeps the object | disown POD  its ownerReference is taken away
//   annotate KEY VALUE       the job | suspend yes|no

namespace lockstep::control {
namespace {

using std::chrono::seconds;

using Words = std::vector<std::string>;

std::string JoinFrom(const Words& words, std::size_t first) {
  std::string text;
  for (std::size_t i = first; i < words.size(); ++i) {
    text += (i == first ? "" : " ") + words[i];
  }
  return text;
}

// "key=value" words after the first `first`.
std::map<std::string, std::string> Options(const Words& words, std::size_t first) {
  std::map<std::string, std::string> options;
  for (std::size_t i = first; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    LOCKSTEP_CHECK(equals != std::string::npos, "no option: " + words[i]);
    options[words[i].substr(0, equals)] = words[i].substr(equals + 1);
  }
  return options;
}

TrainingJob JobOf(const Words& words) {
  const auto options = Options(words, 2);
  const auto number = [&](const char* key, int otherwise) {
    const auto found = options.find(key);
    return found == options.end() ? otherwise : std::stoi(found->second);
  };
  const int workers = number("workers", 2);
  TrainingJob job = words[1] == "train" ? MakeTrainingJob(workers) : MakeCommandJob(workers);
  if (const int evaluators = number("evaluators", 0); evaluators > 0) {
    AddRole(Role::kEvaluator, evaluators, &job);
  }
  job.spec.run_policy.backoff_limit = number("backoff", 6);
  job.spec.roles[0].gpus = number("gpus", 0);
  if (const int timeout = number("timeout", 0); timeout > 0) {
    job.spec.scheduling.timeout = seconds(timeout);
  }
  if (options.count("success") > 0) {
    job.spec.success_policy = SuccessPolicy::kAllWorkers;
  }
  if (options.count("volume") > 0) {
    job.spec.roles[0].pod.raw =
        Json::parse(R"({"spec": {"containers": [{"name": "trainer", "volumeMounts": [
          {"name": "work", "mountPath": "/lockstep"}]}],
          "volumes": [{"name": "work", "persistentVolumeClaim": {"claimName": "c"}}]}})");
  }
  return job;
}

std::string DescribeIncidents(const std::vector<Incident>& incidents) {
  std::string text;
  for (const Incident& incident : incidents) {
    text += text.empty() ? "" : ", ";
    text += incident.cause + (incident.node.empty() ? "" : " on " + incident.node);
    text += incident.is_free ? " (free)" : "";
  }
  return text.empty() ? "none" : text;
}

class Story {
 public:
  // What `line` comes to, as text.
  std::string Run(const std::string& line);

 private:
  using Command = std::function<std::string(Story*, const Words&)>;

  static const std::map<std::string, Command>& Commands();

  std::string Tell(const Decision& decision);

  std::string Step() { return Tell(world_->Step()); }

  kube::Pod& PodOf(const Words& words);
  kube::Node& NodeOf(const Words& words);
  void Report(int64_t step, int64_t checkpoint);

  std::optional<TestWorld> world_;
};

kube::Pod& Story::PodOf(const Words& words) {
  kube::Pod* const pod = world_->Find(words.at(1));
  LOCKSTEP_CHECK(pod != nullptr, "no pod " + words.at(1));
  return *pod;
}

kube::Node& Story::NodeOf(const Words& words) {
  for (kube::Node& node : world_->nodes()) {
    if (node.name == words.at(1)) {
      return node;
    }
  }
  LOCKSTEP_CHECK(false, "no node " + words.at(1));
}

void Story::Report(int64_t step, int64_t checkpoint) {
  world_->ReportAll();
  for (auto& [pod, report] : world_->observed.reports) {
    report.document.phase = Phase::kTraining;
    report.document.step = lockstep::Step(step);
    if (checkpoint > 0) {
      report.document.last_checkpoint_step = lockstep::Step(checkpoint);
    }
  }
}

std::string Story::Tell(const Decision& decision) {
  std::string text = DescribeEffects(decision);
  for (const Event& event : decision.events) {
    text += event.type == EventType::kWarning ? "warning " : "event ";
    text += event.reason + ": " + event.message + "\n";
  }
  const DerivedStatus derived = DeriveStatus(world_->job);
  text += derived.state;
  text += ", ready " + derived.ready;
  text += derived.reason.empty() ? "" : ": " + derived.reason;
  text += "\nincidents: " + DescribeIncidents(world_->job.status.incidents) + "\n";
  return text;
}

const std::map<std::string, Story::Command>& Story::Commands() {
  static const std::map<std::string, Command> kCommands = {
      {"job",
       [](Story* story, const Words& words) {
         story->world_.emplace(JobOf(words));
         story->world_->observed.settings.job_directory = "/lockstep/work";
         return std::string();
       }},
      {"node",
       [](Story* story, const Words& words) {
         story->world_->AddNode(words.at(1));
         return std::string();
       }},
      {"launch",
       [](Story* story, const Words& /*words*/) {
         story->world_->Launch();
         story->world_->Advance(seconds(1));
         return story->world_->Pods() + "\n";
       }},
      {"run",
       [](Story* story, const Words& /*words*/) {
         story->world_->RunAll();
         return std::string();
       }},
      {"step", [](Story* story, const Words& /*words*/) { return story->Step(); }},
      {"exit",
       [](Story* story, const Words& words) {
         story->world_->Exit(words.at(1), std::stoi(words.at(2)), JoinFrom(words, 3));
         return std::string();
       }},
      {"say",
       [](Story* story, const Words& words) {
         TerminationMessage message;
         message.outcome = ParseOutcome(words.at(2)).value();
         message.reason = JoinFrom(words, 3);
         story->PodOf(words).status.termination->message = EncodeTerminationMessage(message);
         return std::string();
       }},
      {"delete",
       [](Story* story, const Words& words) {
         kube::Pod& pod = story->PodOf(words);
         pod.is_deleting = true;
         pod.deletion_due = story->world_->now + seconds(std::stoi(words.at(2)));
         return std::string();
       }},
      {"disrupt",
       [](Story* story, const Words& words) {
         story->PodOf(words).status.disruption = words.at(2);
         return std::string();
       }},
      {"reason",
       [](Story* story, const Words& words) {
         story->PodOf(words).status.reason = words.at(2);
         return std::string();
       }},
      {"vanish",
       [](Story* story, const Words& words) {
         story->world_->Vanish(words.at(1));
         return std::string();
       }},
      {"finish-deletions",
       [](Story* story, const Words& /*words*/) {
         story->world_->FinishDeletions();
         return std::string();
       }},
      {"advance",
       [](Story* story, const Words& words) {
         story->world_->Advance(seconds(std::stoi(words.at(1))));
         return std::string();
       }},
      {"lost",
       [](Story* story, const Words& words) {
         story->NodeOf(words).is_ready = false;
         story->NodeOf(words).is_schedulable = false;
         return std::string();
       }},
      {"cordon",
       [](Story* story, const Words& words) {
         story->NodeOf(words).is_schedulable = false;
         return std::string();
       }},
      {"taint",
       [](Story* story, const Words& words) {
         story->NodeOf(words).taints.push_back({words.at(2), "", "NoExecute"});
         return std::string();
       }},
      {"remove",
       [](Story* story, const Words& words) {
         std::erase_if(story->world_->nodes(),
                       [&](const kube::Node& node) { return node.name == words.at(1); });
         return std::string();
       }},
      {"report",
       [](Story* story, const Words& words) {
         story->Report(std::stoll(words.at(1)), std::stoll(words.at(2)));
         return std::string();
       }},
      {"silence",
       [](Story* story, const Words& /*words*/) {
         story->world_->observed.reports.clear();
         return std::string();
       }},
      {"refuse",
       [](Story* story, const Words& words) {
         PodRefusal& refusal = story->world_->observed.refused_pods[words.at(1)];
         refusal.count += refusal.at == WallTime{} ? 0 : 1;
         refusal.at = story->world_->now;
         refusal.message = JoinFrom(words, 2);
         story->world_->Vanish(words.at(1));
         return std::string();
       }},
      {"accept",
       [](Story* story, const Words& words) {
         story->world_->observed.refused_pods.erase(words.at(1));
         return std::string();
       }},
      {"sidecar",
       [](Story* story, const Words& words) {
         kube::Pod& pod = story->PodOf(words);
         pod.status.phase = kube::PodPhase::kRunning;
         pod.status.open_containers = {words.at(2)};
         return std::string();
       }},
      {"conditions",
       [](Story* story, const Words& /*words*/) {
         std::string text;
         for (const Condition& condition : story->world_->job.status.conditions) {
           text += std::string(ConditionTypeName(condition.type)) + " " +
                   (condition.is_true ? "true " : "false ") + condition.reason + ": " +
                   condition.message + "\n";
         }
         return text;
       }},
      {"wait",
       [](Story* story, const Words& words) {
         kube::PodStatus& status = story->PodOf(words).status;
         status.waiting_reason = words.size() > 2 ? words.at(2) : "";
         status.waiting_message = JoinFrom(words, 3);
         return std::string();
       }},
      {"disown",
       [](Story* story, const Words& words) {
         story->PodOf(words).owner_uid.clear();
         story->PodOf(words).owner_job.clear();
         return std::string();
       }},
      {"finalizer",
       [](Story* story, const Words& words) {
         story->PodOf(words).finalizers.push_back(words.at(2));
         return std::string();
       }},
      {"annotate",
       [](Story* story, const Words& words) {
         story->world_->job.metadata.annotations[words.at(1)] = words.at(2);
         return std::string();
       }},
      {"suspend",
       [](Story* story, const Words& words) {
         story->world_->job.spec.run_policy.suspend = words.at(1) == "yes";
         ++story->world_->job.metadata.generation;
         return std::string();
       }},
      {"replicas",
       [](Story* story, const Words& words) {
         story->world_->job.spec.roles[0].replicas = std::stoll(words.at(1));
         ++story->world_->job.metadata.generation;
         return std::string();
       }},
  };
  return kCommands;
}

std::string Story::Run(const std::string& line) {
  const Words words = ScriptWords(line);
  const auto command = Commands().find(words.at(0));
  return command == Commands().end() ? "no such command: " + words.at(0) + "\n"
                                     : command->second(this, words);
}

class Scripts : public testing::TestWithParam<std::string> {};

TEST_P(Scripts, AreAnsweredAsWritten) {
  Story story;
  ExpectScriptAnswered(RepositoryFile("operator/reconcile/script/" + GetParam()),
                       [&story](const std::string& line) { return story.Run(line); });
}

INSTANTIATE_TEST_SUITE_P(
    Decide,
    Scripts,
    testing::ValuesIn(ScriptNames(RepositoryFile("operator/reconcile/script"))),
    ScriptTestName);

}  // namespace
}  // namespace lockstep::control
