// What a power cut and a sick disk leave of checkpoints, on a disk that keeps only what is flushed.

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "trainer-runtime/checkpoint/checkpoint_directory.h"
#include "trainer-runtime/checkpoint/checkpoint_test_support.h"
#include "trainer-runtime/checkpoint/testing/fake_disk.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class CheckpointDiskTest : public CheckpointTest {
 protected:
  CheckpointDirectory MakeDirectory(int keep_count = 3) {
    return CheckpointDirectory(DirectoryOptions("uid-1", keep_count, OtherJobPolicy::kRefuse));
  }

  CheckpointDirectoryOptions DirectoryOptions(const std::string& job_uid,
                                              int keep_count,
                                              OtherJobPolicy other_job) {
    CheckpointDirectoryOptions options;
    options.directory = directory_;
    options.job_uid = job_uid;
    options.keep_count = keep_count;
    options.other_job = other_job;
    options.logger = &log_;
    options.clock = &clock_;
    return options;
  }

  static WriterIdentity Writer() { return {"uid-1", Attempt(0), Epoch(1), Incarnation(0)}; }
};

TEST_F(CheckpointDiskTest, WhatIsSavedOutlivesThePower) {
  FakeDisk disk(root_);
  CheckpointDirectory directory = MakeDirectory();
  ASSERT_TRUE(directory.Claim(Writer()).ok());
  EXPECT_THAT(disk.AtRisk(), IsEmpty()) << "after the claim";
  for (const int64_t step : {10, 20, 20, 30, 40, 50}) {  // 20 twice: one takes the other's place
    ASSERT_TRUE(directory.Publish(SnapshotAt(step)).ok());
    EXPECT_THAT(disk.AtRisk(), IsEmpty()) << "after the save of step " << step;
  }
  EXPECT_THAT(disk.broken_promises(), IsEmpty());
}

// The test above can fail: each flush of the code is once left out, and is missed.
TEST_F(CheckpointDiskTest, EveryFlushIsNeeded) {
  const std::vector<std::pair<const char*, FakeDisk::PathTest>> flushes = {
      {"tensors", [](const std::string& path) { return path.find("/tensors.") < path.size(); }},
      {"manifest", [](const std::string& path) { return path.find("/manifest.") < path.size(); }},
      {"fence", [](const std::string& path) { return path.find("/fence.") < path.size(); }},
      {"folder of the save", [](const std::string& path) { return path.ends_with("-save"); }},
      {"checkpoint folder", [this](const std::string& path) { return path == directory_; }},
      {"folder above it", [this](const std::string& path) { return path == root_; }},
  };
  for (const auto& [name, is_left_out] : flushes) {
    std::filesystem::remove_all(directory_);
    FakeDisk disk(root_);
    disk.IgnoreFlushesOf(is_left_out);
    CheckpointDirectory directory = MakeDirectory();
    ASSERT_TRUE(directory.Claim(Writer()).ok());
    ASSERT_TRUE(directory.Publish(SnapshotAt(10)).ok());
    EXPECT_GT(disk.AtRisk().size() + disk.broken_promises().size(), 0U)
        << "nobody misses the flush of: " << name;
  }
}

// A crash at any moment of it leaves the only checkpoint that there is.
TEST_F(CheckpointDiskTest, StepThatIsWrittenAgainIsAlwaysThereAlsoWhereNothingCanBeExchanged) {
  FakeDisk disk(root_);
  CheckpointDirectory directory = MakeDirectory();
  ASSERT_TRUE(directory.Claim(Writer()).ok());
  ASSERT_TRUE(directory.Publish(SnapshotAt(10)).ok());
  int renames = 0;
  disk.RefuseExchanges([&] {
    ++renames;
    const Result<std::optional<Snapshot>> newest = MakeDirectory().LoadNewest();
    ASSERT_TRUE(newest.ok() && newest->has_value()) << "after rename " << renames;
    EXPECT_EQ(**newest, SnapshotAt(10)) << "after rename " << renames;
  });
  ASSERT_TRUE(directory.Publish(SnapshotAt(10)).ok());
  EXPECT_GE(renames, 3);
  EXPECT_THAT(disk.AtRisk(), IsEmpty());
  EXPECT_THAT(Names(), testing::ElementsAre("fence.json", "step-00000010"));
}

