#include "common/contract/status/termination_message.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "common/contract/environment/topology.h"
#include "common/contract/text/problems.h"
#include "common/contract/text/text.h"
#include "common/json/json.h"

namespace lockstep {
namespace {

// Of a checkpoint's error: the reason, which says more, must have room beside it. Choice.
constexpr std::size_t kErrorBytesMax = 256;

std::string Encode(const TerminationMessage& message, const std::string& reason) {
  Json json = Json::object();
  json["outcome"] = std::string(OutcomeName(message.outcome));
  json["reason"] = reason;
  if (message.last_step.has_value()) {
    json["lastStep"] = message.last_step->value();
  }
  if (message.steps_total.has_value()) {
    json["stepsTotal"] = *message.steps_total;
  }
  if (message.steps_skipped.has_value()) {
    json["stepsSkipped"] = *message.steps_skipped;
  }
  if (message.data_epoch.has_value()) {
    json["dataEpoch"] = *message.data_epoch;
  }
  if (message.last_checkpoint_step.has_value()) {
    json["lastCheckpointStep"] = message.last_checkpoint_step->value();
  }
  if (message.culprit_rank.has_value()) {
    json["culpritRank"] = *message.culprit_rank;
  }
  if (!message.left_ranks.empty()) {
    json["leftRanks"] = message.left_ranks;
  }
  if (message.relaunches.has_value()) {
    json["relaunches"] = *message.relaunches;
  }
  if (message.tail.has_value()) {
    json["tail"] = *message.tail;
  }
  if (message.samples.has_value()) {
    json["samples"] = EncodeSampleCounts(*message.samples);
  }
  if (message.training_loss.has_value() && std::isfinite(*message.training_loss)) {
    json["trainingLoss"] = *message.training_loss;
  }
  if (message.result.has_value()) {
    json["result"] = EncodeTestResult(*message.result);
  }
  if (message.checkpoints.has_value()) {
    json["checkpoints"] = EncodeCheckpointStatus(*message.checkpoints, kErrorBytesMax);
  }
  const std::size_t count = message.history.size();
  for (std::size_t i = count - std::min(count, kTerminationHistoryMax); i < count; ++i) {
    json["history"].push_back(EncodeDataEpochResult(message.history[i]));
  }
  return DumpJson(json);
}

// Nothing of one line, whole lines of several.
std::optional<std::string> WithoutFirstHalf(const std::string& text) {
  const std::size_t newline = text.find('\n', text.size() / 2);
  const bool is_last = newline == std::string::npos || newline + 1 >= text.size();
  return is_last ? std::nullopt : std::optional(text.substr(newline + 1));
}

std::optional<Step> ReadStep(ObjectReader* reader, std::string_view key) {
  const std::optional<int64_t> step = reader->Int(key, 0);
  return step.has_value() ? std::optional(Step(*step)) : std::nullopt;
}

std::vector<int> ReadLeftRanks(ObjectReader* reader) {
  const std::vector<const Json*> items = reader->List("leftRanks");
  std::vector<int> ranks;
  for (const Json* const item : items) {
    if (item->is_number_unsigned() && *item <= std::numeric_limits<int>::max() &&
        items.size() <= static_cast<std::size_t>(kProcessesMax)) {
      ranks.push_back(item->get<int>());
      continue;
    }
    reader->Fail("leftRanks",
                 DescribeJson(*item) + " found in a list of " + std::to_string(items.size()) +
                     " elements, expected a list of at most " + std::to_string(kProcessesMax) +
                     " ranks");
    break;
  }
  return ranks;
}

}  // namespace

std::string EncodeTerminationMessage(const TerminationMessage& given) {
  TerminationMessage message = given;
  while (message.tail.has_value() &&
         Encode(message, message.reason).size() > kTerminationMessageBytesMax) {
    message.tail = WithoutFirstHalf(*message.tail);
  }
  std::size_t reason_bytes = kTerminationMessageBytesMax;
  std::string text = Encode(message, CutText(message.reason, reason_bytes));
  // JSON may write a byte as up to six ("\u0001"), so the size is known only after encoding. Each
  // round gives up a sixth of the excess, which never takes more than needed but for one byte.
  while (text.size() > kTerminationMessageBytesMax && reason_bytes > 0) {
    const std::size_t excess = text.size() - kTerminationMessageBytesMax;
    reason_bytes -= std::min(reason_bytes, excess / 6 + 1);
    text = Encode(message, CutText(message.reason, reason_bytes));
  }
  return text;
}

Result<TerminationMessage> DecodeTerminationMessage(std::string_view text) {
  if (text.size() > kTerminationMessageBytesMax) {
    return Problem("terminationMessage",
                   std::to_string(text.size()) + " bytes",
                   "at most " + std::to_string(kTerminationMessageBytesMax));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  std::vector<std::string_view> outcomes;
  for (const Outcome outcome : kOutcomes) {
    outcomes.push_back(OutcomeName(outcome));
  }
  TerminationMessage message;
  std::vector<Error> errors;
  ObjectReader reader(json, "", &errors);
  reader.Require("outcome", "how the process ended");
  if (const std::optional<std::string> outcome = reader.Choice("outcome", outcomes)) {
    message.outcome = ParseOutcome(*outcome).value();
  }
  reader.Require("reason", "a sentence");
  message.reason = reader.String("reason").value_or("");
  message.last_step = ReadStep(&reader, "lastStep");
  message.steps_total = reader.Int("stepsTotal", 0);
  message.steps_skipped = reader.Int("stepsSkipped", 0);
  message.data_epoch = reader.Int("dataEpoch", 0);
  message.last_checkpoint_step = ReadStep(&reader, "lastCheckpointStep");
  if (const auto rank = reader.Int("culpritRank", 0, std::numeric_limits<int>::max())) {
    message.culprit_rank = static_cast<int>(*rank);
  }
  message.left_ranks = ReadLeftRanks(&reader);
  message.relaunches = reader.Int("relaunches", 0);
  message.tail = reader.String("tail");
  if (const Json* samples = reader.Find("samples")) {
    message.samples = DecodeSampleCounts(*samples, "samples", &errors);
  }
  message.training_loss = reader.Number("trainingLoss");
  if (const Json* result = reader.Find("result")) {
    message.result = DecodeTestResult(*result, "result", &errors);
  }
  if (const Json* checkpoints = reader.Find("checkpoints")) {
    message.checkpoints = DecodeCheckpointStatus(*checkpoints, "checkpoints", &errors);
  }
  const std::vector<const Json*> history = reader.List("history");
  for (std::size_t i = 0; i < history.size() && i < kTerminationHistoryMax; ++i) {
    message.history.push_back(
        DecodeDataEpochResult(*history[i], reader.PathOf("history", i), &errors));
  }
  if (history.size() > kTerminationHistoryMax) {
    reader.Fail("history",
                std::to_string(history.size()) + " elements found, expected at most " +
                    std::to_string(kTerminationHistoryMax));
  }
  if (!errors.empty()) {
    return CombineProblems(errors);
  }
  return message;
}

ExitVerdict VerdictUnasked(ExitVerdict verdict, std::string_view last_words) {
  if (verdict.outcome != Outcome::kPreempted) {
    return verdict;
  }
  const auto words = DecodeTerminationMessage(last_words);
  return words.ok() && words->outcome == Outcome::kPreempted
             ? verdict
             : ExitVerdict{Outcome::kRetryable, ExitCause::kProgramExit};
}

}  // namespace lockstep
