#include "trainer-runtime/checkpoint/checkpoint_directory.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/digest.h"
#include "common/base/io/file.h"
#include "trainer-runtime/checkpoint/directory_lock.h"
#include "trainer-runtime/checkpoint/fence.h"
#include "trainer-runtime/checkpoint/lasting_files.h"
#include "trainer-runtime/checkpoint/manifest.h"
#include "trainer-runtime/checkpoint/model_folders.h"
#include "trainer-runtime/checkpoint/safetensors.h"

namespace lockstep::runtime {
namespace {

constexpr const char* kTensorsFile = "tensors.safetensors";
constexpr const char* kManifestFile = "manifest.json";
constexpr const char* kFenceFile = "fence.json";
constexpr std::string_view kTemporaryPrefix = ".tmp-";

constexpr std::size_t kManifestBytesMax = 1 << 20;  // choice: a thousand times a real one

// A lock is held for a handful of system calls; a longer wait means its holder is stopped.
constexpr std::chrono::seconds kLockTimeout{5};

// The step of a folder named "step-00000100".
std::optional<Step> ParseStepName(std::string_view name) {
  if (name.substr(0, kStepPrefix.size()) != kStepPrefix) {
    return std::nullopt;
  }
  name.remove_prefix(kStepPrefix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0) {
    return std::nullopt;
  }
  return Step(step);
}

Result<std::vector<std::string>> ListNames(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entries(directory, error);
  while (!error && entries != std::filesystem::directory_iterator()) {
    names.push_back(entries->path().filename().string());
    entries.increment(error);
  }
  if (error) {
    return SystemError(error.value(), "list folder " + directory);
  }
  return names;
}

// Steps that have a folder, highest first.
Result<std::vector<Step>> ListSteps(const std::string& directory) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListNames(directory));
  std::vector<Step> steps;
  for (const std::string& name : names) {
    if (const std::optional<Step> step = ParseStepName(name)) {
      steps.push_back(*step);
    }
  }
  std::sort(steps.rbegin(), steps.rend());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

// Whether a checkpoint's error means that it is not whole, rather than that nobody can say.
bool IsDamage(ErrorCode code) {
  return code == ErrorCode::kCorrupt || code == ErrorCode::kNotFound;
}

Result<Fence> ReadFence(const std::string& directory) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text,
                            ReadBounded(directory + "/" + kFenceFile, kManifestBytesMax));
  return DecodeFence(text);
}

Result<Manifest> ReadManifest(const std::string& folder) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text,
                            ReadBounded(folder + "/" + kManifestFile, kManifestBytesMax));
  return DecodeManifest(text);
}

}  // namespace

CheckpointDirectory::CheckpointDirectory(CheckpointDirectoryOptions options)
    : options_(std::move(options)), token_(RandomHex(8)) {}

Status CheckpointDirectory::Claim(const WriterIdentity& writer) {
  {
    // Before the fence rises: a save of ours under way must not find itself outdated by it.
    const std::lock_guard guard(mutex_);
    claimed_ = writer;
    owes_fence_ = true;
  }
  return RaiseFence();
}

