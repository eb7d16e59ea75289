#include "common/contract/status/status_document.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/contract/status/termination_message.h"
#include "common/contract/text/problems.h"
#include "common/contract/text/text.h"
#include "common/json/json.h"

namespace lockstep {
namespace {

constexpr int64_t kIntMax = std::numeric_limits<int>::max();
constexpr std::size_t kPeerReasonBytesMax = 128;  // choice: one line; there may be many peers
constexpr double kSecondsAgoMax = 1e6;            // choice: pods are held for a minute
constexpr double kNumberMax = std::numeric_limits<double>::max();

// Durations and rates: what a clock or a division spoiled reads as nothing.
double AmountOrZero(double number) {
  return std::isfinite(number) && number > 0 ? number : 0;
}

std::string Cut(const std::string& text) {
  return CutText(text, kStatusTextBytesMax);
}

Json EncodePeers(const std::vector<PeerStatus>& peers) {
  Json list = Json::array();
  for (std::size_t i = 0; i < std::min(peers.size(), kStatusPeersMax); ++i) {
    Json peer = Json::object();
    peer["rank"] = peers[i].rank;
    peer["incarnation"] = peers[i].incarnation.value();
    peer["state"] = std::string(PeerStateName(peers[i].state));
    peer["reason"] = CutText(peers[i].reason, kPeerReasonBytesMax);
    peer["silentSeconds"] = AmountOrZero(peers[i].silent_seconds);
    list.push_back(std::move(peer));
  }
  return list;
}

Json EncodeDevices(const std::vector<DeviceStatus>& devices) {
  Json list = Json::array();
  for (std::size_t i = 0; i < std::min(devices.size(), kStatusDevicesMax); ++i) {
    Json device = Json::object();
    device["uuid"] = Cut(devices[i].uuid);
    device["busId"] = Cut(devices[i].bus_id);
    device["localRanks"] = devices[i].local_ranks;
    list.push_back(std::move(device));
  }
  return list;
}

Json EncodeTimeline(const std::vector<TimelineEvent>& timeline) {
  Json list = Json::array();
  const std::size_t first =
      timeline.size() > kStatusTimelineMax ? timeline.size() - kStatusTimelineMax : 0;
  for (std::size_t i = first; i < timeline.size(); ++i) {
    Json event = Json::object();
    event["event"] = std::string(TimelineEventName(timeline[i].event));
    event["epoch"] = timeline[i].epoch.value();
    event["step"] = timeline[i].step.value();
    event["rank"] = timeline[i].rank.has_value() ? Json(*timeline[i].rank) : Json(nullptr);
    event["monotonicNs"] = timeline[i].monotonic_ns;
    list.push_back(std::move(event));
  }
  return list;
}

Json EncodeHistory(const std::vector<DataEpochResult>& history) {
  Json list = Json::array();
  const std::size_t first =
      history.size() > kStatusHistoryMax ? history.size() - kStatusHistoryMax : 0;
  for (std::size_t i = first; i < history.size(); ++i) {
    list.push_back(EncodeDataEpochResult(history[i]));
  }
  return list;
}

Json EncodeModels(const std::vector<ModelStatus>& models) {
  Json list = Json::array();
  for (std::size_t i = 0; i < std::min(models.size(), kStatusModelsMax); ++i) {
    list.push_back(EncodeModelStatus(models[i]));
  }
  return list;
}

Json EncodeHangEvidence(const std::vector<RankEvidence>& ranks) {
  Json list = Json::array();
  for (std::size_t i = 0; i < std::min(ranks.size(), kEvidenceRanksMax); ++i) {
    list.push_back(EncodeRankEvidence(ranks[i]));
  }
  return list;
}

void EncodeIdentity(const StatusDocument& document, Json* json) {
  (*json)["schemaVersion"] = kStatusSchemaVersion;
  (*json)["job"] = Cut(document.job);
  (*json)["jobUid"] = Cut(document.job_uid);
  (*json)["pod"] = Cut(document.pod);
  (*json)["role"] = std::string(RoleName(document.task.role));
  (*json)["index"] = document.task.index;
  (*json)["rank"] = document.rank.has_value() ? Json(*document.rank) : Json(nullptr);
  (*json)["worldSize"] = document.world_size;
  (*json)["incarnation"] = document.incarnation.value();
  (*json)["attempt"] = document.attempt.value();
  (*json)["epoch"] = document.epoch.value();
  (*json)["pid"] = document.pid;
}

void EncodeProgress(const StatusDocument& document, Json* json) {
  (*json)["phase"] = std::string(PhaseName(document.phase));
  (*json)["step"] = document.step.value();
  (*json)["stepsTotal"] =
      document.steps_total.has_value() ? Json(*document.steps_total) : Json(nullptr);
  (*json)["stepsSkipped"] = document.steps_skipped;
  (*json)["dataEpoch"] = document.data_epoch;
  (*json)["loss"] = FiniteOrNull(document.loss);
  (*json)["accuracy"] = FiniteOrNull(document.accuracy);
  (*json)["samplesPerSecond"] = AmountOrZero(document.samples_per_second);
  if (document.eta_seconds.has_value()) {
    (*json)["etaSeconds"] = AmountOrZero(*document.eta_seconds);
  }
  (*json)["samples"] = EncodeSampleCounts(document.samples);
  (*json)["result"] =
      document.result.has_value() ? EncodeTestResult(*document.result) : Json(nullptr);
  (*json)["lastCheckpointStep"] = document.last_checkpoint_step.has_value()
                                      ? Json(document.last_checkpoint_step->value())
                                      : Json(nullptr);
  (*json)["checkpointDirectory"] = Cut(document.checkpoint_directory);
  (*json)["checkpoints"] = EncodeCheckpointStatus(document.checkpoints, kStatusTextBytesMax);
  (*json)["backend"] = Cut(document.backend);
  (*json)["backendDetail"] = Cut(document.backend_detail);
  (*json)["backendReason"] = Cut(document.backend_reason);
  (*json)["mismatch"] = Cut(document.mismatch);
  Json& seconds = (*json)["stepPhaseSeconds"];
  seconds["data"] = AmountOrZero(document.step_phase_seconds.data);
  seconds["compute"] = AmountOrZero(document.step_phase_seconds.compute);
  seconds["communicate"] = AmountOrZero(document.step_phase_seconds.communicate);
  seconds["update"] = AmountOrZero(document.step_phase_seconds.update);
}

void EncodeRelaunches(const StatusDocument& document, Json* json) {
  if (document.relaunches.has_value()) {
    (*json)["relaunches"] = *document.relaunches;
  }
  if (document.held.has_value()) {
    Json& held = (*json)["held"];
    held["exitCode"] = document.held->exit_code;
    held["signal"] = document.held->signal;
    held["secondsAgo"] = std::min(AmountOrZero(document.held->seconds_ago), kSecondsAgoMax);
    held["message"] = CutText(document.held->message, kTerminationMessageBytesMax);
    if (document.held->monotonic_ns.has_value()) {
      held["monotonicNs"] = *document.held->monotonic_ns;
    }
  }
}

double RequiredNumber(ObjectReader* reader, std::string_view key) {
  reader->Require(key, "a number of at least 0");
  return reader->Number(key, 0, kNumberMax).value_or(0);
}

std::string RequiredText(ObjectReader* reader, std::string_view key) {
  reader->Require(key, "a string");
  return reader->String(key).value_or("");
}

// The value of a closed list of words; the first one where the field is wrong, which is recorded.
template <typename Word, std::size_t kSize>
Word RequiredWord(ObjectReader* reader,
                  std::string_view key,
                  const std::array<Word, kSize>& words,
                  std::string_view (*name_of)(Word)) {
  reader->Require(key, "a word");
  std::vector<std::string_view> names;
  for (const Word word : words) {
    names.push_back(name_of(word));
  }
  const std::optional<std::string> found = reader->Choice(key, names);
  for (const Word word : words) {
    if (found.has_value() && name_of(word) == *found) {
      return word;
    }
  }
  return words.front();
}

std::optional<int> OptionalRank(ObjectReader* reader) {
  const std::optional<int64_t> rank = reader->Int("rank", 0, kIntMax);
  return rank.has_value() ? std::optional(static_cast<int>(*rank)) : std::nullopt;
}

// The elements of a list, if there are at most `max`; none, and a recorded error, otherwise.
std::vector<const Json*> BoundedList(ObjectReader* reader, std::string_view key, std::size_t max) {
  reader->Require(key, "a list");
  std::vector<const Json*> items = reader->List(key);
  if (items.size() > max) {
    reader->Fail(
        key,
        std::to_string(items.size()) + " elements found, expected at most " + std::to_string(max));
    items.clear();
  }
  return items;
}

void ReadIdentity(ObjectReader* reader, StatusDocument* document) {
  document->job = RequiredText(reader, "job");
  document->job_uid = RequiredText(reader, "jobUid");
  document->pod = RequiredText(reader, "pod");
  document->task.role = RequiredWord(reader, "role", kRoles, &RoleName);
  document->task.index = static_cast<int>(reader->RequireInt("index", 0, kIntMax));
  document->rank = OptionalRank(reader);
  document->world_size = static_cast<int>(reader->RequireInt("worldSize", 1, kIntMax));
  document->incarnation = Incarnation(reader->RequireInt("incarnation", 0));
  document->attempt = Attempt(reader->RequireInt("attempt", 0));
  document->epoch = Epoch(reader->RequireInt("epoch", 0));
  document->pid = reader->RequireInt("pid", 0);
}

void ReadPeers(ObjectReader* reader, StatusDocument* document, std::vector<Error>* errors) {
  const std::vector<const Json*> items = BoundedList(reader, "peers", kStatusPeersMax);
  for (std::size_t i = 0; i < items.size(); ++i) {
    ObjectReader peer_reader(*items[i], reader->PathOf("peers", i), errors);
    PeerStatus peer;
    peer.rank = static_cast<int>(peer_reader.RequireInt("rank", 0, kIntMax));
    peer.incarnation = Incarnation(peer_reader.RequireInt("incarnation", 0));
    peer.state = RequiredWord(&peer_reader, "state", kPeerStates, &PeerStateName);
    peer.reason = RequiredText(&peer_reader, "reason");
    peer.silent_seconds = RequiredNumber(&peer_reader, "silentSeconds");
    document->peers.push_back(std::move(peer));
  }
}

void ReadLocalRanks(ObjectReader* reader, std::vector<int>* ranks, std::vector<Error>* errors) {
  const std::vector<const Json*> items = BoundedList(reader, "localRanks", kStatusPeersMax);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i]->is_number_unsigned() && *items[i] <= kIntMax) {
      ranks->push_back(items[i]->get<int>());
      continue;
    }
    errors->push_back(Error(ErrorCode::kInvalidArgument,
                            DescribeJson(*items[i]) + " found, expected a local rank")
                          .WithField(reader->PathOf("localRanks", i)));
  }
}

