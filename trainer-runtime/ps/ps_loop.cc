#include "trainer-runtime/ps/ps_loop.h"

#include <algorithm>
#include <utility>

#include "trainer-runtime/rendezvous/host_id.h"

namespace lockstep::runtime {
PsLoop::PsLoop(PsServerOptions options,
               std::vector<HostPort> addresses,
               LetterBox<PsLetter>* letters,
               PsBoard* board)
    : options_(std::move(options)),
      letters_(letters),
      board_(board),
      number_(options_.identity.rank - options_.identity.world_size),
      reception_(ReceptionOptions{std::move(options_.listener),
                                  Hello{options_.identity, ReadHostId()},
                                  options_.job_key,
                                  ReceptionOptions().waiting_max,
                                  options_.logger}),
      caller_({options_.identity, std::move(addresses), options_.job_key}) {
  for (int shard = 0; shard < ps_count(); ++shard) {
    const int buddy = (shard + 1) % ps_count();
    if (shard != number_ && buddy != number_) {
      continue;
    }
    const ShardPlace place = shard == number_ ? ShardPlace::kHome : ShardPlace::kBuddy;
    holdings_.emplace(shard,
                      Holding{place,
                              place == ShardPlace::kHome ? buddy : shard,
                              ShardCopy({place,
                                         options_.identity.incarnation,
                                         options_.views[static_cast<std::size_t>(shard)],
                                         ps_count() > 1,
                                         options_.max_staleness,
                                         options_.identity.world_size,
                                         options_.rule,
                                         options_.slot_count})});
  }
}

void PsLoop::Run() {
  now_ = SteadyNow();
  ask_again_at_ = now_ + options_.ask_again;
  while (is_running_) {
    CallPartners();
    SendDuties();
    Publish();
    WaitForWork();
  }
}

void PsLoop::CallPartners() {
  const bool is_superseded =
      std::all_of(holdings_.begin(), holdings_.end(), [](const auto& holding) {
        return holding.second.copy.role() == CopyRole::kSuperseded;
      });
  if (is_superseded) {
    caller_.CallNobody();
  }
  for (const auto& [shard, holding] : holdings_) {
    if (ps_count() == 1 || is_superseded) {
      continue;
    }
    caller_.NoteNewest(holding.partner, holding.copy.view().at(OtherPlace(holding.place)), now_);
    caller_.Want(holding.partner, now_);
  }
}

void PsLoop::WaitForWork() {
  PollSet poll;
  poll.Watch(letters_->fd());
  reception_.Watch(&poll, now_);
  caller_.Watch(&poll);
  for (const auto& [place, guest] : guests_) {
    poll.Watch(guest->socket.fd(), guest->socket.has_unsent());
  }
  poll.Wait(now_, std::min({reception_.NextTimeout(), caller_.NextTimeout(), ask_again_at_}));
  now_ = SteadyNow();
  ReadLetters();
  ReadGuests(poll);
  ReadCaller(poll);
  TakeVisitors(poll);
  if (now_ >= ask_again_at_) {
    AskAgain();
  }
}

void PsLoop::ReadLetters() {
  for (const PsLetter& letter : letters_->Take()) {
    std::visit([this](const auto& one) { On(one); }, letter);
  }
}

void PsLoop::On(const ps_letter::View& letter) {
  const auto holding = holdings_.find(letter.shard);
  if (holding != holdings_.end()) {
    holding->second.copy.OnView(letter.view);
  }
}

void PsLoop::On(const ps_letter::Gone& letter) {
  for (auto& [shard, holding] : holdings_) {
    holding.copy.OnWorkerGone(letter.worker, letter.below);
  }
}

void PsLoop::On(const ps_letter::End& /*letter*/) {
  is_running_ = false;
}

void PsLoop::TakeVisitors(const PollSet& poll) {
  for (Visitor& visitor : reception_.Advance(poll, now_)) {
    Welcome(std::move(visitor));
  }
}

// Whoever is known by a newer process of its place is refused.
std::optional<Refusal> PsLoop::Judge(const MeshIdentity& caller) const {
  const MeshIdentity& self = options_.identity;
  const int place_count = PsPlace(self.world_size, ps_count());
  if (caller.attempt < self.attempt) {
    return Refusal::kSuperseded;
  }
  if (caller.attempt > self.attempt || caller.world_size != self.world_size || caller.rank < 0 ||
      caller.rank >= place_count || caller.rank == self.rank) {
    return Refusal::kWrongJob;
  }
  const auto known = guests_.find(caller.rank);
  if (known != guests_.end() && caller.incarnation < known->second->incarnation) {
    return Refusal::kSuperseded;
  }
  return std::nullopt;
}

void PsLoop::Welcome(Visitor visitor) {
  const MeshIdentity& caller = visitor.hello.hello.identity;
  const std::optional<Refusal> refusal =
      visitor.hello.kind == LinkKind::kData ? Judge(caller) : std::optional(Refusal::kWrongJob);
  const VerdictFrame verdict{
      !refusal.has_value(), refusal.value_or(Refusal::kBusy), Epoch(), "a ps listens here"};
  const Status sent = visitor.socket.Write(EncodeFrame(verdict));
  if (refusal.has_value() || !sent.ok() || visitor.socket.has_unsent()) {
    options_.logger->Info("refused a caller",
                          {{"place", caller.rank},
                           {"reason", refusal.has_value() ? RefusalName(*refusal) : "unsent"}});
    return;
  }
  guests_[caller.rank] = std::make_unique<Guest>(Guest{
      caller.rank, caller.incarnation, MessageSocket(std::move(visitor.socket).Release()), {}});
  // What the caller confirmed before it had this connection is lost: asked again, it says it again.
  ResendTo(caller.rank - options_.identity.world_size);
}

void PsLoop::ResendTo(int partner) {
  for (auto& [shard, holding] : holdings_) {
    if (holding.partner == partner && ps_count() > 1) {
      holding.copy.Resend();
    }
  }
}

// A partner that did not know yet that it is to serve has not answered.
void PsLoop::AskAgain() {
  ask_again_at_ = now_ + options_.ask_again;
  for (auto& [shard, holding] : holdings_) {
    if (holding.copy.role() == CopyRole::kEmpty) {
      holding.copy.Resend();
    }
    TellAwaited(shard, &holding);
  }
}

void PsLoop::TellAwaited(int shard, Holding* holding) const {
  std::set<int> awaited = holding->copy.AwaitedToBegin();
  if (awaited.empty() || awaited == holding->told_awaited) {
    return;
  }
  options_.logger->Info(
      "workers wait for ranks that have not started",
      {{"shard", shard}, {"count", awaited.size()}, {"lowest_rank", *awaited.begin()}});
  holding->told_awaited = std::move(awaited);
}

void PsLoop::ReadCaller(const PollSet& poll) {
  for (const CallerNews& news : caller_.Advance(poll, now_)) {
    switch (news.kind) {
      case CallerNews::Kind::kUp:
        ResendTo(news.ps);
        break;
      case CallerNews::Kind::kDown:
        options_.logger->Debug("ps could not be reached",
                               {{"index", news.ps}, {"error", news.text}});
        break;
      case CallerNews::Kind::kRefused:  // its successor's view says the same to each copy
      case CallerNews::Kind::kMessage:  // nobody answers over our own calls
        break;
    }
  }
}

void PsLoop::ReadGuests(const PollSet& poll) {
  for (auto next = guests_.begin(); next != guests_.end();) {
    const auto current = next++;
    Guest* const guest = current->second.get();
    if (!poll.IsReady(guest->socket.fd())) {
      continue;
    }
    const Status read = ReadGuest(guest);
    if (!read.ok()) {
      const bool is_end = read.error().code() == ErrorCode::kPeerLost;
      options_.logger->Log(is_end ? LogLevel::kDebug : LogLevel::kWarn,
                           is_end ? "client has disconnected" : "client rejected",
                           {{"place", guest->place}, {"error", read.error().ToString()}});
      guests_.erase(current);
    }
  }
}

Status PsLoop::ReadGuest(Guest* guest) {
  LOCKSTEP_RETURN_IF_ERROR(guest->socket.Flush());
  std::size_t budget = kBytesARound;
  while (true) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<std::string> message,
                              guest->socket.Read(&budget));
    if (!message.has_value()) {
      break;
    }
    LOCKSTEP_RETURN_IF_ERROR(Take(*guest, *message));
  }
  return OkStatus();
}