Status CheckpointDirectory::RaiseFence() {
  if (options_.makes_anew) {
    LOCKSTEP_RETURN_IF_ERROR(MakeLastingDirectories(options_.directory));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      const DirectoryLock lock,
      DirectoryLock::Acquire(options_.directory, Deadline::After(SteadyNow(), kLockTimeout)));
  const WriterIdentity writer = ClaimedIdentity();  // under the lock: of two, the newer
  const Result<Fence> fence = ReadFence(options_.directory);
  if (!fence.ok() && fence.error().code() == ErrorCode::kCorrupt) {
    // Whoever claims has met all ranks, so nobody newer can have written it.
    options_.logger->Warn("fence.json is damaged and will be replaced",
                          {{"directory", options_.directory}, {"error", fence.error().ToString()}});
  } else if (!fence.ok() && fence.error().code() != ErrorCode::kNotFound) {
    return fence.error();
  } else if (fence.ok()) {
    LOCKSTEP_RETURN_IF_ERROR(MayFollow(writer, *fence, options_.directory));
    const bool is_other_job = fence->writer.job_uid != writer.job_uid;
    if (is_other_job && options_.other_job == OtherJobPolicy::kRefuse) {
      return Error(ErrorCode::kAlreadyExists,
                   options_.directory + " holds the checkpoints of job " + fence->writer.job_uid +
                       ", expected an empty folder or the checkpoints of job " + writer.job_uid);
    }
    if (is_other_job && HasHeldFence()) {
      return LostTo(fence->writer.job_uid, options_.directory);
    }
  }
  const Fence next = fence.ok() ? FenceAfter(*fence, writer) : Fence{writer, {}};
  LOCKSTEP_RETURN_IF_ERROR(WriteFileAtomically(options_.directory + "/" + kFenceFile,
                                               EncodeFence(next, options_.key_order)));
  NoteFence(writer);
  // Whoever else saves in the same name, as of a gang that has lost its chief, is not dead.
  return fence.ok() && fence->writer == writer ? OkStatus() : RemoveHalfDone();
}

bool CheckpointDirectory::OwesFence() const {
  const std::lock_guard guard(mutex_);
  return owes_fence_;
}

// Whether somebody has removed the folder, or all that was in it, since the claim: the next save
// makes it anew. That another job had claimed it since is gone with the fence.
bool CheckpointDirectory::IsGone() const {
  if (!options_.makes_anew) {
    return false;
  }
  std::error_code error;
  const auto kind = std::filesystem::status(options_.directory, error).type();
  if (kind != std::filesystem::file_type::not_found &&
      kind != std::filesystem::file_type::directory) {
    return false;  // something else is in its place, and stays there
  }
  const bool is_gone = !std::filesystem::exists(options_.directory + "/" + kFenceFile, error);
  if (is_gone && !error) {
    options_.logger->Warn(
        "somebody removed the content of the checkpoint directory; it is created again",
        {{"directory", options_.directory}});
  }
  return is_gone && !error;
}

bool CheckpointDirectory::HasHeldFence() const {
  const std::lock_guard guard(mutex_);
  return has_held_fence_;
}

// The fence stands as `writer`; one who has claimed since still owes his own.
void CheckpointDirectory::NoteFence(const WriterIdentity& writer) {
  const std::lock_guard guard(mutex_);
  has_held_fence_ = true;
  owes_fence_ = claimed_ != writer;
}

// What dead writers left.
Status CheckpointDirectory::RemoveHalfDone() const {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListNames(options_.directory));
  for (const std::string& name : names) {
    const bool is_temporary = name.compare(0, kTemporaryPrefix.size(), kTemporaryPrefix) == 0;
    if (is_temporary && name.find(token_) == std::string::npos) {
      RemoveFolder(options_.directory + "/" + name);
    }
  }
  return OkStatus();
}

WriterIdentity CheckpointDirectory::ClaimedIdentity() const {
  const std::lock_guard guard(mutex_);
  return claimed_;
}

struct CheckpointDirectory::Content {
  const Manifest& manifest;
  std::span<const TensorSlice> tensors;
  const SafetensorsMetadata& metadata;
};

Result<int64_t> CheckpointDirectory::Publish(const Manifest& manifest,
                                             std::span<const TensorSlice> tensors,
                                             const SafetensorsMetadata& metadata) {
  const Content content{manifest, tensors, metadata};
  Result<int64_t> bytes = TryPublish(content);
  // Somebody has removed the folder in the midst of it, and the last save has no next one.
  const bool is_interrupted = !bytes.ok() && bytes.error().code() == ErrorCode::kNotFound;
  return is_interrupted && IsGone() ? TryPublish(content) : std::move(bytes);
}

