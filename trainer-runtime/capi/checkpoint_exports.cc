// The checkpoints of lockstep.h: arguments are checked here, the work is CheckpointDirectory's.

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/time.h"
#include "common/json/json.h"
#include "trainer-runtime/capi/call_guard.h"
#include "trainer-runtime/checkpoint/checkpoint_directory.h"
#include "trainer-runtime/checkpoint/lasting_files.h"

namespace lockstep::runtime {
namespace {

// Hands what is logged to the program, each line as one sentence.
class ReportLogger final : public Logger {
 public:
  explicit ReportLogger(lockstep_checkpoint_report report) : report_(report) {}

  void Log(LogLevel /*level*/, std::string_view message, LogFields fields) override {
    std::string sentence(message);
    for (const LogField& field : fields) {
      sentence += ": " + field.value;
    }
    if (report_ != nullptr) {
      report_(sentence.c_str());
    }
  }

 private:
  lockstep_checkpoint_report report_;
};

// A checkpoint that the program reads, and the memory that it points into.
struct Reading : lockstep_checkpoint {
  FoundCheckpoint found;
  std::string settings_text;
  std::string description_text;
  std::vector<TensorSlice> slices;
  std::vector<lockstep_tensor> parts;
};

}  // namespace
}  // namespace lockstep::runtime

namespace run = lockstep::runtime;

struct lockstep_checkpoint_store {
  explicit lockstep_checkpoint_store(lockstep_checkpoint_report report) : logger(report) {}

  run::ReportLogger logger;
  lockstep::SystemClock clock;
  std::string program;
  bool has_claimed = false;
  run::CheckpointDirectoryOptions options;
  std::optional<run::CheckpointDirectory> files;  // uses what stands before it
};

