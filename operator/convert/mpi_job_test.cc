#include <gtest/gtest.h>

#include "operator/convert/conversion.h"
#include "operator/convert/testing/converted.h"

namespace lockstep::control {
namespace {

constexpr const char* kLaunchersReplica = "spec.mpiReplicaSpecs.Launcher.";
constexpr const char* kWorkersReplica = "spec.mpiReplicaSpecs.Worker.";
constexpr const char* kLaunchersContainer =
    "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].";

// An MPIJob of two workers, one of which has `worker`, and a launcher that runs `command` and has
// `more`; `spec` stands in the job's.
std::string MpiJob(const std::string& command,
                   const std::string& more = "",
                   const std::string& spec = "slotsPerWorker: 1",
                   const std::string& worker = "") {
  return KubeflowJob(
      "MPIJob",
      Replica("Launcher", "command: [" + command + "], " + more, "") + Replica("Worker", worker),
      "runPolicy: {backoffLimit: 1}, " + spec);
}

// The note at `field` that has `words` in it; empty: there is none.
std::string NoteAt(const Conversion& conversion,
                   const std::string& field,
                   const std::string& words = "") {
  for (const ConversionNote& note : conversion.notes) {
    if (note.field == field && note.text.find(words) != std::string::npos) {
      return note.text;
    }
  }
  return "";
}

Json Variable(const std::string& name, const std::string& value) {
  return {{"name", name}, {"value", value}};
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
      ": not kept: there is no launcher pod; if the workers need this field, set it in their "
      "template\n";
  const std::string pod = std::string(kLaunchersReplica) + "template.";
  for (const char* const field : {"metadata.labels",
                                  "metadata.annotations",
                                  "spec.serviceAccountName",
                                  "spec.initContainers",
                                  "spec.containers[0].lifecycle"}) {
    ExpectNote(conversion, pod + field + gone);
  }
  ExpectNote(conversion, pod + "spec.containers[1]: not kept: there is no launcher pod\n");
  EXPECT_EQ(NotesOf(conversion).find("sidecar"), std::string::npos);
  for (const char* const field : {"command", "args"}) {
    ExpectNote(conversion,
               std::string(kWorkersReplica) + "template.spec.containers[0]." + field +
                   ": not kept: the workers run the launcher's program themselves\n");
  }
  ExpectNote(conversion,
             std::string(kWorkersReplica) +
                 "restartPolicy: not kept: the role takes the launcher's restartPolicy, OnFailure, "
                 "because it runs the launcher's program\n");
  EXPECT_EQ(FirstContainer(conversion)["workingDir"], "/app");
}

TEST(ConvertMpiJob, ProgramRunsInTheWorkersOnAllSlots) {
  const Conversion conversion =
      ConvertText(MpiJob("mpirun, -np, '1', --wdir, /b, python, t.py", "workingDir: /app"));
  EXPECT_EQ(conversion.job["spec"]["strategy"], "Horovod");
  EXPECT_EQ(FirstContainer(conversion)["command"], Json({"python", "t.py"}));
  EXPECT_EQ(FirstContainer(conversion)["workingDir"], "/b");
  ExpectNote(conversion, "1 rank was requested; the job has 2, 1 in each of its pods");
  ExpectNote(conversion, "MPI programs (nccl-tests, GROMACS) will not work; Horovod will");

  const Conversion slots = ConvertText(MpiJob("mpirun, python, t.py", "", "slotsPerWorker: 2"));
  EXPECT_EQ(FirstRole(slots)["processes"], 2);
  EXPECT_EQ(ForeignField(slots, "spec.roles[0].processes"), "spec.slotsPerWorker");
  const Conversion in_command =
      ConvertText(MpiJob("mpirun, -N, '2', python, t.py", "", "slotsPerWorker: 4"));
  EXPECT_EQ(FirstRole(in_command)["processes"], 2);
  ExpectNote(in_command, "spec.slotsPerWorker: not kept: the launcher's command says 2\n");
}

TEST(ConvertMpiJob, LauncherThatIsAWorkerIsCountedAndNoted) {
  const auto joining = [](const std::string& joins) {
    return ConvertText(MpiJob("mpirun, python, t.py", "", "runLauncherAsWorker: " + joins));
  };
  EXPECT_EQ(FirstRole(joining("true"))["replicas"], 3);
  EXPECT_EQ(NoteAt(joining("true"), "spec.runLauncherAsWorker"),
            "kept: one more worker takes the place of the launcher; replicas: 3");
  EXPECT_EQ(ErrorsOf(joining("'yes'")),
            "spec.runLauncherAsWorker: \"yes\" found, expected true or false\n");
}

TEST(ConvertMpiJob, CountThatIsAVariableIsReadOrSaidToBeUnknown) {
  const auto convert = [&](const std::string& env) {
    return ConvertText(
        MpiJob("mpirun, -np, $(K), python, t.py", "env: [" + env + "]", "slotsPerWorker: 2"));
  };
  EXPECT_EQ(NotesOf(convert("{name: K, value: '4'}")).find("asked"), std::string::npos);
  ExpectNote(convert("{name: K, value: '2'}"), "2 ranks were requested; the job has 4, 2 in each");
  const std::string command = std::string(kLaunchersContainer) + "command: ";
  ExpectNote(convert(""),
             command +
                 "-np $(K): the number of ranks is not known from this file; the job has 4, 2 in "
                 "each of its pods");
  EXPECT_EQ(ErrorsOf(convert("{name: K, value: x}")),
            command + "-np $(K) (= x) of mpirun found, expected a number from 1 to 9999\n");
}

TEST(ConvertMpiJob, NoWorkersAreReportedWhereTheyAreCounted) {
  std::string text = MpiJob("mpirun, python, t.py");
  text.replace(text.find("replicas: 2"), 11, "replicas: 0");
  EXPECT_EQ(ForeignField(ConvertAny(text), "spec.roles"),
            std::string(kWorkersReplica) + "replicas");
}

TEST(ConvertMpiJob, ProgramHasTheLaunchersValues) {
  const Conversion conversion = ConvertText(MpiJob(
      "mpirun, python, t.py, '--lr=$(LR) $HOME', $(B), '$$(LR)'", "env: [{name: LR, value: '1'}]"));
  EXPECT_EQ(FirstContainer(conversion)["command"],
            Json({"python", "t.py", "--lr=1 $$HOME", "$(B)", "$$(LR)"}));
  EXPECT_EQ(NoteAt(conversion, std::string(kLaunchersContainer) + "command", "$(B)"),
            "$(B) is not set in the workers, so it stays as text");
}

TEST(ConvertMpiJob, LauncherThatGivesRanksItsVariablesGivesThemToTheWorkers) {
  const std::string env = "env: [{name: A, value: '1'}], envFrom: [{secretRef: {name: aws}}]";
  const std::string mpirun = "mpirun, -np, '2', python, t.py";
  const std::string field = std::string(kLaunchersContainer) + "envFrom";
  for (const Conversion& gives : {ConvertText(MpiJob("horovodrun, -np, '2', python, t.py", env)),
                                  ConvertText(MpiJob(mpirun, env, "mpiImplementation: Intel"))}) {
    EXPECT_EQ(FirstEnv(gives), Json::array({Variable("A", "1")}));
    EXPECT_NE(NoteAt(gives, field, "not kept: the launcher passed"), "");
  }
  const Conversion open_mpi = ConvertText(MpiJob(mpirun, env));
  EXPECT_EQ(FirstEnv(open_mpi), Json::array());
  EXPECT_EQ(NoteAt(open_mpi, field), "");
}

TEST(ConvertMpiJob, VariablesHandedOnGoToTheWorkers) {
  const Conversion conversion = ConvertText(
      MpiJob("mpirun, -x, RANK=3, -x, TWO, -x, KEY, -x, PATH, -x, LD_LIBRARY_PATH, python, t.py",
             "env: [{name: TWO, value: '2'}, {name: MINE, value: m}, {name: KEY, valueFrom: "
             "{secretKeyRef: {name: s, key: k}}}]"));
  const Json env = FirstEnv(conversion);
  ASSERT_EQ(env.size(), 2U) << env;
  EXPECT_EQ(env[0], Variable("TWO", "2"));
  EXPECT_EQ(env[1]["valueFrom"]["secretKeyRef"]["key"], "k");
  const std::string command = std::string(kLaunchersContainer) + "command";
  EXPECT_EQ(NoteAt(conversion, command, "not passed on"),
            "PATH, LD_LIBRARY_PATH: not passed on, because the launcher takes the value from its "
            "image or envFrom; a worker uses the value of its own image, env or envFrom");
  EXPECT_EQ(NoteAt(conversion, command, "RANK"), "RANK is not kept: Lockstep sets it itself");
  EXPECT_EQ(ForeignField(conversion, "spec.roles[0].template.spec.containers[0].env[1].valueFrom"),
            std::string(kLaunchersContainer) + "env[2].valueFrom");
}

TEST(ConvertMpiJob, VariablesOfMpirunWinOverTheWorkers) {
  const Conversion conversion = ConvertText(MpiJob(
      "mpirun, -x, FOO=bar, -x, SAME=1, python, t.py",
      "",
      "slotsPerWorker: 1",
      "env: [{name: RANK, value: '1'}, {name: FOO, value: other}, {name: SAME, value: '1'}]"));
  EXPECT_EQ(FirstEnv(conversion), Json::array({Variable("FOO", "bar"), Variable("SAME", "1")}));
  const std::string worker = std::string(kWorkersReplica) + "template.spec.containers[0].env";
  EXPECT_EQ(NoteAt(conversion, worker + "[1]"),
            "not kept: all ranks get the launcher's FOO instead, as under mpirun");
  EXPECT_EQ(NoteAt(conversion, worker + "[2]"), "");
}

// A worker has not what the launcher's value refers to, or has it only later.
TEST(ConvertMpiJob, ReferencesToWhatTheLauncherHasAreReplaced) {
  const Conversion conversion = ConvertText(
      MpiJob("mpirun, -x, DEEP, -x, DIR, -x, PLAIN, -x, 'OUT=$(BASE)/out', python, t.py",
             "env: [{name: BASE, value: /old}, {name: BASE, value: '/data$$'}, {name: DIR, value: "
             "$(BASE)/x}, {name: NONE}, {name: DEEP, value: $(DIR)$(NONE)/y}, {name: PLAIN, value: "
             "'$HOME $$(BASE)'}]"));
  EXPECT_EQ(FirstEnv(conversion),
            Json::array({Variable("DEEP", "/data$$/x/y"),
                         Variable("DIR", "/data$$/x"),
                         Variable("PLAIN", "$HOME $$(BASE)"),
                         Variable("OUT", "/data$$/out")}));
}

TEST(ConvertMpiJob, ReferencesToWhatNoFileSaysStayAndAreNoted) {
  const Conversion conversion = ConvertText(
      MpiJob("mpirun, -x, URL, -x, EARLY, -x, 'OUT=$(TOKEN)/out', python, t.py",
             "env: [{name: EARLY, value: $(LATE)}, {name: LATE, value: l}, {name: TOKEN, "
             "valueFrom: {secretKeyRef: {name: s, key: k}}}, {name: URL, value: "
             "'u:$(TOKEN)@$(LATE)'}]"));
  EXPECT_EQ(FirstEnv(conversion),
            Json::array({Variable("URL", "u:$(TOKEN)@l"),
                         Variable("EARLY", "$(LATE)"),
                         Variable("OUT", "$(TOKEN)/out")}));
  const std::string rest = " is not set in the workers, so it stays as text";
  EXPECT_EQ(NoteAt(conversion, std::string(kLaunchersContainer) + "env[3]"),
            "$(TOKEN) in the value of URL" + rest);
  EXPECT_EQ(NoteAt(conversion, std::string(kLaunchersContainer) + "env[0]"),
            "$(LATE) in the value of EARLY" + rest);
  EXPECT_EQ(NoteAt(conversion, std::string(kLaunchersContainer) + "command", "OUT"),
            "$(TOKEN) in the value of OUT" + rest);
}

// What is in a manifest is of no type before somebody has looked.
TEST(ConvertMpiJob, ValuesOfAnotherTypeAreErrorsAtTheirFields) {
  const auto errors_of = [](const std::string& launcher, const std::string& pod) {
    return ErrorsOf(ConvertAny(KubeflowJob(
        "MPIJob",
        "Launcher: {template: {spec: {containers: [{name: l, command: [mpirun, t.py], " + launcher +
            "}]}}}, Worker: {template: {spec: {" + pod + "}}}")));
  };
  EXPECT_EQ(errors_of("image: 5", "containers: [{name: w}]"),
            std::string(kLaunchersContainer) + "image: 5 found, expected a string\n");
  EXPECT_EQ(errors_of("image: a",
                      "initContainers: 5, containers: [{name: w, image: b}, {name: v, image: b}]"),
            std::string(kWorkersReplica) +
                "template.spec.initContainers: 5 found, expected a list of containers\n");
  EXPECT_EQ(errors_of("image: a", "containers: [{name: w, image: null}]"), "");
}

TEST(ConvertMpiJob, LauncherWithoutWorkersIsTheJob) {
  const auto convert = [](const std::string& command, const std::string& more = "") {
    return ConvertText(KubeflowJob("MPIJob",
                                   Replica("Launcher", "command: [" + command + "]", ""),
                                   "runPolicy: {backoffLimit: 3}, slotsPerWorker: 4" + more));
  };
  const Conversion alone = convert("mpirun, -np, '2', python, t.py");
  EXPECT_EQ(alone.job["spec"]["strategy"], "Horovod");
  EXPECT_EQ(FirstRole(alone)["replicas"], 1);
  EXPECT_EQ(FirstRole(alone)["processes"], 2);
  EXPECT_EQ(FirstContainer(alone)["command"], Json({"python", "t.py"}));
  const Conversion joins = convert("mpirun, python, t.py", ", runLauncherAsWorker: true");
  EXPECT_EQ(FirstRole(joins)["processes"], 4);
  EXPECT_EQ(convert("python, t.py").job["spec"]["strategy"], "MultiWorkerMirrored");
}

TEST(ConvertMpiJob, WorkersWithoutLauncherAreRefused) {
  EXPECT_EQ(ErrorsOf(ConvertText(KubeflowJob("MPIJob", Replica("Worker", "")))),
            "spec.mpiReplicaSpecs: no Launcher found, expected one with the command\n");
}

// Its other steps would run on every rank, and what it starts is not in the file.
TEST(ConvertMpiJob, LauncherThatIsNeitherMpirunNorHorovodrunIsRefused) {
  for (const auto& [command, first] : std::vector<std::pair<std::string, std::string>>{
           {"bash, launch.sh", "bash"},
           {"/opt/run.sh", "/opt/run.sh"},
           {"python, t.py", "python"},
           {"deepspeed, --hostfile, /etc/mpi/hostfile, t.py", "deepspeed"}}) {
    EXPECT_EQ(ErrorsOf(ConvertText(MpiJob(command))),
              std::string(kLaunchersContainer) + "command: \"" + first +
                  "\" found, expected mpirun or horovodrun with the program: every rank runs this "
                  "program, but a script may do more than that. For torchrun use a PyTorchJob\n");
  }
}

// mpi-operator hands backoffLimit on to a Job of batch/v1, whose default is 6; the Job of v2beta1
// and v1alpha2 starts the launcher again.
TEST(ConvertMpiJob, RestartsOfTheLauncherAreThoseOfItsVersion) {
  const auto convert = [](const std::string& version, const std::string& policy) {
    std::string text =
        KubeflowJob("MPIJob",
                    Replica("Launcher", "command: [mpirun, t.py]", policy) + Replica("Worker", ""),
                    "slotsPerWorker: 1");
    return ConvertText(text.replace(text.find("v2beta1"), 7, version));
  };
  for (const auto& [version, policy, restarts] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"v2beta1", "OnFailure", "6 retries of the launcher"},
           {"v1", "Never", "no limit"},
           {"v1alpha2", "OnFailure", "6 retries of the launcher"}}) {
    const Conversion conversion = convert(version, "");
    EXPECT_EQ(FirstRole(conversion)["restartPolicy"], policy) << version;
    EXPECT_EQ(
        NoteAt(conversion, "spec.runPolicy.backoffLimit"),
        "not set, which meant " + restarts + ": a TrainingJob survives 6 incidents within a day");
    const Conversion never = convert(version, "restartPolicy: Never");
    EXPECT_EQ(FirstRole(never)["restartPolicy"], policy) << version;
    const bool is_told =
        NoteAt(never, std::string(kLaunchersReplica) + "restartPolicy", "\"Never\" is converted") !=
        "";
    EXPECT_EQ(is_told, policy == "OnFailure");
  }
}

