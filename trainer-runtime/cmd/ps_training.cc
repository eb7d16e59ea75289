#include "trainer-runtime/cmd/ps_training.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "common/contract/environment/topology.h"
#include "trainer-runtime/collectives/communicator/communicator.h"
#include "trainer-runtime/collectives/reduce/communicator_reducer.h"
#include "trainer-runtime/engine/optimizer.h"

namespace lockstep::runtime {
namespace {

// Whoever waits for others waits for as long as they work: processes that answer no more are the
// operator's to find, and of one that hangs and answers the job's deadline ends the wait. Choice.
constexpr Duration kWhileOthersWork = std::chrono::hours(24 * 365);

// Between two looks at shards that have no values yet. Choice.
constexpr Duration kValuesLookInterval = std::chrono::milliseconds(50);

// A communicator of one rank. Choice, as it waits for nobody.
constexpr Duration kAloneTimeout = std::chrono::seconds(60);

}  // namespace

std::vector<std::string> PsAddresses(const WorkerEnvironment& environment) {
  std::vector<std::string> addresses;
  const auto found = environment.tf_config.cluster.find(Role::kPs);
  if (found != environment.tf_config.cluster.end()) {
    for (const auto& [index, address] : found->second) {
      addresses.push_back(FormatHostPort(address));
    }
  }
  return addresses;
}

PsTraining::PsTraining(PsTrainingOptions options, Trainer* trainer, TrainingObserver* observer)
    : options_(std::move(options)),
      trainer_(trainer),
      observer_(observer),
      rank_(options_.environment.rank.value_or(0)),
      deal_{0, options_.environment.world_size} {}

PsLimits PsTraining::WhileOthersWork() const {
  return {Deadline::After(SteadyNow(), kWhileOthersWork), options_.stop};
}

PsLimits PsTraining::Soon() const {
  return {Deadline::After(SteadyNow(), options_.environment.rendezvous_timeout), options_.stop};
}

Result<TrainerVerdict> PsTraining::Run() {
  CommunicatorOptions alone_options;
  alone_options.epoch = options_.environment.epoch;
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::unique_ptr<Communicator> alone,
      MakeCommunicator(std::move(alone_options), Deadline::After(SteadyNow(), kAloneTimeout)));
  CommunicatorReducer reducer(alone.get());
  const Result<TrainerVerdict> verdict = Train(&reducer);
  if (trainer_->trouble().empty()) {
    return verdict;
  }
  // Ends the job; the trainer has the sentence. Else it is a step or a state that is not finite.
  return is_inexact_ ? TrainerVerdict::kInexact : TrainerVerdict::kDiverged;
}

Result<TrainerVerdict> PsTraining::Train(GradientReducer* alone) {
  LOCKSTEP_RETURN_IF_ERROR(Begin());
  return TrainShares(alone);
}

Status PsTraining::Begin() {
  const WorkerEnvironment& environment = options_.environment;
  PsClientOptions client;
  client.identity = {environment.job_uid,
                     environment.attempt,
                     rank_,
                     environment.world_size,
                     environment.incarnation};
  client.addresses = PsAddresses(environment);
  client.job_key = options_.job_key;
  client.element_counts = trainer_->VariableSizes();
  client.piece_bytes_min = kPsPieceBytesMin;
  client.slot_count = static_cast<int>(OptimizerSlotNames(options_.spec.optimizer).size());
  client.logger = options_.logger;
  LOCKSTEP_ASSIGN_OR_RETURN(client_, PsClient::Make(std::move(client)));
  LOCKSTEP_ASSIGN_OR_RETURN(parameters_, trainer_->ReadValues(TensorKind::kParameter));

  LOCKSTEP_ASSIGN_OR_RETURN(const PulledCounts counts, AwaitSeeded());
  for (const auto& facts : counts.facts) {
    if (facts->note != counts.facts.front()->note) {
      return Error(ErrorCode::kInternal, "the shards did not start from the same state");
    }
  }
  LOCKSTEP_RETURN_IF_ERROR(trainer_->TakeHead(counts.facts.front()->note, counts.least));
  skipped_ = trainer_->steps_skipped();
  deal_.start = trainer_->last_applied().value();
  end_ = trainer_->last_step();
  gate_ = counts.gate + skipped_;
  shares_done_ = counts.sequence;
  sums_at_start_ = trainer_->sums();
  start_ = trainer_->cursor();
  own_next_ = {deal_.start + 1, start_};
  all_next_ = own_next_;
  to_tell_ = own_next_;
  used_before_ = {{start_.data_epoch, start_.position}};
  for (const auto& [data_epoch, sums] : counts.facts.front()->sums) {
    used_before_[data_epoch] += sums.sample_count;
  }
  observer_->TrainsAlone();
  options_.logger->Info("the rank starts its share of the training",
                        {{"rank", rank_},
                         {"start_step", deal_.start},
                         {"last_step", end_},
                         {"shares_done", shares_done_}});
  return OkStatus();
}

