#include "operator/api/decode_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/job/defaults.h"
#include "operator/api/job/encode.h"
#include "operator/yaml/yaml.h"

namespace lockstep::control {
namespace {

using ::testing::IsEmpty;

// The job of YAML text that must be without a problem.
TrainingJob ReadSoundJob(const std::string& text) {
  const YamlStream stream = ReadYaml(text);
  EXPECT_THAT(stream.problems, IsEmpty());
  DecodedJob decoded = DecodeTrainingJob(stream.documents.at(0).value);
  for (const Error& error : decoded.errors) {
    ADD_FAILURE() << error.ToString();
  }
  return std::move(decoded.job);
}

constexpr const char* kSmallestJob = R"(
apiVersion: lockstep.dev/v1
kind: TrainingJob
metadata: {name: job}
spec:
  roles:
  - name: worker
    template: {spec: {containers: [{command: [a]}]}}
)";

// Every field that has a default is given another value.
constexpr const char* kFullestJob = R"(
apiVersion: lockstep.dev/v1
kind: TrainingJob
metadata:
  name: full
  namespace: ml
  uid: 0a1b
  generation: 3
  labels: {team: vision}
  annotations: {note: "12"}
spec:
  strategy: ParameterServer
  roles:
  - name: chief
    template: {spec: {containers: [{command: [a]}]}}
  - name: worker
    replicas: 4
    gpus: 2
    processes: 1
    restartPolicy: OnFailure
    supervise: false
    template:
      metadata: {labels: {a: b}}
      spec:
        terminationGracePeriodSeconds: 5
        nodeSelector: {disk: ssd}
        overhead: {cpu: 250m, memory: 64Mi}
        affinity:
          nodeAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms:
              - matchExpressions: [{key: zone, operator: In, values: [a, b]}]
                matchFields: [{key: metadata.name, operator: NotIn, values: [n9]}]
              - matchExpressions: [{key: cores, operator: Gt, values: ["31"]}]
            preferredDuringSchedulingIgnoredDuringExecution:
            - {weight: 1, preference: {matchExpressions: [{key: fast, operator: Exists}]}}
        topologySpreadConstraints:
        - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}
        tolerations: [{operator: Exists}, {key: gpu, value: a100, effect: NoExecute,
                      tolerationSeconds: 60}]
        containers:
        - name: trainer
          image: tf:2
          command: [python3]
          args: [train.py, --fast]
          workingDir: /code
          env: [{name: A, value: x}, {name: EMPTY}]
          resources:
            requests: {cpu: 500m, memory: 2Gi}
            limits: {cpu: 2, memory: 4Gi, nvidia.com/gpu: 2, ephemeral-storage: 1G}
          volumeMounts: [{name: data, mountPath: /data}]
        volumes: [{name: data, emptyDir: {}}]
  - name: ps
    replicas: 2
    restartPolicy: Always
    template: {spec: {containers: [{command: [b]}]}}
  - name: evaluator
    restartPolicy: Never
    template: {spec: {containers: [{command: [c]}]}}
  runPolicy: {suspend: true, managedBy: lockstep.dev/operator, cleanPodPolicy: All,
              activeDeadlineSeconds: 100, ttlSecondsAfterFinished: 0, backoffLimit: 0}
  successPolicy: AllWorkers
  scheduling: {priorityClassName: high, timeoutSeconds: 60, startTimeoutSeconds: 900,
               binding: Direct}
  elastic: {minReplicas: 4, maxReplicas: 4}
  recovery: {replacementTimeoutSeconds: 10, rendezvousTimeoutSeconds: 20.5, silentAfterSeconds: 2}