TEST_F(CheckpointDiskTest, FolderThatIsRemovedInTheMidstOfASaveIsMadeAnewForIt) {
  FakeDisk disk(root_);
  CheckpointDirectory directory = MakeDirectory();
  ASSERT_TRUE(directory.Claim(Writer()).ok());
  bool is_removed = false;
  disk.IgnoreFlushesOf([&](const std::string& path) {
    if (!is_removed && path.find("/tensors.") < path.size()) {
      is_removed = true;
      std::filesystem::remove_all(directory_);
    }
    return false;
  });
  const Result<int64_t> saved = directory.Publish(SnapshotAt(10));
  EXPECT_TRUE(is_removed);
  EXPECT_TRUE(saved.ok()) << saved.error().ToString();
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/step-00000010/manifest.json"));
}

// The lowest rank that is left of a gang saves in the name of its chief, who may be saving, too.
TEST_F(CheckpointDiskTest, TwoThatSaveInOneNameAreNotInEachOthersWay) {
  FakeDisk disk(root_);
  CheckpointDirectory chief = MakeDirectory();
  CheckpointDirectory other = MakeDirectory();
  ASSERT_TRUE(chief.Claim(Writer()).ok());
  bool has_claimed = false;
  disk.IgnoreFlushesOf([&](const std::string& path) {
    if (!has_claimed && path.find("/manifest.") < path.size()) {
      has_claimed = true;
      EXPECT_TRUE(other.Claim(Writer()).ok());
    }
    return false;
  });
  const Result<int64_t> saved = chief.Publish(SnapshotAt(10));
  EXPECT_TRUE(has_claimed);
  EXPECT_TRUE(saved.ok()) << saved.error().ToString();
  EXPECT_TRUE(other.Publish(SnapshotAt(10)).ok());
  EXPECT_THAT(Names(), testing::ElementsAre("fence.json", "step-00000010"));
}

// By a job that trains, while an evaluator reads.
TEST_F(CheckpointDiskTest, CheckpointThatIsRemovedWhileItIsReadIsNotDamaged) {
  FakeDisk disk(root_);
  CheckpointDirectory directory = MakeDirectory(1);
  ASSERT_TRUE(directory.Claim(Writer()).ok());
  ASSERT_TRUE(directory.Publish(SnapshotAt(10)).ok());
  int64_t step = 10;
  int saves_left = 1;
  bool is_saving = false;
  disk.FailReadsOf(
      [&](const std::string& path) {
        if (saves_left > 0 && !is_saving && path == FileOf(step, "manifest.json")) {
          is_saving = true;
          --saves_left;
          step += 10;
          EXPECT_TRUE(directory.Publish(SnapshotAt(step)).ok());
          is_saving = false;
        }
        return false;
      },
      0);
  const Result<std::optional<Snapshot>> newest = MakeDirectory().LoadNewest();
  ASSERT_TRUE(newest.ok() && newest->has_value());
  EXPECT_EQ((*newest)->step, Step(20));
  EXPECT_THAT(log_.warnings, IsEmpty());

  saves_left = 1000;  // each time
  const Result<std::optional<Snapshot>> none = MakeDirectory().LoadNewest();
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().ToString(), HasSubstr("were removed while they were read"));
}

// An older checkpoint in its place would undo hours of work, and the next save would remove it.
TEST_F(CheckpointDiskTest, UnreadableCheckpointIsAnErrorAndNoOlderOneTakesItsPlace) {
  FakeDisk disk(root_);
  CheckpointDirectory directory = MakeDirectory();
  ASSERT_TRUE(directory.Claim(Writer()).ok());
  ASSERT_TRUE(directory.Publish(SnapshotAt(10)).ok());
  ASSERT_TRUE(directory.Publish(SnapshotAt(20)).ok());
  const std::vector<std::pair<int, ErrorCode>> cases = {
      {EIO, ErrorCode::kIo}, {ESTALE, ErrorCode::kIo}, {EACCES, ErrorCode::kInvalidArgument}};
  for (const auto& [error_number, code] : cases) {
    for (const char* name : {"manifest.json", "tensors.safetensors"}) {
      const std::string sick = FileOf(20, name);
      disk.FailReadsOf([&](const std::string& path) { return path == sick; }, error_number);
      const Result<std::optional<Snapshot>> newest = directory.LoadNewest();
      ASSERT_FALSE(newest.ok()) << name << " " << error_number;
      EXPECT_EQ(newest.error().code(), code);
      EXPECT_THAT(newest.error().ToString(), HasSubstr(sick));
    }
  }
  disk.FailReadsOf({}, 0);
  EXPECT_EQ((*directory.LoadNewest())->step, Step(20));
}