void ReadDevices(ObjectReader* reader, StatusDocument* document, std::vector<Error>* errors) {
  const std::vector<const Json*> items = BoundedList(reader, "devices", kStatusDevicesMax);
  for (std::size_t i = 0; i < items.size(); ++i) {
    ObjectReader device_reader(*items[i], reader->PathOf("devices", i), errors);
    DeviceStatus device;
    device.uuid = RequiredText(&device_reader, "uuid");
    device.bus_id = RequiredText(&device_reader, "busId");
    ReadLocalRanks(&device_reader, &device.local_ranks, errors);
    document->devices.push_back(std::move(device));
  }
}

void ReadTimeline(ObjectReader* reader, StatusDocument* document, std::vector<Error>* errors) {
  const std::vector<const Json*> items = BoundedList(reader, "timeline", kStatusTimelineMax);
  for (std::size_t i = 0; i < items.size(); ++i) {
    ObjectReader event_reader(*items[i], reader->PathOf("timeline", i), errors);
    TimelineEvent event;
    event.event = RequiredWord(&event_reader, "event", kTimelineEventKinds, &TimelineEventName);
    event.epoch = Epoch(event_reader.RequireInt("epoch", 0));
    event.step = Step(event_reader.RequireInt("step", 0));
    event.rank = OptionalRank(&event_reader);
    event.monotonic_ns = event_reader.RequireInt("monotonicNs", 0);
    document->timeline.push_back(event);
  }
}