status:
  conditions:
  - {type: Running, status: "True", reason: R, message: m,
     lastTransitionTime: "2026-11-21T10:22:03.123Z"}
  attempt: 1
  epoch: 8
  placement: [{role: worker, index: 1, node: n1, incarnation: 2, since: "2026-11-21T10:22:03Z",
               podUid: u, completed: true, devices: [GPU-1, GPU-2],
               troubleSince: "2026-11-21T10:22:09Z",
               disruption: EvictionByEvictionAPI}]
  roles: [{name: worker, pending: 1, active: 2, succeeded: 0, failed: 1}]
  restarts: [{cause: oom, count: 2}]
  progress: {step: 5, stepsTotal: 10, dataEpoch: 1, loss: 0.5, samplesPerSecond: 3.5, etaSeconds: 9,
             observedAt: "2026-11-21T10:22:07Z"}
  result: {testLoss: 0.25, testAccuracy: 0.975, models: [{rank: 0, testLoss: 0.5}, {rank: 1}]}
  lastFailure: {pod: p, at: "2026-11-21T10:22:09Z", message: "pod p exit code 1", tail: "bye"}
  rollbacks: 2
  quickRestarts: 1
  retryAt: "2026-11-21T10:22:08Z"
  waitingSince: "2026-11-21T10:22:02Z"
  suspectNodes: [{node: n2, reason: PodRefused, count: 2, until: "2026-11-21T10:26:08Z"}]
  admitted: [{role: worker, resource: memory, amount: 536870912}]
  startTime: "2026-11-21T10:22:03Z"
  completionTime: "2026-11-21T10:23:03.5Z"
  observedGeneration: 3
  controlCounter: 4
)";

constexpr const char* kWatchedJob = R"(
apiVersion: lockstep.dev/v1
kind: TrainingJob
metadata: {name: watched}
spec:
  roles:
  - name: worker
    warm: [torch, torch.distributed]
    template: {spec: {containers: [{command: [python3, a.py]}]}}
  - name: evaluator
    supervise: false
    template: {spec: {containers: [{command: [b]}]}}
  recovery: {hungAfterSeconds: 90.5}
)";