// Pulls until all shards have values, which rank 0 gives them where they have none.
Result<PulledCounts> PsTraining::AwaitSeeded() {
  const PsLimits limits = Soon();
  while (true) {
    Result<PulledCounts> counts = client_->Pull(parameters_, {}, {false, true, 0, 0}, limits);
    if (counts.ok() || counts.error().code() != ErrorCode::kNotFound) {
      return counts;
    }
    if (IsChief()) {
      LOCKSTEP_RETURN_IF_ERROR(SeedShards());
    } else if (limits.deadline.HasPassed(SteadyNow())) {
      return Error(ErrorCode::kTimeout,
                   "rank 0 did not send the shards their first values in time");
    } else {
      std::this_thread::sleep_for(kValuesLookInterval);
    }
  }
}

Status PsTraining::SeedShards() {
  LOCKSTEP_RETURN_IF_ERROR(trainer_->TakeOwnState());
  const int64_t step = trainer_->last_applied().value();
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<float> parameters,
                            trainer_->ReadValues(TensorKind::kParameter));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<float> slots,
                            trainer_->ReadValues(TensorKind::kOptimizerSlot));
  const int64_t skipped = trainer_->steps_skipped();
  return client_->Seed(parameters,
                       slots,
                       {step - skipped,
                        trainer_->NextSave(step) - skipped,
                        trainer_->TellHead(options_.environment.world_size)},
                       Soon());
}

Result<TrainerVerdict> PsTraining::TrainShares(GradientReducer* alone) {
  while (true) {
    const int64_t share = shares_done_ + 1;
    const int64_t update = UpdateOfShare(deal_, rank_, share);
    if (IsChief() && update > gate_) {
      const int64_t reached = gate_;
      LOCKSTEP_RETURN_IF_ERROR(ReachGate());
      if (reached == end_) {
        return TrainerVerdict::kFinished;
      }
    } else if (update > end_) {
      return AwaitTheOthers();
    } else {
      LOCKSTEP_RETURN_IF_ERROR(TrainShare(share, alone));
    }
  }
}

// Until all updates are made. A worker that asks for that is waited for by nobody.
Result<TrainerVerdict> PsTraining::AwaitTheOthers() {
  LOCKSTEP_ASSIGN_OR_RETURN(
      [[maybe_unused]] const PulledCounts counts,
      client_->Pull(parameters_, {}, {false, false, 0, end_ - skipped_}, WhileOthersWork()));
  return TrainerVerdict::kFinished;
}

Status PsTraining::TrainShare(int64_t share, GradientReducer* alone) {
  const int64_t update = UpdateOfShare(deal_, rank_, share);
  MoveTo(update, &own_next_);
  const DataCursor& cursor = own_next_.cursor;
  const bool has_epochs_to_tell = IsChief() && to_tell_.cursor.data_epoch < cursor.data_epoch;
  LOCKSTEP_ASSIGN_OR_RETURN(
      const PulledCounts counts,
      client_->Pull(
          parameters_, {}, {false, has_epochs_to_tell, update - skipped_, 0}, WhileOthersWork()));
  if (has_epochs_to_tell) {
    TellDataEpochs(*counts.facts.front());
  }
  LOCKSTEP_RETURN_IF_ERROR(trainer_->WriteValues(parameters_, {}));
  LOCKSTEP_ASSIGN_OR_RETURN(const StepOutcome computed,
                            trainer_->ComputeShare(cursor, update, alone));
  if (!trainer_->trouble().empty()) {
    return Error(ErrorCode::kAborted, trainer_->trouble());
  }
  const int64_t samples =
      trainer_->CursorAfter(cursor, 1).samples_consumed - cursor.samples_consumed;
  const StepSums sums{
      cursor.data_epoch, computed.sums.loss_sum, computed.sums.correct_count, samples};
  LOCKSTEP_ASSIGN_OR_RETURN(const std::span<const float> gradients, trainer_->ReadGradients());
  LOCKSTEP_RETURN_IF_ERROR(client_->Push(gradients, {share, sums}, Soon()));
  shares_done_ = share;
  if (own_.data_epoch != cursor.data_epoch) {
    own_ = EpochSums{cursor.data_epoch, 0, 0, 0};
  }
  own_.loss_sum += sums.loss_sum;
  own_.correct_count += sums.correct_count;
  own_.sample_count += samples;
  // Each shard has this push behind what was pulled: whoever comes next finds at least that.
  const int64_t made = counts.least + skipped_ + 1;
  MoveTo(made + 1, &all_next_);
  trainer_->ReportShare({made, all_next_.cursor.samples_consumed},
                        cursor,
                        own_,
                        sums.loss_sum / static_cast<double>(samples));
  return OkStatus();
}