Result<int64_t> CheckpointDirectory::TryPublish(const Content& content) {
  const Step step = content.manifest.step;
  const std::string folder = TemporaryPath("save");
  Result<int64_t> bytes = int64_t{0};
  if (Status raised = OwesFence() || IsGone() ? RaiseFence() : OkStatus(); !raised.ok()) {
    bytes = std::move(raised).error();
  } else {
    bytes = WriteFiles(folder, content);
  }
  if (bytes.ok()) {
    Status visible = MakeVisible(folder, step);
    if (!visible.ok()) {
      bytes = std::move(visible).error();
    }
  }
  RemoveFolder(folder);  // what failed, or what stood at this step before
  if (!bytes.ok()) {
    return std::move(bytes).error().Wrap("checkpoint of step " + std::to_string(step.value()));
  }
  RemoveOld(step);
  return bytes;
}

Result<int64_t> CheckpointDirectory::WriteFiles(const std::string& folder,
                                                const Content& content) const {
  const std::string file = EncodeSafetensors(content.tensors, content.metadata);
  Manifest manifest = content.manifest;
  manifest.writer = ClaimedIdentity();
  manifest.tensors_file = kTensorsFile;
  manifest.tensors_bytes = file.size();
  manifest.tensors_sha256 = Sha256Hex(file);
  manifest.created = FormatRfc3339(options_.clock->WallNow());

  std::error_code error;
  std::filesystem::create_directory(folder, error);
  if (error) {
    return WithRoom(SystemError(error.value(), "create folder " + folder), folder, file.size());
  }
  // Each is flushed with its folder entry before the next begins; the rename comes after both.
  LOCKSTEP_RETURN_IF_ERROR(WriteFileAtomically(folder + "/" + kTensorsFile, file));
  LOCKSTEP_RETURN_IF_ERROR(WriteFileAtomically(folder + "/" + kManifestFile,
                                               EncodeManifest(manifest, options_.key_order)));
  return static_cast<int64_t>(file.size());
}

Status CheckpointDirectory::MakeVisible(const std::string& folder, Step step) const {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const DirectoryLock lock,
      DirectoryLock::Acquire(options_.directory, Deadline::After(SteadyNow(), kLockTimeout)));
  LOCKSTEP_ASSIGN_OR_RETURN(const Fence fence, ReadFence(options_.directory));
  LOCKSTEP_RETURN_IF_ERROR(MayWrite(ClaimedIdentity(), fence, options_.directory));
  LOCKSTEP_RETURN_IF_ERROR(Exchange(folder, PathOf(step)));
  return FlushFolder(options_.directory);
}

std::optional<WriterIdentity> CheckpointDirectory::WriterOf(Step step) const {
  const Soundness soundness = Look(step);
  const Result<Manifest> manifest = ReadManifest(FolderOf(step));
  const bool is_whole = soundness == Soundness::kFinite || soundness == Soundness::kNotFinite;
  return is_whole && manifest.ok() ? std::optional(manifest->writer) : std::nullopt;
}

bool CheckpointDirectory::Holds(Step step, const WriterIdentity& writer) const {
  const std::optional<WriterIdentity> its = WriterOf(step);
  return its && its->job_uid == writer.job_uid && !Outranks(writer, *its);
}

Result<bool> CheckpointDirectory::TakeNewest(const Wanted& wanted,
                                             const CheckpointTaker& take) const {
  constexpr int kTriesMax = 10;  // choice: a try fails where a job removes all before they are read
  Result<bool> taken = TryTakeNewest(wanted, take);
  for (int tries = 1;
       tries < kTriesMax && !taken.ok() && taken.error().code() == ErrorCode::kUnavailable;
       ++tries) {
    taken = TryTakeNewest(wanted, take);
  }
  return taken;
}