namespace lockstep::runtime {
namespace {

// How a call ended on files that others may damage, remove or take over.
ApiOutcome FilesOutcome(const Error& error) {
  ApiOutcome outcome = OutcomeOf(error);
  if (error.code() == ErrorCode::kCorrupt) {
    outcome.status = LOCKSTEP_ERROR_DAMAGED;
  } else if (error.code() == ErrorCode::kAlreadyExists && error.system_number() == 0) {
    outcome.status = LOCKSTEP_ERROR_TAKEN_OVER;
  } else if (error.code() != ErrorCode::kStale && error.code() != ErrorCode::kMismatch) {
    outcome.status = LOCKSTEP_ERROR_SYSTEM;
  }
  return outcome;
}

// Runs `work`, which needs `argument`, on the store.
template <typename Work>
lockstep_status OnStore(lockstep_checkpoint_store* store,
                        const void* argument,
                        const Work& work) noexcept {
  return Guarded([&] {
    return store == nullptr || argument == nullptr ? InvalidArgument("an argument is null")
                                                   : work(*store);
  });
}

// Errors: kInvalidArgument, by the name of one that is negative.
Status CheckCounts(std::initializer_list<std::pair<const char*, int64_t>> counts) {
  for (const auto& [name, count] : counts) {
    if (count < 0) {
      return Error(ErrorCode::kInvalidArgument,
                   std::string(name) + ": " + std::to_string(count) + " found, expected 0 or more");
    }
  }
  return OkStatus();
}

Status CheckName(const WriterIdentity& writer) {
  return CheckCounts({{"attempt", writer.attempt.value()},
                      {"epoch", writer.epoch.value()},
                      {"incarnation", writer.incarnation.value()}});
}

// Errors: kInvalidArgument, by the field's name.
Result<Manifest> ManifestOf(const lockstep_checkpoint& given, const std::string& program) {
  LOCKSTEP_RETURN_IF_ERROR(CheckCounts({{"step", given.step},
                                        {"data_epoch", given.data_epoch},
                                        {"position", given.position},
                                        {"samples_consumed", given.samples_consumed},
                                        {"world_size", given.world_size}}));
  const Result<Json> settings = ParseJson(given.settings == nullptr ? "" : given.settings);
  if (!settings.ok() || !settings->is_object()) {
    return Error(ErrorCode::kInvalidArgument, "settings: expected a JSON object");
  }
  Json fingerprint = Json::object();
  fingerprint[program] = *settings;
  Manifest manifest;
  manifest.step = Step(given.step);
  manifest.cursor = {given.data_epoch, given.position, given.samples_consumed};
  manifest.seed = given.seed;
  manifest.world_size = given.world_size;
  manifest.fingerprint = DumpJson(fingerprint);
  manifest.sums.data_epoch = given.data_epoch;
  manifest.is_finite = given.is_finite != 0;
  return manifest;
}

// Errors: kInvalidArgument, by the tensor's name.
Result<std::vector<TensorSlice>> SlicesOf(const lockstep_checkpoint& given) {
  std::vector<TensorSlice> slices;
  if (given.tensors == nullptr && given.tensor_count > 0) {
    return Error(ErrorCode::kInvalidArgument, "tensors is null");
  }
  for (uint64_t i = 0; i < given.tensor_count; ++i) {
    const lockstep_tensor& tensor = given.tensors[i];
    if (tensor.name == nullptr || tensor.type == nullptr ||
        (tensor.shape == nullptr && tensor.dimensions > 0) ||
        (tensor.data == nullptr && tensor.bytes > 0)) {
      return Error(ErrorCode::kInvalidArgument,
                   "tensors: element " + std::to_string(i) + " has a pointer that is null");
    }
    const std::optional<TensorType> type = TensorTypeOf(tensor.type);
    if (!type) {
      return Error(ErrorCode::kInvalidArgument,
                   std::string(tensor.name) + ": unknown type " + tensor.type);
    }
    slices.push_back({tensor.name,
                      *type,
                      {tensor.shape, tensor.shape + tensor.dimensions},
                      {static_cast<const char*>(tensor.data), tensor.bytes}});
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckTensors(slices));
  return slices;
}

ApiOutcome WriteCheckpoint(lockstep_checkpoint_store& store, const lockstep_checkpoint& given) {
  if (!store.has_claimed) {
    return InvalidArgument("the store was not claimed: call lockstep_checkpoint_claim first");
  }
  const Result<Manifest> manifest = ManifestOf(given, store.program);
  const Result<std::vector<TensorSlice>> slices = SlicesOf(given);
  if (!manifest.ok() || !slices.ok()) {
    return OutcomeOf(manifest.ok() ? slices.error() : manifest.error());
  }
  SafetensorsMetadata metadata = {{"format", "lockstep"}};
  if (given.description != nullptr) {
    metadata.emplace(store.program, given.description);
  }
  const Result<int64_t> bytes = store.files->Publish(*manifest, *slices, metadata);
  return bytes.ok() ? ApiOutcome() : FilesOutcome(bytes.error());
}

// Errors: kCorrupt.
Result<std::unique_ptr<Reading>> MakeReading(FoundCheckpoint found, const std::string& program) {
  auto reading = std::make_unique<Reading>();
  lockstep_checkpoint& view = *reading;
  reading->found = std::move(found);
  const Manifest& manifest = reading->found.manifest;
  SafetensorsMetadata metadata;
  LOCKSTEP_ASSIGN_OR_RETURN(reading->slices, DecodeSafetensors(reading->found.tensors, &metadata));
  for (const TensorSlice& slice : reading->slices) {
    reading->parts.push_back({slice.name.c_str(),
                              TensorTypeName(slice.type),
                              slice.shape.data(),
                              slice.shape.size(),
                              slice.bytes.data(),
                              slice.bytes.size()});
  }
  if (const auto its = metadata.find(program); its != metadata.end()) {
    reading->description_text = its->second;
    view.description = reading->description_text.c_str();
  }
  const Result<Json> fingerprint = ParseJson(manifest.fingerprint);
  if (fingerprint.ok() && fingerprint->contains(program)) {
    reading->settings_text = DumpJson(fingerprint->at(program));
    view.settings = reading->settings_text.c_str();
  }
  view.struct_size = sizeof(view);
  view.step = manifest.step.value();
  view.data_epoch = manifest.cursor.data_epoch;
  view.position = manifest.cursor.position.value_or(0);
  view.samples_consumed = manifest.cursor.samples_consumed;
  view.seed = manifest.seed;
  view.world_size = manifest.world_size;
  view.is_finite = manifest.is_finite ? 1 : 0;
  view.tensors = reading->parts.data();
  view.tensor_count = reading->parts.size();
  view.folder = reading->found.folder.c_str();
  return reading;
}

}  // namespace
}  // namespace lockstep::runtime

lockstep_status lockstep_checkpoint_open_store(const char* directory,
                                               const char* program,
                                               int keep,
                                               lockstep_checkpoint_report report,
                                               lockstep_checkpoint_store** store) {
  return run::Guarded([&]() -> run::ApiOutcome {
    if (store == nullptr || directory == nullptr || *directory == '\0' || program == nullptr ||
        keep < 0) {
      return run::InvalidArgument("an argument is null or empty, or keep is negative");
    }
    auto made = std::make_unique<lockstep_checkpoint_store>(report);
    made->program = program;
    made->options.directory = directory;
    made->options.keep_count = keep;
    made->options.other_job = run::OtherJobPolicy::kTakeOver;
    made->options.key_order = lockstep::KeyOrder::kSorted;
    made->options.makes_anew = false;
    made->options.logger = &made->logger;
    made->options.clock = &made->clock;
    made->files.emplace(made->options);
    *store = made.release();
    return {};
  });
}

