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

TEST(ConvertMpiJob, LauncherOfPyTorchBehindMpirunGivesWayToo) {
  const Conversion conversion =
      ConvertText(MpiJob("mpirun, -np, '2', -x, A=1, torchrun, --nproc_per_node=4, t.py"));
  EXPECT_EQ(conversion.job["spec"]["strategy"], "MultiWorkerMirrored");
  EXPECT_EQ(FirstRole(conversion)["processes"], 4);
  EXPECT_EQ(FirstContainer(conversion)["command"], Json({"python3", "t.py"}));
  EXPECT_EQ(FirstContainer(conversion)["env"], Json::array({{{"name", "A"}, {"value", "1"}}}));
  ExpectNote(conversion, std::string(kLaunchersCommand) + "mpirun and torchrun are left out");
  ExpectNote(conversion, "torchrun for one node trained in each pod for itself: the job's 2 pods");

  const Conversion met =
      ConvertText(MpiJob("mpirun, -np, '2', torchrun, --nnodes, '2', --nproc_per_node=4, t.py"));
  EXPECT_EQ(NotesOf(met).find("for itself"), std::string::npos) << NotesOf(met);
  EXPECT_EQ(NotesOf(met).find("times"), std::string::npos) << NotesOf(met);
}

TEST(ConvertMpiJob, MoreLaunchersThanWorkersAreSaid) {
  const Conversion conversion = ConvertText(MpiJob("mpirun, -np, '4', deepspeed, t.py", 2));
  EXPECT_EQ(FirstRole(conversion)["processes"], 1);
  ExpectNote(conversion,
             std::string(kLaunchersCommand) +
                 "mpirun was to start deepspeed 4 times; the job has the processes of one in each "
                 "of its pods\n");
  ExpectNote(conversion, "spec.slotsPerWorker: not kept: deepspeed says how many");
  ExpectNote(ConvertText(MpiJob("mpirun, accelerate, launch, t.py", 2)),
             "mpirun was to start accelerate launch 4 times");
  const Conversion torchrun = ConvertText(MpiJob("mpirun, -pernode, torchrun, t.py", 2));
  EXPECT_EQ(FirstRole(torchrun)["processes"], 1);
  EXPECT_EQ(NotesOf(torchrun).find("times"), std::string::npos) << NotesOf(torchrun);
}

TEST(ConvertMpiJob, ScriptBehindMpirunThatStartsALauncherIsWarnedOf) {
  const Conversion conversion = ConvertText(
      MpiJob("mpirun, -np, '2', bash, -c, 'torchrun --node_rank $OMPI_COMM_WORLD_RANK t.py --n "
             "$OMPI_COMM_WORLD_SIZE'"));
  ExpectNote(conversion, std::string(kLaunchersCommand) + "seems to start torchrun");
  ExpectNote(conversion,
             std::string(kLaunchersCommand) +
                 "OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE: mpirun set what is so called, and "
                 "nobody does now: it is empty to a program or a shell, and $(NAME) stays as it "
                 "is; programs have RANK, LOCAL_RANK, WORLD_SIZE and LOCAL_WORLD_SIZE\n");
  EXPECT_EQ(NotesOf(ConvertText(MpiJob("mpirun, python, t.py"))).find("seems"), std::string::npos);
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
      restartPolicy: OnFailure
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
                 "restartPolicy, Never, is the role's\n");
  EXPECT_EQ(FirstContainer(conversion)["workingDir"], "/app");
}

TEST(ConvertMpiJob, WorkingDirectoryIsThatOfMpirun) {
  const Conversion conversion =
      ConvertText(MpiJob("mpirun, --wdir, /b, python, t.py", 1, ", workingDir: /app"));
  EXPECT_EQ(FirstContainer(conversion)["workingDir"], "/b");
}

