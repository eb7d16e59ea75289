#include "trainer-runtime/ps/ps_client.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/check.h"

namespace lockstep::runtime {
namespace {

// After a connection has broken or a copy does not serve, before the next one is asked. Choice: its
// ps may just be hearing that it serves.
constexpr Duration kTurnAfter = std::chrono::milliseconds(50);

SharedValues Share(std::vector<float> values) {
  return std::make_shared<const std::vector<float>>(std::move(values));
}

// Whether nothing may follow, whatever the other shards come to.
bool IsFinal(const Status& status) {
  return !status.ok() && status.error().code() != ErrorCode::kNotFound;
}

std::vector<float> GatherSlots(const VariableShard& shard,
                               const std::vector<int64_t>& offsets,
                               std::span<const float> slots) {
  const auto size = static_cast<std::size_t>(offsets.back());
  std::vector<float> all;
  for (std::size_t begin = 0; begin < slots.size(); begin += size) {
    const std::vector<float> one = GatherShard(shard, offsets, slots.subspan(begin, size));
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

}  // namespace

Result<std::unique_ptr<PsClient>> PsClient::Make(PsClientOptions options) {
  LOCKSTEP_CHECK(options.logger != nullptr, "a client needs a logger");
  if (options.addresses.empty()) {
    return Error(ErrorCode::kInvalidArgument, "there is no ps address");
  }
  std::vector<HostPort> addresses;
  for (const std::string& text : options.addresses) {
    LOCKSTEP_ASSIGN_OR_RETURN(HostPort address, ParseHostPort(text));
    addresses.push_back(std::move(address));
  }
  std::unique_ptr<PsClient> client(new PsClient(std::move(options), std::move(addresses)));
  LOCKSTEP_RETURN_IF_ERROR(client->letters_.Open());
  LOCKSTEP_RETURN_IF_ERROR(client->caller_.Open());
  return client;
}

PsClient::PsClient(PsClientOptions options, std::vector<HostPort> addresses)
    : options_(std::move(options)),
      offsets_(VariableOffsets(options_.element_counts)),
      caller_({options_.identity, std::move(addresses), options_.job_key}),
      last_words_(options_.addresses.size()) {
  const int shard_count = static_cast<int>(options_.addresses.size());
  const WorkerProcess self{options_.identity.rank, options_.identity.incarnation};
  for (VariableShard& shard :
       PlanVariableShards(options_.element_counts, shard_count, options_.piece_bytes_min)) {
    ShardLine line{std::move(shard), ShardClient(self, shard_count > 1), {}, false, 0, {}, {}};
    lines_.push_back(std::move(line));
  }
}

Result<PulledCounts> PsClient::Pull(std::span<float> parameters,
                                    std::span<float> slots,
                                    request::Pull pull,
                                    const PsLimits& limits) {
  const auto size = static_cast<std::size_t>(offsets_.back());
  LOCKSTEP_CHECK(parameters.size() == size, std::to_string(parameters.size()) + " parameters");
  LOCKSTEP_CHECK(
      slots.empty() || slots.size() == size * static_cast<std::size_t>(options_.slot_count),
      std::to_string(slots.size()) + " slot values");
  pull.with_slots = !slots.empty();
  for (ShardLine& line : lines_) {
    line.client.Pull(pull);
  }
  LOCKSTEP_RETURN_IF_ERROR(Finish(limits));
  return TakeValues(parameters, slots);
}

Result<PulledCounts> PsClient::TakeValues(std::span<float> parameters,
                                          std::span<float> slots) const {
  const std::size_t size = parameters.size();
  const std::size_t slot_count = slots.empty() ? 0 : static_cast<std::size_t>(options_.slot_count);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  PulledCounts counts{kMost, 0, kMost, kMost, {}};
  for (const ShardLine& line : lines_) {
    const reply::Pulled& pulled = line.client.values();
    const auto expected = static_cast<std::size_t>(line.shard.element_count());
    const bool fits = pulled.parameters->size() == expected &&
                      (slot_count == 0 ||
                       (pulled.slots != nullptr && pulled.slots->size() == slot_count * expected));
    if (!fits) {
      return Error(ErrorCode::kMismatch,
                   std::to_string(pulled.parameters->size()) +
                       " values came from a shard, expected " + std::to_string(expected) +
                       ": the shard belongs to a different model");
    }
    ScatterShard(line.shard, offsets_, *pulled.parameters, parameters);
    for (std::size_t slot = 0; slot < slot_count; ++slot) {
      ScatterShard(line.shard,
                   offsets_,
                   std::span(*pulled.slots).subspan(slot * expected, expected),
                   slots.subspan(slot * size, size));
    }
    counts.least = std::min(counts.least, pulled.update_count);
    counts.most = std::max(counts.most, pulled.update_count);
    counts.sequence = std::min(counts.sequence, line.client.sequence());
    counts.gate = std::min(counts.gate, pulled.gate);
    if (pulled.facts != nullptr) {
      counts.facts.push_back(pulled.facts);
    }
  }
  return counts;
}

Status PsClient::Push(std::span<const float> gradients,
                      const PushFacts& facts,
                      const PsLimits& limits) {
  LOCKSTEP_CHECK(gradients.size() == static_cast<std::size_t>(offsets_.back()),
                 std::to_string(gradients.size()) + " gradients");
  for (ShardLine& line : lines_) {
    line.client.Push({Share(GatherShard(line.shard, offsets_, gradients)), facts.sums},
                     facts.sequence);
  }
  return Finish(limits);
}

Status PsClient::Seed(std::span<const float> parameters,
                      std::span<const float> slots,
                      const SeedFacts& facts,
                      const PsLimits& limits) {
  const auto size = static_cast<std::size_t>(offsets_.back());
  LOCKSTEP_CHECK(parameters.size() == size, std::to_string(parameters.size()) + " parameters");
  LOCKSTEP_CHECK(slots.size() == size * static_cast<std::size_t>(options_.slot_count),
                 std::to_string(slots.size()) + " slot values");
  for (ShardLine& line : lines_) {
    line.client.Seed({Share(GatherShard(line.shard, offsets_, parameters)),
                      Share(GatherSlots(line.shard, offsets_, slots)),
                      facts.update_count,
                      facts.gate,
                      facts.note});
  }
  return Finish(limits);
}

Status PsClient::Open(int64_t gate, const PsLimits& limits) {
  for (ShardLine& line : lines_) {
    line.client.Open(gate);
  }
  return Finish(limits);
}

Status PsClient::Leave(const PsLimits& limits) {
  for (ShardLine& line : lines_) {
    line.client.Leave();
  }
  return Finish(limits);
}

// Until all requests have come to something.
Status PsClient::Finish(const PsLimits& limits) {
  const std::stop_callback wake(limits.stop, [this] { letters_.Post({0, std::nullopt}); });
  now_ = SteadyNow();
  for (ShardLine& line : lines_) {
    line.outcome.reset();
    line.ask_again_at = now_ + options_.ask_again;
  }
  while (true) {
    ReadLetters();
    TellOfNewest();
    Ask();
    if (is_superseded_) {
      return Error(ErrorCode::kStale, "this worker was replaced by a newer process");
    }
    Status concluded = Conclude();
    if (!IsBusy() || IsFinal(concluded)) {
      return concluded;
    }
    if (limits.stop.stop_requested()) {
      return Error(ErrorCode::kAborted, "asked to stop while waiting: " + Late().message());
    }
    if (limits.deadline.HasPassed(now_)) {
      return Late();
    }
    PollSet poll;
    poll.Watch(letters_.fd());
    caller_.Watch(&poll);
    TimePoint until = std::min(limits.deadline.when(), caller_.NextTimeout());
    for (const ShardLine& line : lines_) {
      until = line.client.is_busy() ? std::min(until, line.ask_again_at) : until;
    }
    poll.Wait(now_, until);
    now_ = SteadyNow();
    Read(poll);
    AskAgain();
  }
}

void PsClient::ReadLetters() {
  for (const ViewLetter& letter : letters_.Take()) {
    if (letter.view.has_value() && letter.shard >= 0 &&
        letter.shard < static_cast<int>(lines_.size())) {
      lines_[static_cast<std::size_t>(letter.shard)].client.OnView(*letter.view);
    }
  }
}

// A connection to a process that was replaced leads nowhere, whether it is dead or not.
void PsClient::TellOfNewest() {
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    const int shard = static_cast<int>(i);
    for (const ShardPlace place : {ShardPlace::kHome, ShardPlace::kBuddy}) {
      caller_.NoteNewest(PsOf(shard, place), lines_[i].client.view().at(place), now_);
    }
  }
}

// Sends what the clients ask, and takes what they have come to.
void PsClient::Ask() {
  for (std::size_t shard = 0; shard < lines_.size(); ++shard) {
    ShardLine& line = lines_[shard];
    if (const std::optional<RequestOutcome> outcome = line.client.TakeOutcome()) {
      line.outcome = outcome;
      line.asked.reset();
    }
    for (AddressedRequest& request : line.client.TakeRequests()) {
      line.asked = std::move(request);  // the last one: the others were turned away
      line.is_sent = false;
    }
    if (line.asked.has_value() && !line.is_sent && line.client.is_busy()) {
      AskOne(static_cast<int>(shard));
    }
  }
}

void PsClient::AskOne(int shard) {
  ShardLine& line = lines_[static_cast<std::size_t>(shard)];
  const int ps = PsOf(shard, line.asked->place);
  if (!caller_.IsUp(ps)) {
    caller_.Want(ps, now_);  // asked when it is there
    return;
  }
  caller_.Send(ps, EncodeShardFrame({shard, line.asked->request}));
  line.is_sent = true;
  line.bytes_moved = caller_.BytesMoved(ps);
  line.ask_again_at = now_ + options_.ask_again;
}

void PsClient::Read(const PollSet& poll) {
  for (const CallerNews& news : caller_.Advance(poll, now_)) {
    Hear(news);
  }
}

void PsClient::Hear(const CallerNews& news) {
  if (news.kind == CallerNews::Kind::kMessage) {
    TakeAnswer(news.ps, news.text);
    return;
  }
  if (news.kind == CallerNews::Kind::kRefused) {
    is_superseded_ = true;
    return;
  }
  last_words_[static_cast<std::size_t>(news.ps)] = news.text;
  if (news.kind == CallerNews::Kind::kUp) {
    return;
  }
  for (std::size_t shard = 0; shard < lines_.size(); ++shard) {
    ShardLine& line = lines_[shard];
    if (line.asked.has_value() && PsOf(static_cast<int>(shard), line.asked->place) == news.ps) {
      line.ask_again_at = std::min(line.ask_again_at, now_ + kTurnAfter);
    }
  }
}

void PsClient::TakeAnswer(int ps, const std::string& bytes) {
  const Result<ShardFrame> frame = DecodeShardFrame(bytes);
  const WorkerReply* const reply = frame.ok() ? std::get_if<WorkerReply>(&frame->message) : nullptr;
  if (reply == nullptr || frame->shard >= static_cast<int>(lines_.size())) {
    options_.logger->Warn("a ps sent something that is not an answer", {{"index", ps}});
    return;
  }
  ShardLine& line = lines_[static_cast<std::size_t>(frame->shard)];
  line.client.OnReply(*reply);
  if (std::holds_alternative<reply::NotServing>(reply->body) && line.asked.has_value()) {
    // It may just be hearing that it serves; what moved was its refusal.
    line.bytes_moved = caller_.BytesMoved(PsOf(frame->shard, line.asked->place));
    line.ask_again_at = std::min(line.ask_again_at, now_ + kTurnAfter);
  }
}

void PsClient::AskAgain() {
  for (std::size_t shard = 0; shard < lines_.size(); ++shard) {
    ShardLine& line = lines_[shard];
    if (!line.client.is_busy() || now_ < line.ask_again_at) {
      continue;
    }
    line.ask_again_at = now_ + options_.ask_again;
    if (!IsMoving(static_cast<int>(shard))) {
      line.client.Resend();
    }
  }
}

// Whether the question or its answer is on its way, which takes as long as it is large.
bool PsClient::IsMoving(int shard) {
  ShardLine& line = lines_[static_cast<std::size_t>(shard)];
  if (!line.is_sent || !line.asked.has_value()) {
    return false;
  }
  const uint64_t before =
      std::exchange(line.bytes_moved, caller_.BytesMoved(PsOf(shard, line.asked->place)));
  return line.bytes_moved > before;
}

bool PsClient::IsBusy() const {
  return std::any_of(
      lines_.begin(), lines_.end(), [](const ShardLine& line) { return line.client.is_busy(); });
}

// What the shards that have answered have come to: what is final first.
Status PsClient::Conclude() const {
  bool is_unseeded = false;
  for (std::size_t shard = 0; shard < lines_.size(); ++shard) {
    switch (lines_[shard].outcome.value_or(RequestOutcome::kDone)) {
      case RequestOutcome::kDone:
      case RequestOutcome::kPulled:
        break;
      case RequestOutcome::kUnseeded:
        is_unseeded = true;
        break;
      case RequestOutcome::kOutdated:
        return Error(ErrorCode::kStale,
                     "a newer process has replaced this worker, or this worker has left already");
      case RequestOutcome::kMisfit:
        return Error(
            ErrorCode::kMismatch,
            "shard " + std::to_string(shard) + " belongs to a different model or optimizer");
      case RequestOutcome::kLost:
        return Error(ErrorCode::kPeerLost,
                     "shard " + std::to_string(shard) + " is lost: both of its copies are gone");
    }
  }
  if (is_unseeded) {
    return Error(ErrorCode::kNotFound, "not all shards have values yet");
  }
  return OkStatus();
}

Error PsClient::Late() const {
  std::string text = "no answer for shards";
  for (std::size_t shard = 0; shard < lines_.size(); ++shard) {
    const ShardLine& line = lines_[shard];
    if (!line.client.is_busy()) {
      continue;
    }
    text += " " + std::to_string(shard);
    if (line.asked.has_value()) {
      const int ps = PsOf(static_cast<int>(shard), line.asked->place);
      const std::string& words = last_words_[static_cast<std::size_t>(ps)];
      text += " (ps " + std::to_string(ps) + (words.empty() ? "" : ": " + words) + ")";
    }
  }
  return Error(ErrorCode::kTimeout, text);
}

int PsClient::PsOf(int shard, ShardPlace place) const {
  const int ps_count = static_cast<int>(lines_.size());
  return place == ShardPlace::kHome ? shard : (shard + 1) % ps_count;
}

}  // namespace lockstep::runtime
