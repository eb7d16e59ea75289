#include <gtest/gtest.h>

#include "operator/convert/conversion.h"
#include "operator/convert/testing/converted.h"
#include "operator/yaml/yaml.h"

namespace lockstep::control {
namespace {

constexpr const char* kLaunchersReplica = "spec.mpiReplicaSpecs.Launcher.";
constexpr const char* kWorkersReplica = "spec.mpiReplicaSpecs.Worker.";
constexpr const char* kLaunchersCommand =
    "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command: ";

// An MPIJob of two workers whose launcher's container has `command` and `more`.
std::string MpiJob(const std::string& command, int slots = 1, const std::string& more = "") {
  return "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: h}\nspec:\n"
         "  slotsPerWorker: " +
         std::to_string(slots) +
         "\n  runPolicy: {backoffLimit: 1}\n  mpiReplicaSpecs:\n"
         "    Launcher: {template: {spec: {containers: [{name: l, image: a, command: [" +
         command + "]" + more +
         "}]}}}\n"
         "    Worker: {replicas: 2, template: {spec: {containers: [{name: w, image: a}]}}}\n";
}

TEST(ConvertMpiJob, FieldsOfTheLaunchersPodAreNamed) {
  const Conversion conversion = ConvertText(R"(
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: ls}
spec:
  slotsPerWorker: 1
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      restartPolicy: Never
      template:
        metadata: {labels: {l: launcher}, annotations: {a: b}}
        spec:
          serviceAccountName: sa
          initContainers: [{name: fetch, image: b}]
          containers:
          - {name: l, image: a, workingDir: /app, command: [mpirun, python, t.py], lifecycle: {}}
          - {name: logger, image: fluent}
          volumes: [{name: lv, emptyDir: {}}]
    Worker:
      replicas: 2
      restartPolicy: Always
      template: {spec: {containers: [{name: w, image: a, command: [sshd], args: [-De]}]}}
)");