// Waits until all updates up to the gate are made, takes the state that the shards then have, saves
// it, and opens the gate. Who was replaced meanwhile cannot open it, and finds it open if its
// predecessor did.
Status PsTraining::ReachGate() {
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<float> slots,
                            trainer_->ReadValues(TensorKind::kOptimizerSlot));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const PulledCounts counts,
      client_->Pull(parameters_, slots, {true, true, 0, gate_ - skipped_}, WhileOthersWork()));
  LOCKSTEP_RETURN_IF_ERROR(CheckCounts(counts));
  TellDataEpochs(*counts.facts.front());
  const EpochSums sums = SumsAtGate(*counts.facts.front());
  LOCKSTEP_RETURN_IF_ERROR(trainer_->WriteValues(parameters_, slots));
  LOCKSTEP_RETURN_IF_ERROR(trainer_->CountUpTo(Step(gate_), sums));
  observer_->SamplesCounted(trainer_->SampleTotalsNow());
  if (gate_ == end_) {
    trainer_->HoldState();
    return OkStatus();
  }
  LOCKSTEP_RETURN_IF_ERROR(trainer_->SaveCounted(options_.environment.world_size));
  const int64_t next = trainer_->NextSave(gate_);
  LOCKSTEP_RETURN_IF_ERROR(client_->Open(next - skipped_, Soon()));
  gate_ = next;
  return OkStatus();
}

// Each shard says by itself how often each worker's shares were applied, and on how many samples.
Status PsTraining::CheckCounts(const PulledCounts& counts) {
  const int64_t samples =
      trainer_->CursorAfter(start_, gate_ - deal_.start).samples_consumed - start_.samples_consumed;
  const int64_t updates = gate_ - skipped_;
  bool is_exact = counts.least == updates && counts.most == updates;
  for (const auto& facts : counts.facts) {
    is_exact = is_exact && facts->sample_count == samples;
    for (int worker = 0; worker < deal_.worker_count; ++worker) {
      const auto found = facts->sequences.find(worker);
      const int64_t applied = found == facts->sequences.end() ? 0 : found->second;
      is_exact = is_exact && applied == SharesUpTo(deal_, worker, gate_);
    }
  }
  if (is_exact) {
    return OkStatus();
  }
  is_inexact_ = true;
  trainer_->SayInexact("at step " + std::to_string(gate_) + " the shards have " +
                       std::to_string(counts.least) + " to " + std::to_string(counts.most) +
                       " updates, which does not match the steps that the workers have done");
  return Error(ErrorCode::kInternal, trainer_->trouble());
}

EpochSums PsTraining::SumsAtGate(const ShardFacts& facts) const {
  if (gate_ == deal_.start) {
    return sums_at_start_;
  }
  return SumsOf(trainer_->CursorAfter(start_, gate_ - deal_.start - 1).data_epoch, facts);
}

// Of all workers, and of those before this training.
EpochSums PsTraining::SumsOf(int64_t data_epoch, const ShardFacts& facts) const {
  EpochSums sums{data_epoch, 0, 0, 0};
  if (sums_at_start_.data_epoch == data_epoch) {
    sums = sums_at_start_;
  }
  if (const auto found = facts.sums.find(data_epoch); found != facts.sums.end()) {
    sums.loss_sum += found->second.loss_sum;
    sums.correct_count += found->second.correct_count;
    sums.sample_count += found->second.sample_count;
  }
  return sums;
}

// Oldest first, up to the first that some worker still has shares of. `facts` are of one shard:
// each has all pushes.
void PsTraining::TellDataEpochs(const ShardFacts& facts) {
  while (to_tell_.update <= end_) {
    const UpdatePlace next = NextDataEpoch(to_tell_);
    const int64_t data_epoch = to_tell_.cursor.data_epoch;
    const int64_t samples = next.cursor.samples_consumed - to_tell_.cursor.samples_consumed;
    const EpochStanding standing = StandingOf(data_epoch, samples, facts.sums);
    if (standing == EpochStanding::kUnderWay) {
      return;
    }
    if (standing == EpochStanding::kOver) {
      const int64_t samples_end = to_tell_.cursor.position + samples;
      DataEpochResult result =
          trainer_->DataEpochOf(SumsOf(data_epoch, facts), Step(next.update - 1), samples_end);
      if (const auto before = used_before_.find(data_epoch);
          before != used_before_.end() && before->second > 0) {
        result.timed_sample_count = samples_end - before->second;
      }
      observer_->DataEpochOver(result);
    }
    to_tell_ = next;
  }
}

// Where the data epoch after that at `place` begins, or the training is over.
PsTraining::UpdatePlace PsTraining::NextDataEpoch(UpdatePlace place) const {
  const int64_t data_epoch = place.cursor.data_epoch;
  while (place.cursor.data_epoch == data_epoch && place.update <= end_) {
    MoveTo(place.update + 1, &place);
  }
  return place;
}

void PsTraining::MoveTo(int64_t update, UpdatePlace* place) const {
  *place = {update, trainer_->CursorAfter(place->cursor, update - place->update)};
}

}  // namespace lockstep::runtime
