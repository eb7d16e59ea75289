#include "operator/convert/conversion.h"

#include <gtest/gtest.h>

#include "operator/convert/testing/converted.h"
#include "operator/yaml/yaml_writer.h"

namespace lockstep::control {
namespace {

// What the decoder says of the job has to be found in the file that its user wrote.
TEST(ForeignField, IsWhereTheJobsFieldComesFrom) {
  const auto expect = [](const std::string& text,
                         const std::vector<std::pair<std::string, std::string>>& rows) {
    const Conversion conversion = ConvertAny(text);
    for (const auto& [of_job, foreign] : rows) {
      EXPECT_EQ(ForeignField(conversion, of_job), foreign);
    }
  };
  const std::string pod = "spec.roles[0].template.spec.";
  const std::string tf = "spec.tfReplicaSpecs.Worker.template.spec.";
  expect(R"(
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: tf}
spec:
  runPolicy: {schedulingPolicy: {priorityClass: high}, backoffLimit: 1}
  tfReplicaSpecs:
    PS: {replicas: 0, template: {spec: {containers: [{name: tensorflow, image: i, command: [a]}]}}}
    Worker:
      template:
        spec:
          initContainers: [{name: first, image: i}]
          containers:
          - {name: log, image: i}
          - name: tensorflow
            image: i
            command: [a]
            env: [{name: RANK, value: "1"}, {name: MINE, value: "2"}]
)",
         {{"metadata.name", "metadata.name"},
          {"spec.runPolicy.backoffLimit", "spec.runPolicy.backoffLimit"},
          {"spec.scheduling.priorityClassName", "spec.runPolicy.schedulingPolicy.priorityClass"},
          {"spec.roles[0].replicas", "spec.tfReplicaSpecs.Worker.replicas"},
          {pod + "containers[0].image", tf + "containers[1].image"},
          {pod + "containers[0].env[0].value", tf + "containers[1].env[1].value"},
          {pod + "initContainers[0].image", tf + "initContainers[0].image"},
          {pod + "initContainers[1].image", tf + "containers[0].image"}});
  expect(
      R"(
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: train}
spec:
  suspend: true
  runtimeRef: {name: torch}
  trainer: {numNodes: 2, image: i, command: [torchrun, t.py], numProcPerNode: 2,
            resourcesPerNode: {limits: {cpu: 1}}}
)",
      {{"spec.runPolicy.suspend", "spec.suspend"},
       {"spec.roles[0].replicas", "spec.trainer.numNodes"},
       {"spec.roles[0].processes", "spec.trainer.numProcPerNode"},
       {pod + "containers[0].image", "spec.trainer.image"},
       {pod + "containers[0].resources.limits.cpu", "spec.trainer.resourcesPerNode.limits.cpu"}});
  const std::string mpi = "spec.mpiReplicaSpecs.";
  expect(
      KubeflowJob("MPIJob", Replica("Launcher", "command: [mpirun, a.py]") + Replica("Worker", "")),
      {{"spec.roles[0].replicas", mpi + "Worker.replicas"},
       {pod + "containers[0].command", mpi + "Launcher.template.spec.containers[0].command"},
       {pod + "containers[0].image", mpi + "Worker.template.spec.containers[0].image"}});
}

