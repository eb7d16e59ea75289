// Decodes many documents for manifests_test.py, which asks a real API server about the same ones.
//
// Reads one JSON object a line from standard input: {"text": DOCUMENT, "stored": BOOLEAN}. A stored
// document is one that an API server answered with, and is read as the operator reads it; any other
// as `lockstep validate` does. Answers each with a line: {"problems": [TEXT...], "micros": NUMBER},
// the time of the thread that the decoding of a stored document took.

#include <ctime>
#include <iostream>
#include <string>

#include "common/json/json.h"
#include "operator/api/decode_job.h"
#include "operator/api/job_manifest.h"
#include "operator/view/stored/stored_job.h"
#include "operator/view/stored/stored_queue.h"

namespace lockstep::control {
namespace {

double ThreadMicros() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// Every problem of the job; the operator's own words name only the first ones.
Json ProblemsOfJob(const std::string& text, const std::string& problem) {
  Json problems = Json::array();
  const Result<Json> document = ParseJson(text);
  const DecodedJob decoded = document.ok() ? DecodeTrainingJob(*document) : DecodedJob();
  for (const Error& error : decoded.errors) {
    problems.push_back(error.ToString());
  }
  if (problems.empty() && !problem.empty()) {
    problems.push_back(problem);
  }
  return problems;
}

Json AnswerToStored(const std::string& text) {
  const Result<Json> document = ParseJson(text);
  const bool is_queue = document.ok() && document->value("kind", "") == kTrainingQueueKind;
  const double start = ThreadMicros();
  if (is_queue) {
    const Result<kube::Item<StoredQueue>> read = DecodeStoredQueue(text);
    const double micros = ThreadMicros() - start;
    const std::string problem =
        read.ok() && read->object != nullptr ? read->object->problem : "not an object";
    return {{"problems", problem.empty() ? Json::array() : Json::array({problem})},
            {"micros", micros}};
  }
  const Result<kube::Item<StoredJob>> read = DecodeStoredJob(text);
  const double micros = ThreadMicros() - start;
  const std::string problem = read.ok() ? read->object->problem : read.error().ToString();
  return {{"problems", problem.empty() ? Json::array() : ProblemsOfJob(text, problem)},
          {"micros", micros}};
}

Json AnswerToSent(const std::string& text) {
  const Manifest manifest = ReadManifest(text, "manifest.json");
  Json problems = Json::array();
  for (const ManifestProblem& problem : manifest.problems) {
    problems.push_back(problem.error.ToString());
  }
  return {{"problems", std::move(problems)}, {"micros", 0}};
}

int Run() {
  for (std::string line; std::getline(std::cin, line);) {
    const Result<Json> request = ParseJson(line);
    if (!request.ok()) {
      std::cerr << "decode_documents: " << request.error().ToString() << '\n';
      return 1;
    }
    const auto text = request->value("text", std::string());
    const bool is_stored = request->value("stored", false);
    std::cout << DumpJson(is_stored ? AnswerToStored(text) : AnswerToSent(text)) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace lockstep::control

int main() {
  return lockstep::control::Run();
}