lockstep_status lockstep_checkpoint_close_store(lockstep_checkpoint_store* store) {
  return run::Guarded([&]() -> run::ApiOutcome {
    const std::unique_ptr<lockstep_checkpoint_store> closed(store);
    return {};
  });
}

lockstep_status lockstep_checkpoint_make_directory(lockstep_checkpoint_store* store) {
  return run::OnStore(store, store, [](const lockstep_checkpoint_store& open) -> run::ApiOutcome {
    const std::string& directory = open.options.directory;
    const lockstep::Status made = run::MakeLastingDirectories(directory);
    return made.ok() ? run::ApiOutcome()
                     : run::InvalidArgument("directory: " + directory +
                                            " cannot be created: " + made.error().ToString());
  });
}

lockstep_status lockstep_checkpoint_claim(lockstep_checkpoint_store* store,
                                          const char* job_uid,
                                          int64_t attempt,
                                          int64_t epoch,
                                          int64_t incarnation) {
  return run::OnStore(store, job_uid, [&](lockstep_checkpoint_store& open) -> run::ApiOutcome {
    const run::WriterIdentity writer{job_uid,
                                     lockstep::Attempt(attempt),
                                     lockstep::Epoch(epoch),
                                     lockstep::Incarnation(incarnation)};
    if (const lockstep::Status sound = run::CheckName(writer); !sound.ok()) {
      return run::OutcomeOf(sound.error());
    }
    if (open.options.keep_count == 0) {
      return run::InvalidArgument("keep: 0 found, expected 1 or more to write");
    }
    if (writer.job_uid != open.options.job_uid) {
      open.options.job_uid = writer.job_uid;
      open.files.emplace(open.options);
    }
    open.has_claimed = true;
    const lockstep::Status claimed = open.files->Claim(writer);
    return claimed.ok() ? run::ApiOutcome() : run::FilesOutcome(claimed.error());
  });
}

lockstep_status lockstep_checkpoint_write(lockstep_checkpoint_store* store,
                                          const lockstep_checkpoint* checkpoint) {
  return run::OnStore(store, checkpoint, [&](lockstep_checkpoint_store& open) {
    const auto given = run::Read(checkpoint);
    return given.has_value() ? run::WriteCheckpoint(open, *given)
                             : run::InvalidArgument(run::SizeProblem("checkpoint"));
  });
}

lockstep_status lockstep_checkpoint_verify(lockstep_checkpoint_store* store,
                                           int64_t step,
                                           const char* job_uid,
                                           int64_t attempt,
                                           int64_t epoch,
                                           int64_t incarnation,
                                           int* found) {
  return run::OnStore(store, found, [&](const lockstep_checkpoint_store& open) -> run::ApiOutcome {
    const run::WriterIdentity writer{job_uid == nullptr ? "" : job_uid,
                                     lockstep::Attempt(attempt),
                                     lockstep::Epoch(epoch),
                                     lockstep::Incarnation(incarnation)};
    if (const auto sound = run::CheckCounts({{"step", step}}); !sound.ok()) {
      return run::OutcomeOf(sound.error());
    }
    const auto its = open.files->WriterOf(lockstep::Step(step));
    *found = (its ? 1 : 0) + (its == writer ? 1 : 0);
    return {};
  });
}

lockstep_status lockstep_checkpoint_open(lockstep_checkpoint_store* store,
                                         int64_t below,
                                         const lockstep_checkpoint** checkpoint) {
  return run::OnStore(
      store, checkpoint, [&](const lockstep_checkpoint_store& open) -> run::ApiOutcome {
        *checkpoint = nullptr;
        std::unique_ptr<run::Reading> newest;
        const run::Wanted wanted{lockstep::Step(below), open.options.keep_count > 0};
        const auto take = [&](run::FoundCheckpoint found) -> lockstep::Status {
          LOCKSTEP_ASSIGN_OR_RETURN(newest, run::MakeReading(std::move(found), open.program));
          return lockstep::OkStatus();
        };
        if (const auto taken = open.files->TakeNewest(wanted, take); !taken.ok()) {
          return run::FilesOutcome(taken.error());
        }
        *checkpoint = newest.release();
        return {};
      });
}

lockstep_status lockstep_checkpoint_close(const lockstep_checkpoint* checkpoint) {
  return run::Guarded([&]() -> run::ApiOutcome {
    const std::unique_ptr<const run::Reading> closed(static_cast<const run::Reading*>(checkpoint));
    return {};
  });
}