// Errors: kCorrupt, kMismatch (it speaks for somebody else): the connection is not worth keeping.
Status PsLoop::Take(const Guest& guest, const std::string& bytes) {
  LOCKSTEP_ASSIGN_OR_RETURN(ShardFrame frame, DecodeShardFrame(bytes));
  const auto found = holdings_.find(frame.shard);
  if (found == holdings_.end()) {
    return Error(ErrorCode::kMismatch,
                 "this process has no copy of shard " + std::to_string(frame.shard));
  }
  Holding& holding = found->second;
  if (const auto* request = std::get_if<WorkerRequest>(&frame.message)) {
    if (!(request->process == WorkerProcess{guest.place, guest.incarnation})) {
      return Error(ErrorCode::kMismatch, "the request names a different worker than its sender");
    }
    if (!IsBeingAnswered(guest, frame.shard, *request)) {
      holding.copy.OnRequest(*request);
    }
    return OkStatus();
  }
  const auto* message = std::get_if<CopyMessage>(&frame.message);
  if (message == nullptr || guest.place != PsPlace(options_.identity.world_size, holding.partner)) {
    return Error(ErrorCode::kMismatch, "this caller may not send this message");
  }
  // The content is on its way already, and large.
  const bool is_in_vain = std::holds_alternative<copying::FillRequest>(message->body) &&
                          caller_.HasUnsent(holding.partner);
  return is_in_vain ? OkStatus() : holding.copy.OnCopyMessage(*message);
}