Result<bool> CheckpointDirectory::TryTakeNewest(const Wanted& wanted,
                                                const CheckpointTaker& take) const {
  Result<std::vector<Step>> listed = ListSteps(options_.directory);
  if (!listed.ok() && listed.error().code() == ErrorCode::kNotFound) {
    return false;
  }
  if (!listed.ok()) {
    return std::move(listed).error().Wrap(options_.directory + " cannot be read");
  }
  const std::optional<Step> oldest_own = OldestOwn(*listed);
  std::optional<Error> first_damage;
  bool are_removed = false;
  bool is_skipped = false;
  for (const Step step : *listed) {
    if (wanted.below && step >= *wanted.below) {
      continue;
    }
    Result<FoundCheckpoint> found = Read(step, oldest_own);
    Status taken = found.ok() ? take(std::move(found).value()) : Status(found.error());
    if (taken.ok()) {
      return true;
    }
    std::error_code ignored;
    const ErrorCode code = taken.error().code();
    if (code == ErrorCode::kNotFound && !std::filesystem::exists(FolderOf(step), ignored)) {
      are_removed = true;  // by a job that trains, since they were listed
      continue;
    }
    if (!IsDamage(code) && code != ErrorCode::kAlreadyExists) {
      // It may be whole: going on from an older one would undo finished work without a word.
      return std::move(taken).error().Wrap("the newest checkpoint, " + PathOf(step) +
                                           ", cannot be read");
    }
    options_.logger->Warn("checkpoint skipped",
                          {{"path", PathOf(step)}, {"error", taken.error().ToString()}});
    is_skipped = true;
    if (IsDamage(code) && !first_damage) {
      first_damage = std::move(taken).error().Wrap(PathOf(step));
    }
  }
  if (first_damage) {
    // To begin at step 0 beside finished work is for its owner to say.
    return Error(ErrorCode::kCorrupt,
                 "no checkpoint in " + options_.directory + " can be used" +
                     (wanted.is_to_go_on ? "; move that folder away to begin at step 0" : "") +
                     ": " + first_damage->ToString());
  }
  if (are_removed && !is_skipped) {
    return Error(ErrorCode::kUnavailable,
                 options_.directory + ": all checkpoints were removed while they were read");
  }
  return false;
}

// Of the checkpoints of `steps`, newest first, the oldest that this job wrote.
std::optional<Step> CheckpointDirectory::OldestOwn(const std::vector<Step>& steps) const {
  std::optional<Step> oldest;
  for (const Step step : steps) {
    const Result<Manifest> manifest = ReadManifest(FolderOf(step));
    if (manifest.ok() && manifest->writer.job_uid == options_.job_uid) {
      oldest = step;
    }
  }
  return oldest;
}

// `oldest_own`: this job has written that one. It began from the newest that could be used, so that
// another job's of a higher step came later.
Result<FoundCheckpoint> CheckpointDirectory::Read(Step step, std::optional<Step> oldest_own) const {
  const std::string folder = FolderOf(step);
  std::error_code error;
  if (std::filesystem::exists(folder, error) && !std::filesystem::is_directory(folder, error)) {
    return Error(ErrorCode::kCorrupt, "it is not a folder");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(folder));
  if (manifest.step != step) {
    return Error(ErrorCode::kCorrupt,
                 "manifest: step: " + std::to_string(manifest.step.value()) + " found, expected " +
                     std::to_string(step.value()));
  }
  const bool came_later = oldest_own && step > *oldest_own;
  if (manifest.writer.job_uid != options_.job_uid &&
      (came_later || options_.other_job == OtherJobPolicy::kRefuse)) {
    return Error(ErrorCode::kAlreadyExists,
                 "written by job " + manifest.writer.job_uid + ", expected " + options_.job_uid);
  }
  const std::string path = folder + "/" + manifest.tensors_file;
  LOCKSTEP_ASSIGN_OR_RETURN(std::string file, ReadBounded(path, manifest.tensors_bytes));
  if (file.size() != manifest.tensors_bytes) {
    return Error(ErrorCode::kCorrupt,
                 path + " has " + std::to_string(file.size()) + " bytes, expected " +
                     std::to_string(manifest.tensors_bytes));
  }
  const std::string hash = Sha256Hex(file);
  if (hash != manifest.tensors_sha256) {
    return Error(ErrorCode::kCorrupt,
                 path + " hashes to " + hash + ", expected " + manifest.tensors_sha256);
  }
  return FoundCheckpoint{folder, std::move(manifest), std::move(file)};
}