TEST(ConvertTfJob, ParameterServersKeepTheirRoles) {
  const Conversion conversion = ConvertText(R"(
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: dist, namespace: ml, uid: 1-2, labels: {team: a}}
spec:
  runPolicy: {cleanPodPolicy: All, backoffLimit: 3}
  tfReplicaSpecs:
    PS: {replicas: 2, template: {spec: {containers: [{name: tensorflow, image: i, command: [a]}]}}}
    Worker:
      replicas: 4
      restartPolicy: ExitCode
      template:
        metadata: {annotations: {sidecar.istio.io/inject: "false"}}
        spec: {nodeSelector: {gpu: "yes"}, containers: [{name: tensorflow, image: i, command: [a]}]}
status: {conditions: []}
)");

  EXPECT_EQ(WriteYaml(conversion.job), R"(apiVersion: lockstep.dev/v1
kind: TrainingJob
metadata:
  name: dist
  namespace: ml
  labels:
    team: a
spec:
  strategy: ParameterServer
  roles:
    - name: ps
      replicas: 2
      restartPolicy: Never
      template:
        spec:
          containers:
            - name: tensorflow
              image: i
              command:
                - a
    - name: worker
      replicas: 4
      restartPolicy: ExitCode
      template:
        metadata:
          annotations:
            sidecar.istio.io/inject: "false"
        spec:
          containers:
            - name: tensorflow
              image: i
              command:
                - a
          nodeSelector:
            gpu: "yes"
  runPolicy:
    cleanPodPolicy: All
    backoffLimit: 3
)");
  EXPECT_NE(NotesOf(conversion).find("Worker.restartPolicy: kept, but other exit codes"),
            std::string::npos);
}

// A job of one role whose pods are as `pod`, `spec` being fields of its own.
std::string TfJob(const std::string& pod,
                  const std::string& spec = "runPolicy: {backoffLimit: 1}") {
  return KubeflowJob("TFJob", "Worker: {template: {spec: " + pod + "}}", spec);
}

TEST(ConvertTfJob, WhatCannotBeKeptIsNotedByField) {
  const Conversion conversion = ConvertText(
      TfJob("{restartPolicy: Never, hostname: h, containers: [{name: side, image: s}, {name: "
            "tensorflow, image: i, command: [a], env: [{name: RANK, value: '1'}, {name: X, value: "
            "'2'}], ports: [{name: tfjob-port, containerPort: 2000}]}]}",
            "runPolicy: {backoffLimit: 1}, enableDynamicWorker: true, bogus: 1"));

  const std::string pod_path = "spec.tfReplicaSpecs.Worker.template.spec";
  EXPECT_EQ(
      NotesOf(conversion),
      pod_path + ".restartPolicy: not kept: the role has its own restartPolicy\n" + pod_path +
          ".hostname: not kept: the operator gives the pods names, by which they find each "
          "other\n" +
          pod_path + ".containers[1].env[0]: RANK is not kept: Lockstep sets it itself\n" +
          pod_path +
          ".containers[0]: kept as a sidecar (initContainers with restartPolicy: Always): this "
          "container starts before the trainer, is restarted whenever it ends, even with success, "
          "and is stopped with the trainer. Move a container that should end by itself to "
          "initContainers, without restartPolicy\n" +
          pod_path +
          ".containers[1].ports[0]: not used: TF_CONFIG always has port 2222; the server must "
          "listen on that port\n" +
          "spec.enableDynamicWorker: not kept: TF_CONFIG lists the whole cluster, so the number of "
          "workers is fixed\nspec.bogus: not kept: a TrainingJob has no such field\n");
  const Json pod = conversion.job["spec"]["roles"][0]["template"]["spec"];
  EXPECT_EQ(pod["containers"].size(), 1U);
  EXPECT_EQ(pod["containers"][0]["env"], Json::array({{{"name", "X"}, {"value", "2"}}}));
  EXPECT_EQ(pod["initContainers"][0]["restartPolicy"], "Always");
}

TEST(ConvertTfJob, PodsOfSeveralGpusRunOneProcessAsBefore) {
  const Conversion conversion =
      ConvertText(TfJob("{containers: [{name: tensorflow, image: i, command: [a], resources: "
                        "{limits: {nvidia.com/gpu: 4, cpu: 0.5}}}]}"));

  EXPECT_EQ(FirstRole(conversion)["processes"], 1);
}

