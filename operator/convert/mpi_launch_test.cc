#include "operator/convert/mpi_launch.h"

#include <gtest/gtest.h>

#include "operator/convert/conversion.h"
#include "operator/convert/testing/converted.h"
#include "operator/yaml/yaml.h"

namespace lockstep::control {
namespace {

constexpr const char* kMpirunCommand =
    "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command";

// The note at `field` that has `words` in it; empty: there is none.
std::string NoteAt(const Conversion& conversion,
                   const std::string& field,
                   const std::string& words) {
  for (const ConversionNote& note : conversion.notes) {
    if (note.field == field && note.text.find(words) != std::string::npos) {
      return note.text;
    }
  }
  return "";
}

// An MPIJob of two workers whose launcher runs mpirun with `options`.
std::string MpirunJob(const std::string& options,
                      const std::string& launcher_env,
                      const std::string& worker_env,
                      const std::string& more = "") {
  return "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: h}\nspec:\n" + more +
         "  mpiReplicaSpecs:\n"
         "    Launcher: {template: {spec: {containers: [{name: l, image: a, env: [" +
         launcher_env + "], command: [mpirun, " + options +
         ", python, t.py]}]}}}\n"
         "    Worker: {replicas: 2, template: {spec: {containers: [{name: w, image: b, env: [" +
         worker_env + "]}]}}}\n";
}

TEST(ConvertMpiJob, VariablesHandedOnGoToTheWorkers) {
  const Conversion conversion = ConvertText(MpirunJob(
      "-x, OMP_NUM_THREADS, -x, KEY, -x, PATH, -x, LD_LIBRARY_PATH",
      "{name: OMP_NUM_THREADS, value: '2'}, {name: MINE, value: m}, {name: KEY, valueFrom: "
      "{secretKeyRef: {name: s, key: k}}}",
      ""));

  const Json env = FirstEnv(conversion);
  ASSERT_EQ(env.size(), 2U) << env;
  EXPECT_EQ(env[0], Json({{"name", "OMP_NUM_THREADS"}, {"value", "2"}}));
  EXPECT_EQ(env[1]["valueFrom"]["secretKeyRef"]["key"], "k");
  EXPECT_EQ(NoteAt(conversion, kMpirunCommand, "not handed on"),
            "PATH, LD_LIBRARY_PATH: not handed on, as the launcher has the value from its image or "
            "envFrom; a worker has what its own image, env and envFrom say");
  EXPECT_EQ(ForeignField(conversion, "spec.roles[0].template.spec.containers[0].env[1].valueFrom"),
            "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].env[2].valueFrom");
}

TEST(ConvertMpiJob, VariablesOfMpirunWinOverTheWorkers) {
  const Conversion conversion = ConvertText(
      MpirunJob("-x, FOO=bar, -x, SAME=1",
                "",
                "{name: RANK, value: '1'}, {name: FOO, value: other}, {name: SAME, value: '1'}"));

  EXPECT_EQ(FirstEnv(conversion),
            Json::array({{{"name", "FOO"}, {"value", "bar"}}, {{"name", "SAME"}, {"value", "1"}}}));
  const std::string worker = "spec.mpiReplicaSpecs.Worker.template.spec.containers[0].env";
  EXPECT_EQ(NoteAt(conversion, worker + "[1]", "FOO"),
            "not kept: mpirun gave every rank its own FOO, and so does the job");
  EXPECT_EQ(NoteAt(conversion, worker + "[2]", ""), "");
}

Json Variable(const std::string& name, const std::string& value) {
  return {{"name", name}, {"value", value}};
}

// A worker has not what the launcher's value refers to, or has it only later.
TEST(ConvertMpiJob, ReferencesToWhatTheLauncherHasAreReplaced) {
  const std::string launcher =
      "{name: BASE, value: /old}, {name: BASE, value: '/data$$'}, {name: DIR, value: $(BASE)/x}, "
      "{name: NONE}, {name: DEEP, value: $(DIR)$(NONE)/y}, {name: PLAIN, value: '$HOME $$(BASE)'}";
  const Conversion conversion =
      ConvertText(MpirunJob("-x, DEEP, -x, DIR, -x, PLAIN, -x, 'OUT=$(BASE)/out'", launcher, ""));

  EXPECT_EQ(FirstEnv(conversion),
            Json::array({Variable("OUT", "/data$$/out"),
                         Variable("DEEP", "/data$$/x/y"),
                         Variable("DIR", "/data$$/x"),
                         Variable("PLAIN", "$HOME $$(BASE)")}));
}

TEST(ConvertMpiJob, ReferencesToWhatNoFileSaysStayAndAreNoted) {
  const Conversion conversion = ConvertText(
      MpirunJob("-x, URL, -x, EARLY, -x, 'OUT=$(TOKEN)/out'",
                "{name: EARLY, value: $(LATE)}, {name: LATE, value: l}, {name: TOKEN, valueFrom: "
                "{secretKeyRef: {name: s, key: k}}}, {name: URL, value: 'u:$(TOKEN)@$(LATE)'}",
                ""));

  EXPECT_EQ(FirstEnv(conversion),
            Json::array({Variable("OUT", "$(TOKEN)/out"),
                         Variable("URL", "u:$(TOKEN)@l"),
                         Variable("EARLY", "$(LATE)")}));
  const std::string env = "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].env";
  const std::string rest = " is not set in the workers and stays as text";
  EXPECT_EQ(NoteAt(conversion, env + "[3]", ""), "$(TOKEN) in the value of URL" + rest);
  EXPECT_EQ(NoteAt(conversion, env + "[0]", ""), "$(LATE) in the value of EARLY" + rest);
  EXPECT_EQ(NoteAt(conversion, kMpirunCommand, "OUT"), "$(TOKEN) in the value of OUT" + rest);
}

// What is in a manifest is of no type before somebody has looked.
TEST(ConvertMpiJob, ValuesOfAnotherTypeAreErrorsAtTheirFields) {
  const auto errors_of = [](const std::string& launcher, const std::string& worker) {
    const std::string job =
        "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: h}\nspec:\n"
        "  mpiReplicaSpecs:\n"
        "    Launcher: {template: {spec: {containers: [{name: l, command: [mpirun, t.py], " +
        launcher + "}]}}}\n    Worker: {template: {spec: {" + worker + "}}}\n";
    std::string errors;
    for (const Error& error : ConvertForeignJob(ReadYaml(job).documents.at(0).value, {}).errors) {
      errors += error.field() + ": " + error.message() + "\n";
    }
    return errors;
  };
  const std::string replicas = "spec.mpiReplicaSpecs.";
  EXPECT_EQ(errors_of("image: 5", "containers: [{name: w}]"),
            replicas +
                "Launcher.template.spec.containers[0].image: 5 found, expected a "
                "text\n");
  EXPECT_EQ(errors_of("image: a",
                      "initContainers: 5, containers: [{name: w, image: b}, {name: v, image: b}]"),
            replicas +
                "Worker.template.spec.initContainers: 5 found, expected a list "
                "of containers\n");
  EXPECT_EQ(errors_of("image: a", "containers: [{name: w, image: null}]"), "");
}

// Its GPUs are counted before the decoder has seen it.
TEST(ConvertPyTorchJob, ResourcesOfAnotherTypeAreLeftToTheDecoder) {
  for (const char* const resources : {"5", "null", "{limits: 5}", "{limits: null}"}) {
    const std::string job =
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: h}\nspec:\n"
        "  pytorchReplicaSpecs: {Worker: {template: {spec: {containers: [{name: pytorch, image: a, "
        "command: [a], resources: " +
        std::string(resources) + "}]}}}}\n";
    const Conversion conversion = ConvertForeignJob(ReadYaml(job).documents.at(0).value, {});
    EXPECT_TRUE(conversion.errors.empty()) << resources;
  }
}

TEST(ConvertMpiJob, VariablesThatLockstepSetsAreNotHandedOn) {
  const Conversion conversion = ConvertText(MpirunJob("-x, RANK=3", "", ""));
  EXPECT_EQ(FirstEnv(conversion).size(), 0U);
  EXPECT_EQ(NoteAt(conversion, kMpirunCommand, "RANK"),
            "RANK is not kept: Lockstep sets it itself");
}

TEST(ConvertMpiJob, LauncherThatIsAWorkerIsCountedAndNoted) {
  const Conversion conversion =
      ConvertText(MpirunJob("-np, '3'", "", "", "  runLauncherAsWorker: true\n"));
  EXPECT_EQ(conversion.job["spec"]["roles"][0]["replicas"], 3);
  EXPECT_EQ(NoteAt(conversion, "spec.runLauncherAsWorker", ""),
            "kept as one more worker, which the launcher was: the job has 3");
}

// mpi-operator hands the field on to a Job of batch/v1, whose default is 6.
TEST(ConvertMpiJob, BackoffLimitUnsaidIsThatOfItsOperator) {
  const std::string job = MpirunJob("-np, '2'", "", "");
  EXPECT_EQ(NoteAt(ConvertText(job), "spec.runPolicy.backoffLimit", ""),
            "not there, which meant 6 retries of the launcher: a TrainingJob gives up after 6 "
            "incidents within a day");
  std::string older = job;
  older.replace(older.find("v2beta1"), 7, "v1");
  EXPECT_EQ(NoteAt(ConvertText(older), "spec.runPolicy.backoffLimit", ""),
            "not there, which meant no limit: a TrainingJob gives up after 6 incidents within a "
            "day");
}

std::string TrainJob(const std::string& command, const std::string& more = "") {
  return "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: t}\nspec:\n"
         "  runtimeRef: {name: mpi-distributed}\n"
         "  trainer: {image: i, numNodes: 2, " +
         more + "command: " + command + "}\n";
}

TEST(ConvertTrainJob, ProgramOfMpirunIsOneOfHorovod) {
  const Conversion conversion =
      ConvertText(TrainJob("[mpirun, -np, '2', python, a.py]", "numProcPerNode: 2, "));
  EXPECT_EQ(conversion.job["spec"]["strategy"], "Horovod");
  EXPECT_EQ(conversion.job["spec"]["roles"][0]["processes"], 2);
  EXPECT_NE(NoteAt(conversion, "spec.trainer.command", "MPI programs (nccl-tests"), "");
  EXPECT_NE(NoteAt(conversion, "spec.trainer.command", "2 ranks were asked for; the job has 4"),
            "");
  EXPECT_EQ(NoteAt(conversion, "spec.trainer.numProcPerNode", ""), "");
}

}  // namespace
}  // namespace lockstep::control