TEST_F(CheckpointDiskTest, UnreadableCheckpointIsNotRemovedToMakeRoom) {
  FakeDisk disk(root_);
  CheckpointDirectory directory = MakeDirectory(1);
  ASSERT_TRUE(directory.Claim(Writer()).ok());
  ASSERT_TRUE(directory.Publish(SnapshotAt(10)).ok());
  const std::string sick = FileOf(10, "manifest.json");
  disk.FailReadsOf([&](const std::string& path) { return path == sick; }, EIO);
  ASSERT_TRUE(directory.Publish(SnapshotAt(20)).ok());
  EXPECT_TRUE(std::filesystem::exists(sick));
}

// Writes find no room while it lives, as on a full disk.
class NoRoom {
 public:
  NoRoom() {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit none{0, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &none);
  }

  NoRoom(const NoRoom&) = delete;
  NoRoom& operator=(const NoRoom&) = delete;

  ~NoRoom() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, SIG_DFL);
  }

 private:
  rlimit before_{};
};

// A full disk stops no training, and whoever wrote before is shut out as soon as there is room.
TEST_F(CheckpointDiskTest, ClaimThatFindsNoRoomIsMadeByTheNextSave) {
  CheckpointDirectory before = MakeDirectory();
  ASSERT_TRUE(before.Claim(Writer()).ok());
  CheckpointDirectory directory = MakeDirectory();
  WriterIdentity successor = Writer();
  successor.epoch = Epoch(2);
  {
    const NoRoom full;
    EXPECT_EQ(directory.Claim(successor).error().code(), ErrorCode::kResourceExhausted);
    EXPECT_EQ(directory.Publish(SnapshotAt(10)).error().code(), ErrorCode::kResourceExhausted);
  }
  ASSERT_TRUE(before.Publish(SnapshotAt(10)).ok());
  ASSERT_TRUE(directory.Publish(SnapshotAt(20)).ok());
  EXPECT_EQ(before.Publish(SnapshotAt(20)).error().code(), ErrorCode::kStale);
}

TEST_F(CheckpointDiskTest, JobThatNeverHeldTheDirectoryMayTakeItOverOnceThereIsRoom) {
  CheckpointDirectory others(DirectoryOptions("uid-2", 3, OtherJobPolicy::kTakeOver));
  ASSERT_TRUE(others.Claim({"uid-2", Attempt(0), Epoch(1), Incarnation(0)}).ok());
  CheckpointDirectory directory(DirectoryOptions("uid-1", 3, OtherJobPolicy::kTakeOver));
  {
    const NoRoom full;
    EXPECT_FALSE(directory.Claim(Writer()).ok());
  }
  EXPECT_TRUE(directory.Claim(Writer()).ok());
  EXPECT_EQ(others.Publish(SnapshotAt(10)).error().code(), ErrorCode::kAlreadyExists);
}

// Opening one for reading would wait for ever.
TEST_F(CheckpointDiskTest, PipeOrFolderInPlaceOfAFileIsDamage) {
  CheckpointDirectory directory = MakeDirectory();
  ASSERT_TRUE(directory.Claim(Writer()).ok());
  ASSERT_TRUE(directory.Publish(SnapshotAt(10)).ok());
  for (const int64_t step : {20, 30}) {
    ASSERT_TRUE(directory.Publish(SnapshotAt(step)).ok());
    const std::string file = FileOf(step, step == 20 ? "manifest.json" : "tensors.safetensors");
    std::filesystem::remove(file);
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  }
  EXPECT_EQ((*directory.LoadNewest())->step, Step(10));
  const std::string tensors = FileOf(30, "tensors.safetensors");
  std::filesystem::remove(tensors);
  std::filesystem::create_directory(tensors);
  ASSERT_TRUE(directory.Publish(SnapshotAt(35)).ok());
  EXPECT_FALSE(std::filesystem::exists(tensors)) << "damaged ones go with the next save";
  const std::string folder = std::filesystem::path(FileOf(35, "manifest.json")).parent_path();
  std::filesystem::remove_all(folder);
  ASSERT_EQ(::mkfifo(folder.c_str(), 0600), 0);
  EXPECT_EQ((*directory.LoadNewest())->step, Step(10));

  std::filesystem::remove(directory_ + "/fence.json");
  ASSERT_EQ(::mkfifo((directory_ + "/fence.json").c_str(), 0600), 0);
  EXPECT_TRUE(directory.Claim(Writer()).ok());
  EXPECT_TRUE(directory.Publish(SnapshotAt(40)).ok());
}

}  // namespace
}  // namespace lockstep::runtime