TEST(ConvertTfJob, WhatTheImageKnowsHasToBeSaid) {
  const std::string text = TfJob("{containers: [{name: tensorflow, args: [--lr, '1']}]}");

  EXPECT_EQ(
      ErrorsOf(ConvertText(text)),
      "spec.tfReplicaSpecs.Worker.template.spec.containers[0].image: missing, expected an image; "
      "set it with --image\nspec.tfReplicaSpecs.Worker.template.spec.containers[0].command: "
      "missing, and lockstep does not know the image's own command; set the command with "
      "--command\n");
  const Json container = FirstContainer(ConvertText(text, {"img", {"python", "t.py"}}));
  EXPECT_EQ(container["command"], Json({"python", "t.py", "--lr", "1"}));
  EXPECT_EQ(container["image"], "img");
}

TEST(ConvertTfJob, TwoChiefsAndForeignRolesAreErrors) {
  EXPECT_EQ(ErrorsOf(ConvertText(KubeflowJob("TFJob",
                                             Replica("Chief", "command: [a]") +
                                                 Replica("master", "command: [a]") +
                                                 Replica("Queen", "command: [a]")))),
            "spec.tfReplicaSpecs.master: a second role chief found, expected "
            "one\nspec.tfReplicaSpecs.Queen: not a role of a TFJob, expected Chief, Master, "
            "Worker, PS or Evaluator\n");
}

Conversion ConvertPyTorch(const std::string& command, const std::string& spec) {
  return ConvertText(KubeflowJob("PyTorchJob", Replica("Worker", "command: " + command), spec));
}

TEST(ConvertPyTorchJob, ElasticPolicyIsASizeAndABackoffLimit) {
  const Conversion conversion = ConvertPyTorch(
      "[torchrun, t.py]", "nprocPerNode: \"2\", elasticPolicy: {minReplicas: 1, maxRestarts: 9}");
  EXPECT_EQ(FirstRole(conversion)["processes"], 2);
  EXPECT_EQ(FirstRole(conversion)["restartPolicy"], "OnFailure");
  EXPECT_EQ(conversion.job["spec"]["successPolicy"], "AllWorkers");
}

TEST(ConvertPyTorchJob, RestartsOfTheElasticPolicyAreTheBackoffLimitOrGiveWayToIt) {
  const std::string elastic = "elasticPolicy: {maxRestarts: 5}";
  const Conversion alone = ConvertPyTorch("[a]", elastic);
  EXPECT_EQ(alone.job["spec"]["runPolicy"]["backoffLimit"], 5);
  EXPECT_EQ(NotesOf(alone),
            "spec.elasticPolicy.maxRestarts: kept as runPolicy.backoffLimit, which counts "
            "incidents within a day\n");
  const Conversion both = ConvertPyTorch("[a]", elastic + ", runPolicy: {backoffLimit: 3}");
  EXPECT_EQ(both.job["spec"]["runPolicy"]["backoffLimit"], 3);
  EXPECT_EQ(NotesOf(both),
            "spec.elasticPolicy.maxRestarts: not kept: runPolicy.backoffLimit is used instead\n");
}

TEST(ConvertPyTorchJob, CommandThatIsNoListIsNotCalledMissing) {
  EXPECT_EQ(ErrorsOf(ConvertPyTorch("python t.py", "successPolicy: null")),
            "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].command: \"python t.py\" "
            "found, expected a list of words, such as [python3, train.py]\n");
}