void ReadHistory(ObjectReader* reader, StatusDocument* document, std::vector<Error>* errors) {
  const std::vector<const Json*> items = BoundedList(reader, "history", kStatusHistoryMax);
  for (std::size_t i = 0; i < items.size(); ++i) {
    document->history.push_back(
        DecodeDataEpochResult(*items[i], reader->PathOf("history", i), errors));
  }
}

// Most pods have none, and those of an earlier release say nothing of theirs.
void ReadModels(ObjectReader* reader, StatusDocument* document, std::vector<Error>* errors) {
  if (reader->Find("models") == nullptr) {
    return;
  }
  const std::vector<const Json*> items = BoundedList(reader, "models", kStatusModelsMax);
  for (std::size_t i = 0; i < items.size(); ++i) {
    document->models.push_back(DecodeModelStatus(*items[i], reader->PathOf("models", i), errors));
  }
}

// As models: of most pods there is none.
void ReadHangEvidence(ObjectReader* reader, StatusDocument* document, std::vector<Error>* errors) {
  if (reader->Find("hangEvidence") == nullptr) {
    return;
  }
  const std::vector<const Json*> items = BoundedList(reader, "hangEvidence", kEvidenceRanksMax);
  for (std::size_t i = 0; i < items.size(); ++i) {
    document->hang_evidence.push_back(
        DecodeRankEvidence(*items[i], reader->PathOf("hangEvidence", i), errors));
  }
}

