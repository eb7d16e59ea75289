#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/io/unique_fd.h"
#include "common/base/result.h"
#include "common/contract/environment/environment.h"
#include "common/contract/status/status_document.h"
#include "common/http/http_server.h"

namespace lockstep::runtime {

// What a program tells of itself in the request that Kubeflow's trainer takes for the status of a
// TrainJob: Hugging Face's Trainer sends it by itself, and so does update_trainjob_status() of
// Kubeflow's SDK. Source: transformers 5.24, kubeflow 0.5.
struct TrainerStatus {
  std::optional<int64_t> percentage;
  std::map<std::string, double> metrics;  // by their name; at most kTrainerMetricsMax
};

inline constexpr std::size_t kTrainerMetricsMax = 256;  // of one request, as with Kubeflow

// Reads the body of a request. Metrics that are no numbers, or whose names are longer than 64
// characters, are left out. Errors: kInvalidArgument, with the path of the field. Pure.
Result<TrainerStatus> ParseTrainerStatus(std::string_view body);

// How far a program is by all that it has told so far. Pure.
class TrainerProgress {
 public:
  // What the program says nothing of stays as it was. One that counts no steps is at as many of 100
  // as it has percent. At its end a trainer tells no step: it is at the last one where its epoch
  // says so, and not where it has stopped early.
  void Take(const TrainerStatus& status);

  void ShowIn(StatusDocument* document) const;

 private:
  Step step_;
  std::optional<int64_t> steps_total_;
  int64_t data_epoch_ = 0;
  std::optional<double> loss_;
  bool counts_steps_ = false;
  double steps_per_epoch_ = 0;  // 0: not known
};

// The word that the pod's programs show with each request, in a file of this process's memory:
// nothing of it is on a disk, or stays when this process is killed.
class TrainerToken {
 public:
  // Errors: as memfd_create(2).
  static Result<TrainerToken> Make();

  const std::string& word() const { return word_; }

  // Where a program of the same user reads it while this object lives.
  std::string path() const;

 private:
  TrainerToken(std::string word, UniqueFd file) : word_(std::move(word)), file_(std::move(file)) {}

  std::string word_;
  UniqueFd file_;
};

// POST to TrainerStatusPath: 200 with the body, at once, as the program's training waits for it;
// 403 without `word`, 422 where the body is no status. `on_status` is called on the server's thread
// and must return at once.
HttpRoutes MakeTrainerStatusRoutes(const WorkerEnvironment& environment,
                                   std::string word,
                                   std::function<void(const TrainerStatus&)> on_status);

// Tells a program to send its status to `port` of LoopbackAddress(environment), unless it was told
// another place, and to ask no proxy for that. Pure.
void OfferTrainerStatus(const WorkerEnvironment& environment,
                        int port,
                        const std::string& token_path,
                        EnvironmentMap* variables);

}  // namespace lockstep::runtime