TEST(ConvertTrainJob, PatchesReachThePods) {
  const Conversion conversion = ConvertText(R"y(
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: t, labels: {kueue.x-k8s.io/queue-name: q, kueue.x-k8s.io/priority-class: p}}
spec:
  suspend: true
  runtimeRef: {name: torch-distributed}
  trainer:
    numNodes: 3
    numProcPerNode: 2
    command: [torchrun, --no-python, python3, -c, "print(1)"]
    resourcesPerNode: {
  requests : {
  cpu:
    "2"
  }}
  runtimePatches:
  - manager: me
    trainingRuntimeSpec:
      template:
        spec:
          replicatedJobs:
          - name: node
            template:
              spec:
                template:
                  metadata: {
  labels : {
  a:
    b
  }}
                  spec:
                    serviceAccountName: sa
                    containers: [{name: node, volumeMounts: [{name: v, mountPath: /v}]}]
                    volumes: [{name: v, emptyDir: {}}]
)y",
                                            {"torch", {}});

  EXPECT_FALSE(conversion.job["spec"]["runPolicy"].contains("suspend"));
  const Json role = conversion.job["spec"]["roles"][0];
  EXPECT_EQ(role["replicas"], 3);
  EXPECT_EQ(role["processes"], 2);
  EXPECT_EQ(role["template"]["metadata"]["labels"]["a"], "b");
  const Json pod = role["template"]["spec"];
  EXPECT_EQ(pod["serviceAccountName"], "sa");
  EXPECT_EQ(pod["containers"][0]["volumeMounts"][0]["mountPath"], "/v");
  EXPECT_EQ(pod["containers"][0]["command"],
            Json({"torchrun", "--no-python", "python3", "-c", "print(1)"}));
  for (const char* const note :
       {"spec.runtimeRef.name: the runtime torch-distributed is not in this file",
        "kueue.x-k8s.io/queue-name is kept: the job waits until Kueue admits it",
        "kueue.x-k8s.io/priority-class is kept: with",
        "spec.suspend: not kept: Kueue removed suspend when it admitted the job; in the "
        "TrainingJob, the label kueue.x-k8s.io/queue-name makes the job wait\n"}) {
    ExpectNote(conversion, note);
  }
}

TEST(ConvertForeignJob, WrongTypesAreNamedAndNeverThrow) {
  EXPECT_EQ(ErrorsOf(ConvertAny("apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: 3\nspec:\n  "
                                "runPolicy: []\n  tfReplicaSpecs: x\n")),
            "metadata: 3 found, expected an object\nspec.tfReplicaSpecs: \"x\" found, expected an "
            "object\nspec.tfReplicaSpecs: missing, expected the roles of the job\nspec.runPolicy: "
            "a list found, expected an object\n");
  for (const char* const kind : {"TFJob", "PyTorchJob", "MPIJob"}) {
    for (const char* const spec : {"{}",
                                   "7",
                                   "{tfReplicaSpecs: {Worker: 1}}",
                                   "{pytorchReplicaSpecs: {Master: {template: "
                                   "{spec: {containers: [1]}}}}}",
                                   "{mpiReplicaSpecs: {Launcher: {}, Worker: {}}}"}) {
      EXPECT_FALSE(ConvertAny(std::string("apiVersion: kubeflow.org/v1\nkind: ") + kind +
                              "\nmetadata: {name: j}\nspec: " + spec + "\n")
                       .errors.empty())
          << kind << spec;
    }
  }
}

TEST(ConvertForeignJob, FirstVersionIsRefusedByItsName) {
  EXPECT_EQ(ErrorsOf(ConvertAny("apiVersion: kubeflow.org/v1alpha1\nkind: MPIJob\nmetadata: {name: "
                                "j}\nspec: {gpus: 8, template: {}}\n")),
            "apiVersion: kubeflow.org/v1alpha1 found, which has different fields, expected v1 or "
            "v2beta1\n");
}

TEST(ConvertForeignJob, NumbersAndBooleansOfACommandAreText) {
  const Conversion conversion = ConvertText(
      TfJob("{containers: [{name: tensorflow, image: i, command: [python, t.py, --epochs, 10], "
            "args: [--amp, true, --lr, 0.5]}]}"));
  EXPECT_EQ(FirstContainer(conversion)["command"],
            Json({"python", "t.py", "--epochs", "10", "--amp", "true", "--lr", "0.5"}));
  ExpectNote(conversion, "containers[0].args[1]: kept as the text \"true\"\n");
  EXPECT_EQ(
      ErrorsOf(ConvertAny(TfJob("{containers: [{name: tensorflow, image: i, command: [a, {}]}]}"))),
      "spec.tfReplicaSpecs.Worker.template.spec.containers[0].command[1]: an object found, "
      "expected a string\n");
}

