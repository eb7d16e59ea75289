#include "operator/api/job_manifest.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/io/file.h"
#include "common/base/testing/paths.h"
#include "operator/api/decode_job.h"
#include "operator/api/job/encode.h"

namespace lockstep::control {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kGoodManifest = R"(apiVersion: lockstep.dev/v1
kind: TrainingJob
metadata: {name: job}
spec:
  roles:
  - name: worker
    template: {spec: {containers: [{name: trainer, command: [python3, train.py]}]}}
)";

std::string ProblemsOf(const std::string& text, const std::string& file = "job.yaml") {
  return FormatProblems(ReadManifest(text, file));
}

// The manifests of a folder, by name.
std::vector<std::filesystem::path> ManifestsIn(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string TextOf(const std::filesystem::path& path) {
  const Result<std::string> text = ReadFile(path.string(), kManifestBytesMax);
  EXPECT_TRUE(text.ok()) << text.error().ToString();
  return text.ok() ? *text : "";
}

// What a file of testdata/bad expects: its lines "# expect: LINE: FIELD: MESSAGE", as ReadManifest
// should have them said.
std::string ExpectedProblems(const std::string& text, const std::string& file) {
  constexpr std::string_view kMarker = "# expect: ";
  std::string expected;
  for (std::size_t at = text.find(kMarker); at != text.npos; at = text.find(kMarker, at)) {
    at += kMarker.size();
    const std::string line = text.substr(at, text.find('\n', at) - at);
    const bool has_line_number = line.front() >= '0' && line.front() <= '9';
    expected += file + (has_line_number ? ":" : ": ") + line + "\n";
  }
  return expected;
}

// Texts that are no manifests at all, and several mistakes at once.
TEST(ReadManifest, EveryBadTextIsAnsweredWordForWord) {
  const std::vector<std::filesystem::path> paths =
      ManifestsIn(RepositoryFile("operator/api/testdata/bad"));
  ASSERT_GE(paths.size(), 20U);
  for (const std::filesystem::path& path : paths) {
    const std::string text = TextOf(path);
    const std::string expected = ExpectedProblems(text, path.filename().string());
    EXPECT_NE(expected, "") << path << " expects nothing";
    EXPECT_EQ(ProblemsOf(text, path.filename().string()), expected);
  }
}

// One mistake a file, which the API server refuses too (tests/kubernetes/crd_examples_test.py).
TEST(ReadManifest, EveryMistakeInTheExamplesIsTheOnlyOneToldAndInTheseWords) {
  const std::vector<std::filesystem::path> paths =
      ManifestsIn(RepositoryFile("crds/examples/invalid"));
  ASSERT_GE(paths.size(), 200U);
  for (const std::filesystem::path& path : paths) {
    const std::string text = TextOf(path);
    constexpr std::string_view kMarker = "# expect: ";
    ASSERT_TRUE(text.starts_with(kMarker)) << path;
    const std::string expected = text.substr(kMarker.size(), text.find('\n') - kMarker.size());
    const Manifest manifest = ReadManifest(text, path.filename().string());
    ASSERT_EQ(manifest.problems.size(), 1U) << FormatProblems(manifest);
    EXPECT_THAT(FormatProblems(manifest), HasSubstr(": " + expected));
    EXPECT_GT(manifest.problems[0].line, 2) << path << " says no line";
  }
}

TEST(ReadManifest, EveryGoodExampleIsReadAndSurvivesEncoding) {
  const std::vector<std::filesystem::path> paths =
      ManifestsIn(RepositoryFile("crds/examples/valid"));
  ASSERT_GE(paths.size(), 20U);
  for (const std::filesystem::path& path : paths) {
    const Manifest manifest = ReadManifest(TextOf(path), path.filename().string());
    ASSERT_EQ(FormatProblems(manifest), "");
    ASSERT_EQ(manifest.jobs.size(), 1U);
    const DecodedJob again = DecodeTrainingJob(EncodeTrainingJob(manifest.jobs[0]));
    ASSERT_TRUE(again.ok()) << path << " " << again.errors.front().ToString();
    EXPECT_EQ(again.job, manifest.jobs[0]) << path;
  }
}

// The kernel's refusal names neither.
TEST(ReadManifest, TextThatLinuxHandsToNoProgramIsRefusedWithItsFieldAndBytes) {
  const auto job = [](std::size_t value_bytes, std::size_t word_bytes) {
    return R"(apiVersion: lockstep.dev/v1
kind: TrainingJob
metadata: {name: job}
spec:
  roles:
  - name: worker
    template: {spec: {containers: [{name: trainer, command: [sh, -c, )" +
           std::string(word_bytes, 'w') +
           "], env: [{name: LONG, value: " + std::string(value_bytes, 'v') + "}]}]}}\n";
  };
  EXPECT_EQ(ProblemsOf(job(131066, 131071)), "");
  EXPECT_THAT(ProblemsOf(job(204800, 131071)),
              AllOf(HasSubstr(".containers[0].env[0].value: 204800 bytes found, expected at most "
                              "131066 after this name: Linux cannot start a program"),
                    Not(HasSubstr("command"))));
  EXPECT_THAT(ProblemsOf(job(131066, 131072)),
              HasSubstr(".containers[0].command[2]: 131072 bytes found, expected at most 131071: "
                        "Linux cannot start a program"));
}

TEST(ReadManifest, GoodManifestHasOneJobAndNoProblem) {
  const Manifest manifest = ReadManifest(kGoodManifest, "job.yaml");
  EXPECT_TRUE(manifest.ok()) << FormatProblems(manifest);
  EXPECT_EQ(FormatProblems(manifest), "");
  ASSERT_EQ(manifest.jobs.size(), 1U);
  EXPECT_EQ(manifest.jobs[0].metadata.name, "job");
}

TEST(ReadManifest, SeveralDocumentsAreSeveralJobsAndEmptyOnesDoNotCount) {
  std::string other = kGoodManifest;
  other.replace(other.find("name: job"), 9, "name: two");
  const Manifest manifest = ReadManifest(
      "---\n---\n" + std::string(kGoodManifest) + "---\n" + other + "---\n# end\n", "f");
  EXPECT_EQ(FormatProblems(manifest), "");
  ASSERT_EQ(manifest.jobs.size(), 2U);
  EXPECT_EQ(manifest.jobs[1].metadata.name, "two");
}

TEST(ReadManifest, SameNameInAnotherNamespaceIsAnotherJob) {
  std::string other = kGoodManifest;
  other.replace(other.find("name: job"), 9, "name: job, namespace: ml");
  EXPECT_EQ(ProblemsOf(std::string(kGoodManifest) + "---\n" + other), "");
}

TEST(ReadManifest, AnchorsAndMergeKeysShareATemplate) {
  const Manifest manifest = ReadManifest(R"(apiVersion: lockstep.dev/v1
kind: TrainingJob
metadata: {name: job}
spec:
  strategy: ParameterServer
  roles:
  - &worker
    name: worker
    replicas: 2
    template: {spec: {containers: [{command: [python3, train.py]}]}}
  - <<: *worker
    name: ps
)",
                                         "job.yaml");
  EXPECT_EQ(FormatProblems(manifest), "");
  const RoleSpec* ps = manifest.jobs.at(0).FindRole(Role::kPs);
  ASSERT_NE(ps, nullptr);
  EXPECT_EQ(ps->replicas, 2);
  EXPECT_EQ(ps->pod.command, (std::vector<std::string>{"python3", "train.py"}));
}

constexpr const char* kJsonManifest = R"({
  "apiVersion": "lockstep.dev/v1",
  "kind": "TrainingJob",
  "metadata": {"name": "job"},
  "spec": {
    "roles": [{"name": "worker", "replicas": 0.5,
      "template": {"spec": {"containers": [{"command": ["\u0061"]}]}}}]
  }
})";

TEST(ReadManifest, JsonHasLinesToo) {
  EXPECT_EQ(ProblemsOf(kJsonManifest, "job.json"),
            "job.json:6: spec.roles[0].replicas: 0.5 found, expected a whole number from 0 to "
            "4096\n");
}

TEST(ReadManifest, JsonSyntaxErrorGivesLineAndColumn) {
  EXPECT_THAT(ProblemsOf("{\n  \"kind\": ,\n}", "job.json"),
              HasSubstr("job.json: not valid JSON at line 2, column"));
}

TEST(ReadManifest, FlowYamlIsNotMistakenForBrokenJson) {
  EXPECT_EQ(ProblemsOf("{apiVersion: lockstep.dev/v1, kind: TrainingJob, metadata: {name: job}, "
                       "spec: {roles: [{name: worker, template: {spec: {containers: "
                       "[{command: [a]}]}}}]}}\n"),
            "");
}

TEST(ReadManifest, TextsThatNoFileOfTestdataCanHold) {
  EXPECT_EQ(ProblemsOf(""), "job.yaml: empty, expected a TrainingJob\n");
  EXPECT_EQ(ProblemsOf(std::string("kind: a\nname: b\x04\n")),
            "job.yaml:2:8: not valid YAML: control character number 4\n");
  EXPECT_EQ(ProblemsOf("kind: caf\xE9\n"),
            "job.yaml:1:10: not valid YAML: bytes that are not UTF-8\n");
  EXPECT_EQ(ProblemsOf(std::string(kManifestBytesMax + 1, '#')),
            "job.yaml: 1048577 bytes found, expected at most 1048576\n");
}

TEST(ReadManifest, DocumentsAreCounted) {
  std::string text;
  for (int i = 0; i <= 64; ++i) {
    text += "---\nkind: a\n";
  }
  EXPECT_EQ(ProblemsOf(text), "job.yaml: 65 documents found, expected at most 64\n");
}

TEST(ReadManifest, ProblemsBeyondAScreenfulAreCounted) {
  std::string text = kGoodManifest;
  for (int i = 0; i < 150; ++i) {
    text += "  unknown" + std::to_string(i) + ": 1\n";
  }
  const Manifest manifest = ReadManifest(text, "job.yaml");
  ASSERT_EQ(manifest.problems.size(), kManifestProblemsMax + 1);
  EXPECT_EQ(manifest.problems.back().error.message(), "50 more problems are not shown");
}

constexpr const char* kConfigMap =
    "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n";

TEST(ReadManifest, OtherKindsBesideAJobAreSkippedAndNamed) {
  const Manifest manifest = ReadManifest(std::string(kGoodManifest) + kConfigMap, "job.yaml");
  ASSERT_TRUE(manifest.ok()) << FormatProblems(manifest);
  EXPECT_EQ(manifest.jobs.size(), 1U);
  ASSERT_EQ(manifest.skipped.size(), 1U);
  EXPECT_EQ(manifest.skipped[0].kind, "ConfigMap");
  EXPECT_EQ(manifest.skipped[0].name, "settings");
  EXPECT_GT(manifest.skipped[0].line, 1);
}

// As `kubectl get -o yaml` prints several objects, and -o json.
TEST(ReadManifest, ItemsOfAListAreReadOneByOneAndNamedInProblems) {
  const std::string list =
      "apiVersion: v1\nkind: List\nitems:\n"
      "- {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}\n"
      "- apiVersion: lockstep.dev/v1\n  kind: TrainingJob\n  metadata: {name: a}\n"
      "  spec:\n    training: {epochs: much}\n"
      "- {apiVersion: lockstep.dev/v1, kind: TrainingQueue, metadata: {name: team}, spec: {}}\n";
  const Manifest manifest = ReadManifest(list, "list.yaml");
  ASSERT_EQ(manifest.jobs.size(), 1U);
  EXPECT_EQ(manifest.jobs[0].metadata.name, "a");
  EXPECT_EQ(manifest.queues.at(0).name, "team");
  EXPECT_EQ(manifest.skipped.at(0).line, 4);
  EXPECT_NE(FormatProblems(manifest).find("list.yaml:9: items[1].spec.training.epochs: "),
            std::string::npos)
      << FormatProblems(manifest);
  EXPECT_EQ(FormatProblems(ReadManifest(R"({"kind": "List", "items": []})", "-")),
            "-: empty, expected a TrainingJob\n");
}

// An alias repeats all of a job, its name included.
TEST(ReadManifest, JobThatIsRepeatedByAnAliasHasItsNameTwice) {
  const std::string list =
      "apiVersion: v1\nkind: List\nitems:\n"
      "- &a {apiVersion: lockstep.dev/v1, kind: TrainingJob, metadata: {name: a}, spec: {}}\n"
      "- *a\n";
  EXPECT_THAT(FormatProblems(ReadManifest(list, "list.yaml")),
              HasSubstr("list.yaml:5: items[1].metadata.name: \"a\" found twice, first on line 4"));
}

constexpr const char* kQueue =
    "---\napiVersion: lockstep.dev/v1\nkind: TrainingQueue\nmetadata: {name: team}\nspec: {}\n";

TEST(ReadManifest, QueuesAreReadBesideJobsAndAlone) {
  for (const std::string& jobs : {std::string(kGoodManifest), std::string()}) {
    const Manifest manifest = ReadManifest(jobs + kQueue + kConfigMap, "job.yaml");
    ASSERT_TRUE(manifest.ok()) << FormatProblems(manifest);
    EXPECT_EQ(manifest.jobs.size(), jobs.empty() ? 0U : 1U);
    ASSERT_EQ(manifest.queues.size(), 1U);
    EXPECT_EQ(manifest.queues[0].name, "team");
    EXPECT_EQ(manifest.skipped.size(), 1U);
  }
}

TEST(ReadManifest, WhatIsWrongWithAQueueIsToldWithItsLine) {
  EXPECT_EQ(
      ProblemsOf("apiVersion: lockstep.dev/v1beta1\nkind: TrainingQueue\nspec:\n  wieght: 2\n"),
      "job.yaml:1: apiVersion: \"lockstep.dev/v1beta1\" found, expected lockstep.dev/v1\n"
      "job.yaml:1: metadata: missing, expected an object with a name\n"
      "job.yaml:4: spec.wieght: unknown field; did you mean \"weight\"?\n");
}

TEST(ReadManifest, QueueIsHeldToWhatTheServerAsksOfItsNameAndParent) {
  const std::string head = "apiVersion: lockstep.dev/v1\nkind: TrainingQueue\n";
  EXPECT_THAT(ProblemsOf(head + "metadata: {name: 9Team}\nspec: {}\n"),
              HasSubstr("metadata.name: \"9Team\" found, expected a DNS label"));
  EXPECT_THAT(ProblemsOf(head + "metadata: {name: team}\n"), HasSubstr("spec: missing"));
  EXPECT_THAT(ProblemsOf(head + "metadata: {name: team}\nspec: {parent: team}\n"),
              HasSubstr("spec.parent: \"team\" found, expected a different queue: a queue cannot "
                        "be its own parent"));
  EXPECT_THAT(ProblemsOf(std::string(kQueue) + kQueue),
              HasSubstr("metadata.name: \"team\" found twice, first on line 4"));
}

constexpr const char* kRing =
    "---\napiVersion: lockstep.dev/v1\nkind: TrainingQueue\nmetadata: {name: a}\n"
    "spec: {parent: b}\n"
    "---\napiVersion: lockstep.dev/v1\nkind: TrainingQueue\nmetadata: {name: b}\n"
    "spec: {parent: a, nominal: {cpu: 1}, lendingLimit: {cpu: 2}}\n";

TEST(ReadManifest, QueuesOfAFileAreHeldAgainstEachOther) {
  const Manifest manifest = ReadManifest(kRing, "q.yaml");
  EXPECT_EQ(FormatProblems(manifest),
            "q.yaml:5: spec.parent: \"b\" found, but then the parents form a loop (a, b, a): the "
            "operator serves none of these queues; change one of the parents\nq.yaml:10: "
            "spec.parent: \"a\" found, but then the parents form a loop (b, a, b): the operator "
            "serves none of these queues; change one of the parents\n");
  EXPECT_EQ(
      FormatWarnings(manifest),
      "q.yaml:10: warning: spec.lendingLimit.cpu: 2 of cpu found, which is more than the "
      "nominal 1, so the limit has no effect: other queues may use the whole nominal amount\n");
}

TEST(ReadManifest, TorchrunThatStaysInItsPodIsWarnedOf) {
  const Manifest manifest = ReadManifest(
      "apiVersion: lockstep.dev/v1\nkind: TrainingJob\nmetadata: {name: a}\nspec:\n  roles:\n"
      "  - name: worker\n    replicas: 2\n    template:\n      spec:\n        containers:\n"
      "        - command: [torchrun, --standalone, train.py]\n",
      "j.yaml");
  EXPECT_EQ(FormatProblems(manifest), "");
  EXPECT_EQ(FormatWarnings(manifest),
            "j.yaml:11: warning: spec.roles[0].template.spec.containers[0].command: torchrun with "
            "--standalone does not join the 2 pods of the job; remove this option, so that "
            "Lockstep tells torchrun about the pods\n");
}

TEST(ReadManifest, TorchrunThatMeetsByPodsAndMayHaveFewerIsRefused) {
  const auto told_of = [](const std::string& command, const std::string& variables) {
    return FormatProblems(ReadManifest(
        "apiVersion: lockstep.dev/v1\nkind: TrainingJob\nmetadata: {name: a}\nspec:\n  roles:\n"
        "  - name: worker\n    replicas: 4\n    template:\n      spec:\n        containers:\n"
        "        - command: [torchrun, " +
            command + ", train.py]\n          env: [" + variables + "]\n",
        "j.yaml"));
  };
  const std::string lockstep = "{name: PET_RDZV_BACKEND, value: lockstep}";
  EXPECT_EQ(told_of("--rdzv-backend=lockstep, --nnodes=2:4", ""),
            "j.yaml:11: spec.roles[0].template.spec.containers[0].command: torchrun with "
            "--rdzv-backend=lockstep and --nnodes=2:4 found, expected no --nnodes: with this "
            "rendezvous a job always trains with all its pods\n");
  EXPECT_NE(told_of("--nnodes=2:4", lockstep), "");
  EXPECT_NE(told_of("--tee=3", lockstep + ", {name: PET_NNODES, value: '2:4'}"), "");
  EXPECT_EQ(told_of("--nnodes=4", lockstep), "");
  EXPECT_EQ(told_of("--nnodes=4:4", lockstep), "");
  EXPECT_EQ(told_of("--tee=3", lockstep), "");
  EXPECT_EQ(told_of("--nnodes=2:4, --rdzv-backend=c10d", lockstep), "");
}

TEST(ReadManifest, JobOfAQueueWithOthersBelowItIsRefused) {
  const std::string below =
      std::string(kQueue) +
      "---\napiVersion: lockstep.dev/v1\nkind: TrainingQueue\nmetadata: {name: below}\n"
      "spec: {parent: team}\n";
  const ManifestEdit queue{"--set", [](Json* document) -> Result<std::string> {
                             (*document)["spec"]["scheduling"] = {{"queue", "team"}};
                             return std::string("spec.scheduling");
                           }};
  EXPECT_TRUE(ReadManifest(std::string(kGoodManifest) + kQueue, "job.yaml", {queue}).ok());
  EXPECT_THAT(FormatProblems(ReadManifest(std::string(kGoodManifest) + below, "job.yaml", {queue})),
              HasSubstr("spec.scheduling.queue: \"team\" found, but this queue has queues below "
                        "it; name one of them: below\n"));
}

TEST(ReadManifest, OtherKindsAloneAreNoJob) {
  EXPECT_THAT(ProblemsOf(kConfigMap), HasSubstr("\"ConfigMap\" found, expected TrainingJob"));
}

TEST(ReadManifest, MisspelledKindBesideAJobIsNoOtherKind) {
  EXPECT_THAT(ProblemsOf(std::string(kGoodManifest) +
                         "---\napiVersion: lockstep.dev/v1\nkind: TrainingJbo\n"),
              HasSubstr("\"TrainingJbo\" found"));
  EXPECT_EQ(ProblemsOf("apiVersion: lockstep.dev/v1\nkind: TrainingQueu\nspec: {weight: 2}\n"),
            "job.yaml:2: kind: \"TrainingQueu\" found, expected TrainingJob or TrainingQueue; did "
            "you mean \"TrainingQueue\"?\n");
}

TEST(ReadManifest, EditsComeBeforeDecodingAndTheirMistakesNameTheirOrigin) {
  const auto set = [](const Json& value) {
    return ManifestEdit{"--set", [value](Json* document) -> Result<std::string> {
                          (*document)["spec"]["strategy"] = value;
                          return std::string("spec.strategy");
                        }};
  };
  const Manifest good = ReadManifest(kGoodManifest, "job.yaml", {set("None")});
  ASSERT_TRUE(good.ok()) << FormatProblems(good);
  EXPECT_EQ(good.jobs[0].spec.strategy, Strategy::kNone);
  const Manifest bad = ReadManifest(kGoodManifest, "job.yaml", {set("Nonsense")});
  EXPECT_THAT(FormatProblems(bad), StartsWith("--set: spec.strategy: \"Nonsense\" found"));
}

// An edit may make another field wrong than its own: the file is not to blame for that.
TEST(ReadManifest, MistakeThatOnlyTheEditMakesNamesItsOrigin) {
  const ManifestEdit edit{"--set", [](Json* document) -> Result<std::string> {
                            (*document)["spec"]["strategy"] = "Mirrored";  // which takes one worker
                            return std::string("spec.strategy");
                          }};
  const std::string good = std::string(kGoodManifest) + "    replicas: 2\n";
  EXPECT_EQ(ProblemsOf(good), "");
  EXPECT_THAT(FormatProblems(ReadManifest(good, "job.yaml", {edit})),
              AllOf(StartsWith("--set: spec.roles[0].replicas: "), Not(HasSubstr("job.yaml"))));
  const std::string bad = good + "  unknown: 1\n";
  EXPECT_THAT(FormatProblems(ReadManifest(bad, "job.yaml", {edit})),
              AllOf(HasSubstr("--set: "), HasSubstr("job.yaml:"), HasSubstr("spec.unknown")));
}

TEST(ReadManifest, EditThatFailsIsAProblem) {
  const ManifestEdit edit{"--workers", [](Json*) -> Result<std::string> {
                            return Error(ErrorCode::kNotFound, "no role").WithField("spec.roles");
                          }};
  EXPECT_EQ(FormatProblems(ReadManifest(kGoodManifest, "job.yaml", {edit})),
            "--workers: spec.roles: no role\n");
}

// Every cut and every flipped byte of a good manifest is answered, never thrown at the caller.
TEST(ReadManifest, DamagedTextNeverThrows) {
  const std::string good = kGoodManifest;
  for (std::size_t i = 0; i < good.size(); ++i) {
    EXPECT_NO_THROW(ReadManifest(good.substr(0, i), "cut")) << i;
    for (const char c : {'\0', '{', '*', '&', '!', '"', '\t', ':', '-', '\xFF'}) {
      std::string text = good;
      text[i] = c;
      EXPECT_NO_THROW(ReadManifest(text, "flipped")) << i << " " << int{c};
    }
  }
}

TEST(FormatProblems, NamesInTheFileCannotSteerTheTerminal) {
  EXPECT_THAT(ProblemsOf("apiVersion: lockstep.dev/v1\nkind: TrainingJob\n"
                         "\"we\\nird\\e[31m\": 1\n"),
              HasSubstr("we\\x0aird\\x1b[31m: unknown field"));
}

TEST(FormatProblems, ProblemsAreOrderedByLine) {
  const Manifest manifest = ReadManifest(
      "spec:\n  roles: 3\nmetadata: {name: X}\nkind: TrainingJob\napiVersion: v\n", "f");
  std::vector<int> lines;
  for (const ManifestProblem& problem : manifest.problems) {
    lines.push_back(problem.line);
  }
  EXPECT_EQ(lines, (std::vector<int>{2, 3, 5}));
}

}  // namespace
}  // namespace lockstep::control