// Values that are still being sent are not sent a second time.
bool PsLoop::IsBeingAnswered(const Guest& guest, int shard, const WorkerRequest& request) {
  const auto answer = guest.answers.find(shard);
  return std::holds_alternative<request::Pull>(request.body) && answer != guest.answers.end() &&
         answer->second.number == request.number &&
         guest.socket.bytes_sent() < answer->second.written_with;
}

void PsLoop::SendDuties() {
  for (auto& [shard, holding] : holdings_) {
    for (const ShardCopy::Duty& duty : holding.copy.TakeDuties()) {
      std::visit(
          [&, shard = shard, &holding = holding](const auto& what) { Send(shard, holding, what); },
          duty);
    }
  }
}

void PsLoop::Send(int shard, const Holding& /*holding*/, const WorkerReply& reply) {
  const auto guest = guests_.find(reply.process.worker);
  if (guest == guests_.end() || guest->second->incarnation != reply.process.incarnation) {
    return;
  }
  MessageSocket& socket = guest->second->socket;
  (void)socket.Write(
      EncodeShardFrame({shard, reply}));  // one that is broken the next reading finds
  if (std::holds_alternative<reply::Pulled>(reply.body)) {
    guest->second->answers[shard] = {reply.number, socket.bytes_written()};
  }
}

void PsLoop::Send(int shard, const Holding& holding, const CopyMessage& message) {
  if (caller_.IsUp(holding.partner)) {  // else it is not worth encoding
    caller_.Send(holding.partner, EncodeShardFrame({shard, message}));
  }
}

void PsLoop::Publish() {
  std::vector<CopyStanding> standings;
  for (const auto& [shard, holding] : holdings_) {
    const ShardContent& content = holding.copy.content();
    const auto present = std::count_if(content.workers.begin(),
                                       content.workers.end(),
                                       [](const auto& worker) { return worker.second.is_present; });
    standings.push_back({shard,
                         holding.place,
                         holding.copy.role(),
                         holding.copy.view().term,
                         holding.copy.is_followed(),
                         content.update_count,
                         static_cast<int>(present)});
  }
  const std::lock_guard<std::mutex> lock(board_->mutex);
  board_->standings = std::move(standings);
}

}  // namespace lockstep::runtime