  const std::string gone =
      ": not kept: the launcher has no pod any more; where the workers need it, their template has "
      "to say it\n";
  const std::string pod = std::string(kLaunchersReplica) + "template.";
  for (const char* const field : {"metadata.labels",
                                  "metadata.annotations",
                                  "spec.serviceAccountName",
                                  "spec.initContainers",
                                  "spec.containers[0].lifecycle"}) {
    ExpectNote(conversion, pod + field + gone);
  }
  ExpectNote(conversion, pod + "spec.containers[1]: not kept: there is no such pod any more\n");
  EXPECT_EQ(NotesOf(conversion).find("sidecar"), std::string::npos);
  for (const char* const field : {"command", "args"}) {
    ExpectNote(conversion,
               std::string(kWorkersReplica) + "template.spec.containers[0]." + field +
                   ": not kept: the workers run the launcher's program themselves\n");
  }
  ExpectNote(conversion,
             std::string(kWorkersReplica) +
                 "restartPolicy: not kept: the program's end was the launcher's, whose "
                 "restartPolicy, OnFailure, is the role's\n");
  EXPECT_EQ(FirstContainer(conversion)["workingDir"], "/app");
}

TEST(ConvertMpiJob, WorkingDirectoryIsThatOfMpirun) {
  const Conversion conversion =
      ConvertText(MpiJob("mpirun, --wdir, /b, python, t.py", 1, ", workingDir: /app"));
  EXPECT_EQ(FirstContainer(conversion)["workingDir"], "/b");
}

TEST(ConvertMpiJob, RunLauncherAsWorkerIsTrueOrFalse) {
  std::string text = MpiJob("mpirun, python, t.py");
  text.insert(text.find("  slotsPerWorker"), "  runLauncherAsWorker: 'yes'\n");
  EXPECT_EQ(ErrorsOf(ConvertText(text)),
            "spec.runLauncherAsWorker: \"yes\" found, expected true or false\n");
}

TEST(ConvertMpiJob, OneOfAThingIsSpokenOfAsOne) {
  ExpectNote(ConvertText(MpiJob("mpirun, -np, '1', python, t.py")),
             "1 rank was asked for; the job has 2");
}

TEST(ConvertMpiJob, SeveralProgramsAreRefused) {
  EXPECT_EQ(
      ErrorsOf(ConvertText(MpiJob("mpirun, -np, '1', python, a.py, ':', -np, '1', python, b.py"))),
      std::string(kLaunchersCommand) +
          "several programs found behind mpirun, with \":\" between them, expected one: "
          "every pod of a role runs the same\n");
}

TEST(ConvertMpiJob, RanksOnEachNodeAreTheWorkersProcesses) {
  for (const char* const option :
       {"--npernode, '2'", "-N, '2'", "-ppn, '2'", "--map-by, 'ppr:2:node:pe=4'"}) {
    const Conversion conversion =
        ConvertText(MpiJob("mpirun, " + std::string(option) + ", python, t.py", 4));
    EXPECT_EQ(FirstRole(conversion)["processes"], 2) << option;
    ExpectNote(conversion, "spec.slotsPerWorker: not kept: the launcher's command says 2\n");
  }
}

TEST(ConvertMpiJob, CountThatIsAVariableIsReadOrSaidToBeUnknown) {
  const std::string command = "mpirun, -np, $(K), python, t.py";
  const auto notes = [&](const std::string& value) {
    return NotesOf(ConvertText(MpiJob(command, 2, ", env: [{name: K, value: '" + value + "'}]")));
  };
  EXPECT_EQ(notes("4").find("asked"), std::string::npos) << notes("4");
  EXPECT_NE(notes("2").find("2 ranks were asked for; the job has 4, 2 in each of its pods"),
            std::string::npos);
  ExpectNote(ConvertText(MpiJob(command, 2)),
             std::string(kLaunchersCommand) +
                 "-np $(K): how many ranks that is cannot be told from this file; the job has 4, 2 "
                 "in each of its pods");
  EXPECT_EQ(
      ErrorsOf(ConvertText(MpiJob("mpirun, -np, x, python, t.py"))),
      std::string(kLaunchersCommand) + "-np x of mpirun found, expected a number from 1 to 9999\n");
  EXPECT_EQ(ErrorsOf(ConvertText(MpiJob(command, 1, ", env: [{name: K, value: x}]"))),
            std::string(kLaunchersCommand) +
                "-np $(K) (= x) of mpirun found, expected a number from 1 to 9999\n");
}

TEST(ConvertMpiJob, NoWorkersAreReportedWhereTheyAreCounted) {
  std::string text = MpiJob("mpirun, python, t.py");
  text.replace(text.find("replicas: 2"), 11, "replicas: 0");
  const Conversion conversion = ConvertForeignJob(ReadYaml(text).documents.at(0).value, {});
  EXPECT_EQ(ForeignField(conversion, "spec.roles"), std::string(kWorkersReplica) + "replicas");
}

TEST(ConvertMpiJob, ProgramHasTheLaunchersValues) {
  const Conversion conversion =
      ConvertText(MpiJob("mpirun, python, t.py, '--lr=$(LR) $HOME', $(B), '$$(LR)'",
                         1,
                         ", env: [{name: LR, value: '0.1'}]"));
  EXPECT_EQ(FirstContainer(conversion)["command"],
            Json({"python", "t.py", "--lr=0.1 $$HOME", "$(B)", "$$(LR)"}));
  ExpectNote(conversion,
             std::string(kLaunchersCommand) + "$(B) is not set in the workers and stays as text\n");
}

TEST(ConvertMpiJob, LauncherThatGivesRanksItsVariablesGivesThemToTheWorkers) {
  const std::string env = ", env: [{name: A, value: '1'}], envFrom: [{secretRef: {name: aws}}]";
  const Json handed_on = Json::array({{{"name", "A"}, {"value", "1"}}});
  const std::string note = std::string(kLaunchersReplica) +
                           "template.spec.containers[0].envFrom: not kept: the launcher gave";
  const Conversion horovod = ConvertText(MpiJob("horovodrun, -np, '2', python, t.py", 1, env));
  EXPECT_EQ(FirstEnv(horovod), handed_on);
  ExpectNote(horovod, note);

  const std::string open_mpi = MpiJob("mpirun, -np, '2', python, t.py", 1, env);
  EXPECT_EQ(FirstEnv(ConvertText(open_mpi)), Json::array());
  EXPECT_EQ(NotesOf(ConvertText(open_mpi)).find(note), std::string::npos);

  std::string hydra = open_mpi;
  hydra.insert(hydra.find("  slotsPerWorker"), "  mpiImplementation: Intel\n");
  EXPECT_EQ(FirstEnv(ConvertText(hydra)), handed_on);
  ExpectNote(ConvertText(hydra), note);
}

TEST(ConvertMpiJob, LauncherWithoutWorkersIsTheJob) {
  const std::string job =
      "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: h}\nspec:\n"
      "  slotsPerWorker: 4\n  runPolicy: {backoffLimit: 3}\n"
      "  mpiReplicaSpecs: {Launcher: {template: {spec: {containers: [{name: l, image: a, command: "
      "[mpirun, -np, '2', python, t.py]}]}}}}\n";
  const Conversion alone = ConvertText(job);
  EXPECT_EQ(alone.job["spec"]["strategy"], "Horovod");
  EXPECT_EQ(FirstRole(alone)["replicas"], 1);
  EXPECT_EQ(FirstRole(alone)["processes"], 2);
  EXPECT_EQ(FirstContainer(alone)["command"], Json({"python", "t.py"}));

  std::string joins = job;
  joins.replace(joins.find("-np, '2', "), 10, "");
  joins.insert(joins.find("  slotsPerWorker"), "  runLauncherAsWorker: true\n");
  EXPECT_EQ(FirstRole(ConvertText(joins))["processes"], 4);

  std::string plain = job;
  plain.replace(plain.find("mpirun, -np, '2', "), 18, "");
  EXPECT_EQ(ConvertText(plain).job["spec"]["strategy"], "MultiWorkerMirrored");
}

TEST(ConvertMpiJob, WorkersWithoutLauncherAreRefused) {
  EXPECT_EQ(
      ErrorsOf(ConvertText("apiVersion: kubeflow.org/v1\nkind: MPIJob\nmetadata: {name: h}\nspec:\n"
                           "  mpiReplicaSpecs: {Worker: {template: {spec: {containers: []}}}}\n")),
      "spec.mpiReplicaSpecs: no Launcher found, expected one, which has the command\n");
}

// Its other steps would run on every rank, and what it starts is not in the file.
TEST(ConvertMpiJob, LauncherThatIsNeitherMpirunNorHorovodrunIsRefused) {
  for (const auto& [command, first] : std::vector<std::pair<std::string, std::string>>{
           {"bash, launch.sh", "bash"},
           {"/opt/run.sh", "/opt/run.sh"},
           {"python, t.py", "python"},
           {"deepspeed, --hostfile, /etc/mpi/hostfile, t.py", "deepspeed"}}) {
    EXPECT_EQ(ErrorsOf(ConvertText(MpiJob(command))),
              std::string(kLaunchersCommand) + "\"" + first +
                  "\" found, expected mpirun or horovodrun with the program: every rank runs what "
                  "the launcher starts, and a script does more than that; for torchrun use a "
                  "PyTorchJob\n");
  }
}

TEST(ConvertMpiJob, RestartsOfTheLauncherAreThoseOfItsVersion) {
  const auto convert = [](const std::string& version) {
    std::string text = MpiJob("mpirun, python, t.py");
    text.replace(text.find("v2beta1"), 7, version);
    text.replace(text.find("  runPolicy: {backoffLimit: 1}\n"), 31, "");
    return ConvertText(text);
  };
  for (const auto& [version, policy, restarts] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"v2beta1", "OnFailure", "6 retries of the launcher"},
           {"v1", "Never", "no limit"},
           {"v1alpha2", "OnFailure", "6 retries of the launcher"}}) {
    const Conversion conversion = convert(version);
    EXPECT_EQ(FirstRole(conversion)["restartPolicy"], policy) << version;
    ExpectNote(conversion, "spec.runPolicy.backoffLimit: not there, which meant " + restarts);
  }
}

TEST(ConvertMpiJob, LauncherThatAJobStartsAgainIsStartedAgain) {
  std::string text = MpiJob("mpirun, python, t.py");
  text.replace(text.find("Launcher: {"), 11, "Launcher: {restartPolicy: Never, ");
  const Conversion with_job = ConvertText(text);
  EXPECT_EQ(FirstRole(with_job)["restartPolicy"], "OnFailure");
  ExpectNote(with_job,
             std::string(kLaunchersReplica) + "restartPolicy: Never is kept as OnFailure");
  text.replace(text.find("v2beta1"), 7, "v1");
  EXPECT_EQ(FirstRole(ConvertText(text))["restartPolicy"], "Never");
}

}  // namespace
}  // namespace lockstep::control