// Reads the object under `key` by `read`; absence is recorded.
template <typename Read>
void ReadObject(ObjectReader* reader,
                std::string_view key,
                std::vector<Error>* errors,
                const Read& read) {
  if (const Json* value = reader->Require(key, "an object")) {
    ObjectReader object_reader(*value, reader->PathOf(key), errors);
    read(&object_reader);
  }
}

void ReadProgress(ObjectReader* reader, StatusDocument* document, std::vector<Error>* errors) {
  document->phase = RequiredWord(reader, "phase", kPhases, &PhaseName);
  document->step = Step(reader->RequireInt("step", 0));
  document->steps_total = reader->Int("stepsTotal", 0);
  document->data_epoch = reader->RequireInt("dataEpoch", 0);
  document->loss = reader->Number("loss");
  document->accuracy = reader->Number("accuracy");
  document->samples_per_second = RequiredNumber(reader, "samplesPerSecond");
  if (const Json* samples = reader->Require("samples", "an object")) {
    document->samples = DecodeSampleCounts(*samples, reader->PathOf("samples"), errors);
  }
  if (const Json* result = reader->Find("result")) {
    document->result = DecodeTestResult(*result, reader->PathOf("result"), errors);
  }
  if (const std::optional<int64_t> step = reader->Int("lastCheckpointStep", 0)) {
    document->last_checkpoint_step = Step(*step);
  }
  document->checkpoint_directory = RequiredText(reader, "checkpointDirectory");
  if (const Json* checkpoints = reader->Require("checkpoints", "an object")) {
    document->checkpoints =
        DecodeCheckpointStatus(*checkpoints, reader->PathOf("checkpoints"), errors);
  }
  // Pods of an earlier release do not say these.
  document->eta_seconds = reader->Number("etaSeconds", 0, kNumberMax);
  document->steps_skipped = reader->Int("stepsSkipped", 0).value_or(0);
  document->backend = reader->String("backend").value_or("");
  document->backend_detail = reader->String("backendDetail").value_or("");
  document->backend_reason = reader->String("backendReason").value_or("");
  document->mismatch = reader->String("mismatch").value_or("");
  ReadObject(reader, "stepPhaseSeconds", errors, [document](ObjectReader* seconds) {
    document->step_phase_seconds.data = RequiredNumber(seconds, "data");
    document->step_phase_seconds.compute = RequiredNumber(seconds, "compute");
    document->step_phase_seconds.communicate = RequiredNumber(seconds, "communicate");
    document->step_phase_seconds.update = RequiredNumber(seconds, "update");
  });
}

// Pods of an earlier release, and those that end with their programs, say neither.
void ReadRelaunches(ObjectReader* reader, StatusDocument* document, std::vector<Error>* errors) {
  document->relaunches = reader->Int("relaunches", 0, kRelaunchesMax);
  if (const Json* held = reader->Find("held")) {
    ObjectReader fields(*held, reader->PathOf("held"), errors);
    document->held.emplace();
    document->held->exit_code = static_cast<int>(fields.RequireInt("exitCode", 0, kIntMax));
    document->held->signal = static_cast<int>(fields.RequireInt("signal", 0, kIntMax));
    fields.Require("secondsAgo", "a number of at least 0");
    document->held->seconds_ago = fields.Number("secondsAgo", 0, kSecondsAgoMax).value_or(0);
    document->held->message = RequiredText(&fields, "message");
    document->held->monotonic_ns = fields.Int("monotonicNs", 0);
  }
}

}  // namespace