// Nobody tells a launcher of PyTorch's of the workers but its command.
TEST(ConvertMpiJob, LaunchersOfPyTorchThatKnewOfNoOtherMachineAreToldOf) {
  const std::string each = " trained in each pod for itself: the job's 2 pods train together";
  const std::string one = " trained in the launcher's pod alone: the job's 2 pods train together";
  ExpectNote(ConvertText(MpiJob("mpirun, -np, '2', accelerate, launch, --multi_gpu, t.py")),
             std::string(kLaunchersCommand) + "accelerate launch for one node" + each);
  ExpectNote(ConvertText(MpiJob("mpirun, -np, '2', torchrun, t.py")),
             "torchrun for one node" + each);
  ExpectNote(ConvertText(MpiJob("accelerate, launch, t.py")),
             "accelerate launch for one node" + one);
  ExpectNote(ConvertText(MpiJob("torchrun, --nproc_per_node=2, t.py")),
             "torchrun for one node" + one);
  ExpectNote(ConvertText(MpiJob("deepspeed, t.py")), "deepspeed without a hostfile" + one);
  for (const char* const met : {"mpirun, -np, '2', accelerate, launch, --num_machines, '2', "
                                "--num_processes, '2', t.py",
                                "deepspeed, --hostfile, /etc/mpi/hostfile, t.py"}) {
    const std::string notes = NotesOf(ConvertText(MpiJob(met)));
    EXPECT_EQ(notes.find("train together"), std::string::npos) << notes;
  }
  ExpectNote(
      ConvertText(MpiJob("accelerate, launch, --num_machines, '3', --num_processes, '3', t.py")),
      "--num_machines 3 was asked for; the job trains on all of its pods, 2");
}

TEST(ConvertMpiJob, SlotsAreSpokenOfWhereTheyAreNotTheProcesses) {
  const auto notes = [](const std::string& command, int slots) {
    return NotesOf(ConvertText(MpiJob(command, slots)));
  };
  const std::string not_kept =
      "spec.slotsPerWorker: not kept: torchrun says how many processes a worker has\n";
  const std::string two = "mpirun, -pernode, torchrun, --nnodes=2, --nproc_per_node=2, t.py";
  EXPECT_NE(notes(two, 4).find(not_kept), std::string::npos);
  EXPECT_EQ(notes(two, 2).find("slotsPerWorker"), std::string::npos) << notes(two, 2);
  EXPECT_NE(notes("torchrun, '--nproc_per_node=$(K)', t.py", 2).find(not_kept), std::string::npos);
}

TEST(ConvertMpiJob, AccelerateStartsOneProcessWhereItIsToldOfMoreInVain) {
  const Conversion conversion =
      ConvertText(MpiJob("accelerate, launch, --cpu, --num_processes, '4', t.py", 2));
  EXPECT_EQ(FirstRole(conversion)["processes"], 1);
  ExpectNote(conversion, "told of 4 processes a pod, accelerate launch started one");
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
  ExpectNote(ConvertText(MpiJob("mpirun, -np, '1', torchrun, t.py")),
             "mpirun was to start torchrun 1 time; the job has");
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
             std::string(kLaunchersCommand) +
                 "$(B): what the launcher has there cannot be told from this file");
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

TEST(ConvertMpiJob, SlotsOfHostsAreAnotherNumber) {
  const std::string note = "2 ranks were asked for by the hosts and their slots; the job has 8";
  ExpectNote(ConvertText(MpiJob("mpirun, -H, 'a:1,b', python, t.py", 4)), note);
  EXPECT_EQ(NotesOf(ConvertText(MpiJob("mpirun, -H, 'a:4,b:4', t.py", 4))).find("hosts"),
            std::string::npos);
  ExpectNote(ConvertText(MpiJob("orterun, -np, '2', t.py", 4)), "2 ranks were asked for");
}

TEST(ConvertMpiJob, LauncherWithoutWorkersIsRefusedWithWhatWasFound) {
  const std::string job =
      "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: h}\nspec:\n"
      "  slotsPerWorker: 4\n  runLauncherAsWorker: true\n  runPolicy: {backoffLimit: 3}\n"
      "  mpiReplicaSpecs: {Launcher: {template: {spec: {containers: []}}}}\n";
  const Conversion conversion = ConvertText(job);
  EXPECT_EQ(
      ErrorsOf(conversion),
      "spec.mpiReplicaSpecs: no Worker found, expected a Launcher, which has the command, and "
      "a Worker; of a launcher that is the only worker (runLauncherAsWorker) write one with "
      "the launcher's template and replicas: 0\n");
  EXPECT_EQ(NotesOf(conversion), "");
}

}  // namespace
}  // namespace lockstep::control