TEST(DecodeTrainingJob, NobodyIsWatchedUnlessAskedFor) {
  EXPECT_EQ(ReadSoundJob(kSmallestJob).spec.recovery.hung_after, std::nullopt);
  EXPECT_EQ(ReadSoundJob(kWatchedJob).spec.recovery.hung_after, std::chrono::milliseconds(90'500));
}

TEST(DecodeTrainingJob, NoInterpreterIsKeptUnlessAskedFor) {
  EXPECT_TRUE(ReadSoundJob(kSmallestJob).spec.roles.at(0).warm.empty());
  EXPECT_EQ(ReadSoundJob(kWatchedJob).spec.roles.at(0).warm,
            (std::vector<std::string>{"torch", "torch.distributed"}));
}

TEST(DecodeTrainingJob, SmallestJobGetsTheDocumentedDefaults) {
  const TrainingJob job = ReadSoundJob(kSmallestJob);
  EXPECT_EQ(job.metadata.namespace_name, "default");
  EXPECT_EQ(job.spec.strategy, Strategy::kMultiWorkerMirrored);
  const RoleSpec& worker = job.spec.roles.at(0);
  EXPECT_EQ(worker.replicas, 1);
  EXPECT_EQ(worker.gpus, 0);
  EXPECT_EQ(worker.processes, 1);
  EXPECT_EQ(worker.restart_policy, RestartPolicy::kExitCode);
  EXPECT_EQ(worker.pod.termination_grace, std::chrono::seconds(30));
  EXPECT_EQ(job.spec.run_policy.backoff_limit, 6);
  EXPECT_EQ(job.spec.success_policy, SuccessPolicy::kChiefOrWorker0);
  EXPECT_EQ(job.status, TrainingJobStatus());
}

// Source of the defaults: k8s.io/kubernetes/pkg/apis/core/v1,
// defaultPodRequests.
TEST(DecodeTrainingJob, ReadsWhatThePodAsksForAsAWhole) {
  const auto pod_of = [](const std::string& resources, const std::string& of_container) {
    const TrainingJob job = ReadSoundJob(
        "apiVersion: lockstep.dev/v1\nkind: TrainingJob\nmetadata: {name: a}\nspec:\n  roles:\n"
        "  - {name: worker, template: {spec: {resources: " +
        resources + ", containers: [{command: [a], resources: " + of_container + "}]}}}\n");
    return job.FindRole(Role::kWorker)->pod;
  };
  const std::string limits = "{limits: {cpu: 4, memory: 1Ki}}";
  EXPECT_EQ(pod_of(limits, "{}").pod_requests, (ResourceVector{4000, 1024, 0}));
  EXPECT_EQ(pod_of(limits, "{}").pod_limits, (ResourceVector{4000, 1024, 0}));
  EXPECT_EQ(pod_of(limits, "{requests: {cpu: 1}}").pod_requests, (ResourceVector{0, 1024, 0}))
      << "what containers ask for is the default";
  EXPECT_EQ(pod_of("{requests: {cpu: 2}, limits: {cpu: 4}}", "{requests: {cpu: 1}}").pod_requests,
            (ResourceVector{2000, 0, 0}));
}

TEST(DecodeTrainingJob, ReadsWhatTheOperatorUsesOfATemplate) {
  const TrainingJob job = ReadSoundJob(kFullestJob);
  const RoleSpec* worker = job.FindRole(Role::kWorker);
  ASSERT_NE(worker, nullptr);
  const PodTemplate& pod = worker->pod;
  EXPECT_EQ(pod.image, "tf:2");
  EXPECT_EQ(pod.args, (std::vector<std::string>{"train.py", "--fast"}));
  EXPECT_EQ(pod.env, (std::map<std::string, std::string>{{"A", "x"}, {"EMPTY", ""}}));
  EXPECT_EQ(pod.working_dir, "/code");
  const std::vector<NamedAmount> storage = {{"ephemeral-storage", 1'000'000'000}};
  EXPECT_EQ(pod.requests, (ResourceVector{500, int64_t{2} << 30, 2, storage}));
  EXPECT_EQ(pod.limits, (ResourceVector{2000, int64_t{4} << 30, 2, storage}));
  EXPECT_EQ(pod.overhead, (ResourceVector{250, int64_t{64} << 20, 0}));
  ASSERT_EQ(pod.node_affinity->size(), 2U);
  EXPECT_EQ(DescribeTerms(*pod.node_affinity),
            "zone In (a, b) and metadata.name NotIn (n9), or cores Gt (31)");
  EXPECT_EQ(pod.node_selector.at("disk"), "ssd");
  ASSERT_EQ(pod.tolerations.size(), 2U);
  EXPECT_TRUE(pod.tolerations[0].is_exists);
  EXPECT_EQ(pod.tolerations[1],
            (Toleration{"gpu", false, "a100", "NoExecute", std::chrono::seconds(60)}));
  EXPECT_EQ((*pod.raw)["spec"]["volumes"][0]["name"], "data");
}

TEST(DecodeTrainingJob, CountsRanksAndNotTheOtherPods) {
  const TrainingJob job = ReadSoundJob(kFullestJob);
  EXPECT_EQ(job.RankPodCount(), 5);
  EXPECT_EQ(job.WorldSize(), 5);
  EXPECT_EQ(job.FindRole(Role::kPs)->replicas, 2);
}

TEST(DecodeTrainingJob, EncodeThenDecodeGivesTheSameJob) {
  for (const char* text : {kSmallestJob, kFullestJob, kWatchedJob}) {
    const TrainingJob job = ReadSoundJob(text);
    const DecodedJob again = DecodeTrainingJob(EncodeTrainingJob(job));
    ASSERT_TRUE(again.ok()) << again.errors.front().ToString();
    EXPECT_EQ(again.job, job);
  }
}

TEST(DecodeTrainingJob, ObjectsAsTheApiServerKeepsThemAreRead) {
  const TrainingJob job = ReadSoundJob(R"(
apiVersion: lockstep.dev/v1
kind: TrainingJob
metadata: {name: job, resourceVersion: "12", creationTimestamp: "2026-11-21T10:22:03Z",
           managedFields: [{manager: kubectl}], finalizers: [a/b], ownerReferences: []}
spec:
  roles:
  - name: worker
    template: {metadata: {}, spec: {containers: [{command: [a], resources: {}}]}}
status: {}
)");
  EXPECT_EQ(job.metadata.name, "job");
}

TEST(DecodeTrainingJob, GeneratedNamesEndAsLongAsTheApiServerMakesThem) {
  std::string text(kFullestJob);
  text.replace(text.find("  name: "), 0, "  generateName: other-\n");
  EXPECT_EQ(ReadSoundJob(text).metadata.name, ReadSoundJob(std::string(kFullestJob)).metadata.name);

  text = R"(
apiVersion: lockstep.dev/v1
kind: TrainingJob
metadata: {generateName: mnist-}
spec:
  roles:
  - name: worker
    template: {spec: {containers: [{command: [a]}]}}
)";
  EXPECT_EQ(ReadSoundJob(text).metadata.name, "mnist-local");
}

TEST(DecodeTrainingJob, SpecReplicasIsTheNumberOfWorkersWhateverTheRoleSays) {
  std::string text = kFullestJob;
  text.replace(text.find("  strategy: "), 0, "  replicas: 7\n");
  text.replace(text.find("elastic: {minReplicas: 4, maxReplicas: 4}"), 41, "recovery: {}");
  text.erase(text.rfind("  recovery: {rep"), text.find("status:") - text.rfind("  recovery: {rep"));
  const TrainingJob job = ReadSoundJob(text);
  EXPECT_EQ(job.FindRole(Role::kWorker)->replicas, 7);
  EXPECT_EQ(job.FindRole(Role::kPs)->replicas, 2);
  EXPECT_FALSE(EncodeTrainingJob(job)["spec"].contains("replicas"));
}

TEST(DecodeTrainingJob, SpecReplicasOfZeroLeavesTheRolesOwn) {
  std::string text = kFullestJob;
  text.replace(text.find("  strategy: "), 0, "  replicas: 0\n");
  EXPECT_EQ(ReadSoundJob(text).FindRole(Role::kWorker)->replicas, 4);
}

// Nothing in a cluster has such a name: the job would wait for it for ever.
TEST(DecodeTrainingJob, NamesInSchedulingThatCannotBeAreRefused) {
  for (const auto& [scheduling, field] :
       {std::pair("{priorityClassName: High Prio}", "spec.scheduling.priorityClassName"),
        std::pair("{topology: {required: a b}}", "spec.scheduling.topology.required"),
        std::pair("{topology: {preferred: /rack}}", "spec.scheduling.topology.preferred")}) {
    const YamlStream stream = ReadYaml(std::string(R"(
apiVersion: lockstep.dev/v1
kind: TrainingJob
metadata: {name: mnist}
spec:
  scheduling: )") + scheduling + R"(
  roles:
  - name: worker
    template: {spec: {containers: [{image: i, command: [a]}]}}
)");
    ASSERT_THAT(stream.problems, IsEmpty());
    const DecodedJob decoded = DecodeTrainingJob(stream.documents.at(0).value);
    ASSERT_EQ(decoded.errors.size(), 1U) << scheduling;
    EXPECT_EQ(decoded.errors[0].field(), field);
  }
}

TEST(DecodeTrainingJob, GpusMayStandInTheTemplate) {
  const TrainingJob job = ReadSoundJob(R"(
apiVersion: lockstep.dev/v1
kind: TrainingJob
metadata: {name: job}
spec:
  roles:
  - name: worker
    template: {spec: {containers: [{command: [a], resources: {limits: {nvidia.com/gpu: 2}}}]}}
)");
  EXPECT_EQ(job.spec.roles.at(0).gpus, 2);
  EXPECT_EQ(job.spec.roles.at(0).processes, 2);
}

TEST(Default, ProcessesFollowGpusForCommandsAndStayOneForTheBuiltInTrainer) {
  TrainingJob job;
  job.spec.roles.resize(3);
  job.spec.roles[0].gpus = 4;
  job.spec.roles[0].processes = 0;
  job.spec.roles[1].processes = 0;
  job.spec.roles[2].gpus = 4;  // and one process, as written
  Default(&job);
  EXPECT_EQ(job.spec.roles[0].processes, 4);
  EXPECT_EQ(job.spec.roles[1].processes, 1);
  EXPECT_EQ(job.spec.roles[2].processes, 1);

  job.spec.training = TrainingSpec();
  job.spec.roles[0].processes = 0;
  Default(&job);
  EXPECT_EQ(job.spec.roles[0].processes, 1);
}

// An evaluator with 8 GPUs had 8 processes by default, and failed for a number that nobody wrote.
TEST(Default, EvaluatorWithGpusHasOneProcessThatSeesAllOfThem) {
  const TrainingJob job = ReadSoundJob(
      "apiVersion: lockstep.dev/v1\nkind: TrainingJob\nmetadata: {name: a}\nspec:\n  roles:\n"
      "  - {name: worker, template: {spec: {containers: [{command: [a]}]}}}\n"
      "  - {name: evaluator, gpus: 8, template: {spec: {containers: [{command: [a]}]}}}\n");
  EXPECT_EQ(job.FindRole(Role::kEvaluator)->processes, 1);
  EXPECT_EQ(job.FindRole(Role::kEvaluator)->gpus, 8);
}

}  // namespace
}  // namespace lockstep::control