LOCKSTEP_DEFINE_VALUE_MEMBERS(StatusDocument);

std::string_view PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kStarting:
      return "starting";
    case Phase::kRendezvous:
      return "rendezvous";
    case Phase::kRestoring:
      return "restoring";
    case Phase::kTraining:
      return "training";
    case Phase::kCheckpointing:
      return "checkpointing";
    case Phase::kEvaluating:
      return "evaluating";
    case Phase::kStopping:
      return "stopping";
    case Phase::kSucceeded:
      return "succeeded";
    case Phase::kFailed:
      return "failed";
  }
  LOCKSTEP_CHECK(false, "phase out of range");
}

std::string_view PeerStateName(PeerState state) {
  switch (state) {
    case PeerState::kConnected:
      return "connected";
    case PeerState::kMissing:
      return "missing";
    case PeerState::kLost:
      return "lost";
    case PeerState::kSilent:
      return "silent";
  }
  LOCKSTEP_CHECK(false, "peer state out of range");
}

std::string_view TimelineEventName(TimelineEventKind kind) {
  switch (kind) {
    case TimelineEventKind::kProcessStart:
      return "process_start";
    case TimelineEventKind::kEngineReady:
      return "engine_ready";
    case TimelineEventKind::kRendezvousBegin:
      return "rendezvous_begin";
    case TimelineEventKind::kRendezvousEnd:
      return "rendezvous_end";
    case TimelineEventKind::kStateReady:
      return "state_ready";
    case TimelineEventKind::kFirstStep:
      return "first_step";
    case TimelineEventKind::kPeerLost:
      return "peer_lost";
    case TimelineEventKind::kCheckpointBegin:
      return "checkpoint_begin";
    case TimelineEventKind::kCheckpointEnd:
      return "checkpoint_end";
    case TimelineEventKind::kStop:
      return "stop";
  }
  LOCKSTEP_CHECK(false, "timeline event out of range");
}

std::string EncodeStatusDocument(const StatusDocument& document) {
  Json json = Json::object();
  EncodeIdentity(document, &json);
  EncodeProgress(document, &json);
  json["peers"] = EncodePeers(document.peers);
  json["devices"] = EncodeDevices(document.devices);
  json["history"] = EncodeHistory(document.history);
  json["timeline"] = EncodeTimeline(document.timeline);
  if (!document.models.empty()) {
    json["models"] = EncodeModels(document.models);
  }
  if (!document.hang_evidence.empty()) {
    json["hangEvidence"] = EncodeHangEvidence(document.hang_evidence);
  }
  EncodeRelaunches(document, &json);
  return DumpJson(json);
}

Result<StatusDocument> DecodeStatusDocument(std::string_view text) {
  if (text.size() > kStatusBytesMax) {
    return Error(ErrorCode::kResourceExhausted,
                 "a status document of " + std::to_string(text.size()) +
                     " bytes found, expected at most " + std::to_string(kStatusBytesMax));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  std::vector<Error> errors;
  ObjectReader reader(json, "", &errors);
  reader.Require("schemaVersion", std::to_string(kStatusSchemaVersion));
  // Before anything else: of another version, other problems would only mislead.
  if (const auto version = reader.Int("schemaVersion");
      version.has_value() && *version != kStatusSchemaVersion) {
    return Error(ErrorCode::kMismatch,
                 std::to_string(*version) + " found, expected " +
                     std::to_string(kStatusSchemaVersion))
        .WithField("schemaVersion");
  }
  StatusDocument document;
  ReadIdentity(&reader, &document);
  ReadProgress(&reader, &document, &errors);
  ReadPeers(&reader, &document, &errors);
  ReadDevices(&reader, &document, &errors);
  ReadHistory(&reader, &document, &errors);
  ReadTimeline(&reader, &document, &errors);
  ReadModels(&reader, &document, &errors);
  ReadHangEvidence(&reader, &document, &errors);
  ReadRelaunches(&reader, &document, &errors);
  if (!errors.empty()) {
    return CombineProblems(errors);
  }
  return document;
}

}  // namespace lockstep
