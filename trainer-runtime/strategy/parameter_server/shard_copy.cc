#include "trainer-runtime/strategy/parameter_server/shard_copy.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/check.h"

namespace lockstep::runtime {
namespace {

// The first process at home serves, the first buddy follows, both with nothing; there is nobody to
// fill a later one where the job has one ps.
CopyRole RoleAtBirth(const ShardCopyOptions& options) {
  if (options.incarnation > Incarnation()) {
    return options.has_partner ? CopyRole::kEmpty : CopyRole::kLost;
  }
  const bool is_partner_new = options.view.at(OtherPlace(options.place)) > Incarnation();
  return options.place == ShardPlace::kHome || is_partner_new ? CopyRole::kServing
                                                              : CopyRole::kFollowing;
}

}  // namespace

const char* CopyRoleName(CopyRole role) {
  switch (role) {
    case CopyRole::kServing:
      return "serving";
    case CopyRole::kFollowing:
      return "following";
    case CopyRole::kEmpty:
      return "empty";
    case CopyRole::kSuperseded:
      return "superseded";
    case CopyRole::kLost:
      return "lost";
  }
  return "unknown";
}

ShardCopy::ShardCopy(ShardCopyOptions options)
    : options_(std::move(options)), view_(options_.view), role_(RoleAtBirth(options_)) {
  LOCKSTEP_CHECK(
      view_.at(options_.place) == options_.incarnation,
      "the view of term " + std::to_string(view_.term.value()) + " does not name this process");
  // The first other process has nothing to be filled with.
  is_followed_ = options_.has_partner && view_.at(OtherPlace(options_.place)) == Incarnation();
  if (role_ == CopyRole::kEmpty) {
    Tell(copying::FillRequest{});
  }
}

std::vector<ShardCopy::Duty> ShardCopy::TakeDuties() {
  return std::exchange(duties_, {});
}

void ShardCopy::OnView(const ShardView& view) {
  if (view.term <= view_.term || role_ == CopyRole::kSuperseded) {
    return;
  }
  const ShardPlace other = OtherPlace(options_.place);
  const bool is_partner_new = view.at(other) > view_.at(other);
  view_ = view;
  if (view_.at(options_.place) > options_.incarnation) {
    role_ = CopyRole::kSuperseded;
    log_.clear();
    TurnAwayPulls();
    return;
  }
  if (!is_partner_new) {
    return;
  }
  if (role_ == CopyRole::kEmpty) {
    role_ = CopyRole::kLost;
  } else if (role_ != CopyRole::kLost) {
    Serve();
  }
}

// Alone, until the newcomer at the other place asks to be filled.
void ShardCopy::Serve() {
  role_ = CopyRole::kServing;
  is_followed_ = false;
  filling_to_.reset();
  for (const auto& [worker, below] : gone_) {
    RetireGone(worker);
  }
  Settle();
}

void ShardCopy::OnWorkerGone(int worker, Incarnation below) {
  Incarnation& known = gone_[worker];
  known = std::max(known, below);
  if (role_ == CopyRole::kServing) {
    RetireGone(worker);
    Settle();
  }
}

// Only those that were there: of others nobody has to be told.
void ShardCopy::RetireGone(int worker) {
  const auto found = content_.workers.find(worker);
  if (found != content_.workers.end() && found->second.incarnation < gone_[worker]) {
    unheard_.erase(worker);
    Append(entry::Retire{worker, gone_[worker]}, std::nullopt);
  }
}

void ShardCopy::OnRequest(const WorkerRequest& request) {
  OnView(request.view);
  if (role_ == CopyRole::kLost) {
    Reply(AskerOf(request), reply::Lost{});
  } else if (role_ != CopyRole::kServing) {
    Reply(AskerOf(request), reply::NotServing{});
  } else if (IsUnderWay(request.process)) {
    return;  // it is asked again; the answer comes when it is confirmed
  } else {
    unheard_.erase(request.process.worker);
    std::visit([&](const auto& body) { On(request, body); }, request.body);
    Settle();
  }
}

void ShardCopy::On(const WorkerRequest& request, const request::Pull& pull) {
  if (IsOutdated(request.process)) {
    Reply(AskerOf(request), reply::Outdated{});
    return;
  }
  Admit(request.process);
  if (!content_.is_seeded) {
    Reply(AskerOf(request), reply::Unseeded{});
    return;
  }
  const auto waiting = pulls_.find(request.process.worker);
  if (waiting == pulls_.end() || request.number >= waiting->second.asker.number) {
    pulls_[request.process.worker] = {AskerOf(request), pull, std::nullopt};
  }
}

void ShardCopy::On(const WorkerRequest& request, const request::Push& push) {
  if (IsOutdated(request.process)) {
    Reply(AskerOf(request), reply::Outdated{});
    return;
  }
  const PushStanding standing = content_.Judge(request.process, request.sequence);
  if (!content_.is_seeded || request.sequence < 1 || standing == PushStanding::kTooEarly) {
    return;
  }
  if (standing == PushStanding::kDone) {
    Reply(AskerOf(request), reply::Done{});
    return;
  }
  if (push.gradient == nullptr || push.gradient->size() != content_.parameters.size()) {
    Reply(AskerOf(request), reply::Misfit{});
    return;
  }
  Admit(request.process);
  Append(entry::Push{request.process, request.sequence, push.gradient, push.sums},
         AskerOf(request));
}

void ShardCopy::On(const WorkerRequest& request, const request::Open& open) {
  if (IsOutdated(request.process)) {
    Reply(AskerOf(request), reply::Outdated{});
    return;
  }
  if (content_.is_seeded && content_.gate >= open.gate) {
    Reply(AskerOf(request), reply::Done{});  // as a push that is asked again: it was acknowledged
    return;
  }
  Append(entry::Open{open.gate}, AskerOf(request));
}

void ShardCopy::On(const WorkerRequest& request, const request::Seed& seed) {
  if (IsOutdated(request.process)) {
    Reply(AskerOf(request), reply::Outdated{});
    return;
  }
  if (content_.is_seeded) {
    const bool is_confirmed = std::none_of(log_.begin(), log_.end(), [](const LogRecord& record) {
      return std::holds_alternative<entry::Seed>(record.entry);
    });
    if (is_confirmed) {
      Reply(AskerOf(request), reply::Done{});
    }
    return;  // else it asks again
  }
  const entry::Seed entry{seed.parameters, seed.slots, seed.update_count, seed.gate, seed.note};
  if (!content_.Fits(entry, options_.slot_count)) {
    Reply(AskerOf(request), reply::Misfit{});
    return;
  }
  Admit(request.process);
  AdmitFirstProcesses();
  Append(entry, AskerOf(request));
}

void ShardCopy::On(const WorkerRequest& request, const request::Leave& /*leave*/) {
  if (IsOutdated(request.process)) {
    Reply(AskerOf(request), reply::Done{});
    return;
  }
  pulls_.erase(request.process.worker);
  Append(entry::Retire{request.process.worker, request.process.incarnation.Next()},
         AskerOf(request));
}

bool ShardCopy::IsOutdated(const WorkerProcess& process) const {
  const auto gone = gone_.find(process.worker);
  return content_.IsOutdated(process) ||
         (gone != gone_.end() && process.incarnation < gone->second);
}

bool ShardCopy::IsUnderWay(const WorkerProcess& process) const {
  return std::any_of(log_.begin(), log_.end(), [&](const LogRecord& record) {
    return record.asker.has_value() && record.asker->process == process;
  });
}

void ShardCopy::Admit(const WorkerProcess& process) {
  if (!content_.Knows(process)) {
    pulls_.erase(process.worker);
    Append(entry::Admit{process}, std::nullopt);
  }
}

// Where the others' processes are on their way, nobody is to run ahead of them meanwhile.
void ShardCopy::AdmitFirstProcesses() {
  for (int worker = 0; worker < options_.worker_count; ++worker) {
    const WorkerProcess first{worker, Incarnation()};
    if (!IsOutdated(first) && !content_.Knows(first)) {
      Admit(first);
      unheard_.insert(worker);
    }
  }
}

std::set<int> ShardCopy::AwaitedToBegin() const {
  const bool is_anybody_waiting = std::any_of(
      pulls_.begin(), pulls_.end(), [](const auto& pull) { return !pull.second.due_at; });
  return is_anybody_waiting ? unheard_ : std::set<int>();
}

void ShardCopy::Append(ShardEntry entry, std::optional<Asker> asker) {
  content_.Take(entry, options_.rule);
  log_.push_back({content_.entry_count, std::move(entry), asker});
  if (is_followed_) {
    Send(log_.back());
  }
}

void ShardCopy::Send(const LogRecord& record) {
  Tell(copying::Append{record.index, record.entry});
}

// Acknowledges what is confirmed.
void ShardCopy::Settle() {
  if (role_ != CopyRole::kServing) {
    return;
  }
  if (!is_followed_) {
    confirmed_ = content_.entry_count;
  }
  while (!log_.empty() && log_.front().index <= confirmed_) {
    if (const std::optional<Asker>& asker = log_.front().asker) {
      Reply(*asker, reply::Done{});
    }
    log_.pop_front();
  }
  AnswerPulls();
}

// Who waits at the gate, or for the others to come to it.
std::set<int> ShardCopy::Resting() const {
  std::set<int> resting;
  for (const auto& [worker, waiting] : pulls_) {
    const request::Pull& pull = waiting.pull;
    if (pull.updates_min > content_.update_count || pull.step > content_.gate) {
      resting.insert(worker);
    }
  }
  return resting;
}

bool ShardCopy::IsDue(int worker, const WaitingPull& waiting, const std::set<int>& resting) const {
  const request::Pull& pull = waiting.pull;
  if (pull.updates_min > 0) {
    return content_.update_count >= pull.updates_min;
  }
  return pull.step <= content_.gate && content_.MayBegin(worker, options_.max_staleness, resting);
}

std::shared_ptr<const ShardFacts> ShardCopy::Facts() const {
  ShardFacts facts{content_.note, {}, content_.sample_count, content_.sums};
  for (const auto& [worker, standing] : content_.workers) {
    facts.sequences[worker] = standing.sequence;
  }
  return std::make_shared<const ShardFacts>(std::move(facts));
}

void ShardCopy::AnswerPulls() {
  const std::set<int> resting = Resting();
  std::shared_ptr<const std::vector<float>> parameters;  // one copy for all of them
  for (auto next = pulls_.begin(); next != pulls_.end();) {
    const auto current = next++;
    WaitingPull& pull = current->second;
    if (!content_.Knows(pull.asker.process)) {
      Reply(pull.asker, reply::Outdated{});
      pulls_.erase(current);
      continue;
    }
    if (!pull.due_at && IsDue(current->first, pull, resting)) {
      pull.due_at = content_.entry_count;
    }
    if (pull.due_at.value_or(confirmed_ + 1) > confirmed_) {
      continue;
    }
    if (parameters == nullptr) {
      parameters = std::make_shared<const std::vector<float>>(content_.parameters);
    }
    reply::Pulled answer{content_.update_count, parameters, nullptr, 0, content_.gate, nullptr};
    answer.sequence = content_.workers.at(current->first).sequence;
    if (pull.pull.with_slots) {
      answer.slots = std::make_shared<const std::vector<float>>(content_.slots);
    }
    if (pull.pull.with_facts) {
      answer.facts = Facts();
    }
    Reply(pull.asker, std::move(answer));
    pulls_.erase(current);
  }
}

void ShardCopy::TurnAwayPulls() {
  for (const auto& [worker, pull] : pulls_) {
    Reply(pull.asker, reply::NotServing{});
  }
  pulls_.clear();
}

Status ShardCopy::OnCopyMessage(const CopyMessage& message) {
  if (!options_.has_partner) {
    return OkStatus();
  }
  OnView(message.view);
  if (message.view.term < view_.term) {
    if (!std::holds_alternative<copying::Notice>(message.body)) {
      Tell(copying::Notice{});  // no answer to an answer
    }
    return OkStatus();
  }
  if (role_ == CopyRole::kSuperseded || role_ == CopyRole::kLost) {
    return OkStatus();
  }
  return std::visit([&](const auto& body) { return On(body); }, message.body);
}

Status ShardCopy::On(const copying::Append& append) {
  if (role_ != CopyRole::kFollowing) {
    return OkStatus();  // one that is empty asks again at Resend: the content is large
  }
  if (append.index == content_.entry_count + 1) {
    if (!content_.Fits(append.entry, options_.slot_count)) {
      return Error(ErrorCode::kMismatch,
                   "entry " + std::to_string(append.index) + " does not fit this copy");
    }
    content_.Take(append.entry, options_.rule);
  }
  Tell(copying::Confirm{content_.entry_count});
  return OkStatus();
}

Status ShardCopy::On(const copying::Confirm& confirm) {
  if (role_ != CopyRole::kServing || !is_followed_ || confirm.index > content_.entry_count) {
    return OkStatus();
  }
  confirmed_ = std::max(confirmed_, confirm.index);
  if (filling_to_ && confirm.index >= *filling_to_) {
    filling_to_.reset();
  }
  Settle();
  return OkStatus();
}

Status ShardCopy::On(const copying::FillRequest& /*fill_request*/) {
  if (role_ == CopyRole::kEmpty) {
    role_ = CopyRole::kLost;  // both places were given away before anybody was filled
  }
  if (role_ != CopyRole::kServing) {
    return OkStatus();
  }
  is_followed_ = true;
  filling_to_ = content_.entry_count;
  Tell(copying::Fill{std::make_shared<const ShardContent>(content_)});
  return OkStatus();
}

Status ShardCopy::On(const copying::Fill& fill) {
  if (role_ == CopyRole::kEmpty && fill.content != nullptr) {
    if (!fill.content->IsWhole(options_.slot_count)) {
      return Error(ErrorCode::kMismatch,
                   std::to_string(fill.content->slots.size()) + " slot values for " +
                       std::to_string(fill.content->parameters.size()) + " parameters");
    }
    content_ = *fill.content;
    role_ = CopyRole::kFollowing;
  }
  if (role_ == CopyRole::kFollowing) {
    Tell(copying::Confirm{content_.entry_count});
  }
  return OkStatus();
}

Status ShardCopy::On(const copying::Notice& /*notice*/) {
  return OkStatus();
}

void ShardCopy::Resend() {
  if (role_ == CopyRole::kEmpty) {
    Tell(copying::FillRequest{});
  } else if (role_ == CopyRole::kServing && is_followed_) {
    for (const LogRecord& record : log_) {
      Send(record);
    }
  } else if (role_ == CopyRole::kFollowing) {
    Tell(copying::Confirm{content_.entry_count});
  }
}

}  // namespace lockstep::runtime