// Without hashing the tensors, which would read every kept checkpoint on each save.
CheckpointDirectory::Soundness CheckpointDirectory::Look(Step step) const {
  const Result<Manifest> manifest = ReadManifest(FolderOf(step));
  if (!manifest.ok()) {
    return IsDamage(manifest.error().code()) ? Soundness::kDamaged : Soundness::kUnreadable;
  }
  const std::string path = FolderOf(step) + "/" + manifest->tensors_file;
  std::error_code error;
  const std::filesystem::file_type kind = std::filesystem::status(path, error).type();
  if (kind == std::filesystem::file_type::none) {
    return Soundness::kUnreadable;
  }
  if (kind != std::filesystem::file_type::regular ||
      std::filesystem::file_size(path, error) != manifest->tensors_bytes) {
    return Soundness::kDamaged;
  }
  return manifest->is_finite ? Soundness::kFinite : Soundness::kNotFinite;
}

void CheckpointDirectory::RemoveOld(Step newest) const {
  const Result<std::vector<Step>> steps = ListSteps(options_.directory);
  if (!steps.ok()) {
    options_.logger->Warn("old checkpoints cannot be listed, so none is removed",
                          {{"error", steps.error().ToString()}});
    return;
  }
  int kept = 0;
  bool has_finite = false;
  for (const Step step : *steps) {
    if (step > newest) {
      continue;  // it is damaged, or this run would have started from it
    }
    const Soundness soundness = Look(step);
    // The newest finite one is what a run gone wild can start from again.
    const bool is_last_resort = soundness == Soundness::kFinite && !has_finite;
    has_finite = has_finite || is_last_resort;
    const bool is_whole = soundness == Soundness::kFinite || soundness == Soundness::kNotFinite;
    if (soundness == Soundness::kUnreadable || is_last_resort ||
        (is_whole && kept < options_.keep_count) || step == newest) {
      kept += is_whole ? 1 : 0;
      continue;  // the newest was whole a moment ago: somebody is removing it
    }
    // Renamed first, so that a kill in the middle leaves no half checkpoint under its name.
    const std::string folder = TemporaryPath("remove-" + std::to_string(step.value()));
    if (::rename(FolderOf(step).c_str(), folder.c_str()) == 0) {
      RemoveFolder(folder);
    }
  }
}

void CheckpointDirectory::RemoveFolder(const std::string& path) const {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) {
    options_.logger->Warn("cannot remove a folder of the checkpoint directory",
                          {{"path", path}, {"error", error.message()}});
  }
}

std::string CheckpointDirectory::PathOf(Step step) const {
  constexpr std::size_t kDigits = 8;  // so that names sort like steps up to 100 million
  std::string digits = std::to_string(step.value());
  digits.insert(0, digits.size() < kDigits ? kDigits - digits.size() : 0, '0');
  return options_.directory + "/" + std::string(kStepPrefix) + digits;
}

std::string CheckpointDirectory::FolderOf(Step step) const {
  const std::string path = PathOf(step);
  std::error_code error;
  const bool is_aside = std::filesystem::exists(AsideOf(path), error) &&
                        !std::filesystem::exists(path, error) && !error;
  return is_aside ? AsideOf(path) : path;
}

std::string CheckpointDirectory::TemporaryPath(const std::string& purpose) const {
  return options_.directory + "/" + std::string(kTemporaryPrefix) + token_ + "-" + purpose;
}

}  // namespace lockstep::runtime