TEST(DescribeOther, JobInAnotherObjectIsNamedWithItsPlace) {
  const Json job = {{"apiVersion", "kubeflow.org/v1"}, {"kind", "TFJob"}};
  const OtherDocument wrapper =
      DescribeOther({{"apiVersion", "workload.codeflare.dev/v1beta2"},
                     {"kind", "AppWrapper"},
                     {"spec", {{"components", Json::array({Json{{"template", job}}})}}}});
  EXPECT_TRUE(wrapper.is_job);
  EXPECT_EQ(wrapper.text,
            "a document of kind AppWrapper is left as it is; it holds a job at "
            "spec.components[0].template: convert that job separately");
  const OtherDocument map = DescribeOther(
      {{"apiVersion", "v1"},
       {"kind", "ConfigMap"},
       {"data", {{"job.yaml", "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\n"}, {"a", "b"}}}});
  EXPECT_TRUE(map.is_job);
  EXPECT_NE(map.text.find("it holds a job at data.job.yaml"), std::string::npos) << map.text;
  const OtherDocument experiment =
      DescribeOther({{"apiVersion", "kubeflow.org/v1beta1"},
                     {"kind", "Experiment"},
                     {"spec", {{"trialTemplate", {{"trialSpec", job}}}}}});
  EXPECT_TRUE(experiment.is_job);
  EXPECT_NE(
      experiment.text.find("a document of kind Experiment is left as it is; it holds a job at "
                           "spec.trialTemplate.trialSpec"),
      std::string::npos)
      << experiment.text;
  const Json step = {{"resource", {{"manifest", "apiVersion: kubeflow.org/v1\nkind: MPIJob\n"}}}};
  const OtherDocument workflow = DescribeOther({{"apiVersion", "argoproj.io/v1alpha1"},
                                                {"kind", "Workflow"},
                                                {"spec", {{"templates", Json::array({step})}}}});
  EXPECT_TRUE(workflow.is_job);
  EXPECT_NE(workflow.text.find("it holds a job at spec.templates[0].resource.manifest"),
            std::string::npos)
      << workflow.text;
}

TEST(DescribeOther, KindsOfOtherGroupsAreNotTakenForTheirs) {
  const OtherDocument other =
      DescribeOther({{"apiVersion", "training.kubedl.io/v1alpha1"}, {"kind", "TFJob"}});
  EXPECT_TRUE(other.is_job);
  EXPECT_EQ(other.text,
            "TFJob of training.kubedl.io/v1alpha1 found, expected a TFJob, PyTorchJob, MPIJob "
            "(kubeflow.org) or TrainJob (trainer.kubeflow.org)");
  EXPECT_FALSE(DescribeOther({{"apiVersion", "v1"}, {"kind", "ConfigMap"}}).is_job);
  EXPECT_TRUE(DescribeOther({{"apiVersion", "kubeflow.org/v1"}, {"kind", "JAXJob"}}).is_job);
}

TEST(DescribeOther, EmptyItemIsCalledEmpty) {
  EXPECT_EQ(DescribeOther(Json()).text, "empty, expected apiVersion and kind");
  EXPECT_EQ(DescribeOther(3).text, "3 found, expected apiVersion and kind");
}

TEST(IsForeignJob, GoesByGroupAndKind) {
  EXPECT_TRUE(IsForeignJob({{"apiVersion", "kubeflow.org/v2beta1"}, {"kind", "MPIJob"}}));
  EXPECT_FALSE(IsForeignJob({{"apiVersion", "kubeflow.org/v1"}, {"kind", "XGBoostJob"}}));
  EXPECT_FALSE(IsForeignJob({{"apiVersion", "v1"}, {"kind", "TFJob"}}));
  EXPECT_FALSE(IsForeignJob(Json::array()));
}

}  // namespace
}  // namespace lockstep::control