// In kinds without slots mpirun and horovodrun know of their own pod alone.
TEST(ConvertPyTorchJob, MpirunMakesAHorovodJobOfAsManyRanks) {
  const auto convert = [](const std::string& command, const std::string& role = "replicas: 2") {
    return ConvertText(
        KubeflowJob("PyTorchJob", Replica("Worker", "command: [" + command + "]", role)));
  };
  const Conversion alone =
      convert("horovodrun, -np, '4', -H, 'localhost:4', python, t.py", "replicas: 1");
  EXPECT_EQ(alone.job["spec"]["strategy"], "Horovod");
  EXPECT_EQ(FirstRole(alone)["processes"], 4);
  EXPECT_EQ(NotesOf(alone).find("asked for"), std::string::npos) << NotesOf(alone);

  const Conversion several = convert("mpirun, -np, '8', python, t.py");
  EXPECT_EQ(FirstRole(several)["processes"], 8);
  ExpectNote(several,
             "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].command: 8 ranks were "
             "requested; the job has 16, 8 in each of its pods; to change that, set the role's "
             "processes\n");
  EXPECT_EQ(FirstRole(convert("mpirun, -np, '8', -npernode, '4', python, t.py"))["processes"], 4);
  ExpectNote(convert("mpirun, python, t.py"),
             "without a number, mpirun starts one rank for each core of the pod; the job has 2, 1 "
             "in each of its pods");
}

TEST(ConvertTfJob, HorovodHasNoParameterServers) {
  const std::string worker = Replica("Worker", "command: [horovodrun, -np, '4', python, t.py]");
  const Conversion conversion = ConvertText(KubeflowJob("TFJob", worker));
  EXPECT_EQ(conversion.job["spec"]["strategy"], "Horovod");
  EXPECT_EQ(FirstRole(conversion)["processes"], 4);
  EXPECT_EQ(ErrorsOf(ConvertText(KubeflowJob("TFJob", worker + Replica("PS", "command: [a]")))),
            "spec.tfReplicaSpecs.PS: cannot be used with mpirun or horovodrun: Horovod has no "
            "parameter servers\n");
}

}  // namespace
}  // namespace lockstep::control
