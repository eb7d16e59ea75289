#include "trainer-runtime/checkpoint/checkpoint_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/digest.h"
#include "common/base/io/file.h"
#include "common/json/json.h"
#include "trainer-runtime/checkpoint/checkpoint_test_support.h"
#include "trainer-runtime/checkpoint/directory_lock.h"

namespace lockstep::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CheckpointStoreTest : public CheckpointTest {};

TEST_F(CheckpointStoreTest, NothingThereIsNoCheckpoint) {
  EXPECT_EQ(NewestStep(Open(Options()).get()), 0);
  EXPECT_FALSE(std::filesystem::exists(directory_)) << "reading must not create the folder";
}

TEST_F(CheckpointStoreTest, OptionsAreChecked) {
  CheckpointStoreOptions options = Options();
  options.keep_count = 0;
  EXPECT_THAT(CheckpointStore::Open(options).error().message(), HasSubstr("keep is 0"));
  options = Options();
  options.directory = "";
  EXPECT_FALSE(CheckpointStore::Open(options).ok());
}

TEST_F(CheckpointStoreTest, LoadsWhatWasSaved) {
  SaveAndWait(OpenWriter().get(), 7);
  const Result<std::optional<Snapshot>> loaded = Open(Options())->LoadNewest();
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(**loaded, SnapshotAt(7));
}

TEST_F(CheckpointStoreTest, EqualSnapshotsGiveEqualTensorFiles) {
  SaveAndWait(OpenWriter().get(), 7);
  const std::string first = ReadFile(FileOf(7, "tensors.safetensors"), kFileMax).value();
  SaveAndWait(OpenWriter(2).get(), 7);
  EXPECT_EQ(ReadFile(FileOf(7, "tensors.safetensors"), kFileMax).value(), first);
}

TEST_F(CheckpointStoreTest, KeepsTheNewestOnesOnly) {
  const auto store = OpenWriter();
  for (const int64_t step : {10, 20, 30, 40, 50}) {
    SaveAndWait(store.get(), step);
  }
  EXPECT_THAT(Names(),
              ElementsAre("fence.json", "step-00000030", "step-00000040", "step-00000050"));
  EXPECT_EQ(NewestStep(store.get()), 50);
}

// What a run that went wild can start from again.
TEST_F(CheckpointStoreTest, NewestFiniteOneIsKeptBeyondTheCount) {
  CheckpointStoreOptions options = Options();
  options.keep_count = 2;
  const auto store = Open(options);
  ASSERT_TRUE(store->Claim(Epoch(1), Incarnation(0)).ok());
  for (const int64_t step : {10, 20, 30, 40, 50}) {
    Snapshot snapshot = SnapshotAt(step);
    snapshot.is_finite = step <= 20;
    store->SaveAsync(std::move(snapshot));
    ASSERT_TRUE(store->Flush(Soon()).ok());
  }
  EXPECT_THAT(Names(),
              ElementsAre("fence.json", "step-00000020", "step-00000040", "step-00000050"));
  SaveAndWait(store.get(), 60);
  EXPECT_THAT(Names(), ElementsAre("fence.json", "step-00000050", "step-00000060"));
}

// A later release's checkpoint may be whole: an older one must not silently take its place.
TEST_F(CheckpointStoreTest, LaterFormatIsAnErrorAndNotSkipped) {
  const auto store = OpenWriter();
  SaveAndWait(store.get(), 10);
  SaveAndWait(store.get(), 20);
  Json manifest = ParseJson(ReadFile(FileOf(20, "manifest.json"), kFileMax).value()).value();
  manifest.erase("sha256");
  manifest["formatVersion"] = 4;
  manifest["sha256"] = Sha256Hex(DumpJson(manifest));
  ASSERT_TRUE(WriteFileAtomically(FileOf(20, "manifest.json"), DumpJson(manifest)).ok());
  const auto newest = store->LoadNewest();
  ASSERT_FALSE(newest.ok());
  EXPECT_EQ(newest.error().code(), ErrorCode::kMismatch);
  EXPECT_THAT(newest.error().ToString(), HasSubstr("a later release"));
}

TEST_F(CheckpointStoreTest, IncompleteOnesDoNotCountAsKept) {
  const auto store = OpenWriter();
  for (const int64_t step : {10, 20, 30}) {
    SaveAndWait(store.get(), step);
  }
  std::filesystem::remove(FileOf(30, "manifest.json"));
  SaveAndWait(store.get(), 40);
  EXPECT_THAT(Names(),
              ElementsAre("fence.json", "step-00000010", "step-00000020", "step-00000040"));
}

TEST_F(CheckpointStoreTest, SameStepAgainReplacesTheOld) {
  const auto store = OpenWriter();
  SaveAndWait(store.get(), 10);
  ASSERT_TRUE(WriteFileAtomically(FileOf(10, "tensors.safetensors"), "damaged").ok());
  SaveAndWait(store.get(), 10);
  EXPECT_EQ(NewestStep(store.get()), 10);
  EXPECT_THAT(Names(), ElementsAre("fence.json", "step-00000010"));
}

// Step 0 beside finished work would be silent loss.
TEST_F(CheckpointStoreTest, NothingButDamagedOnesIsAnErrorThatNamesTheNewest) {
  const auto store = OpenWriter();
  for (const int64_t step : {10, 20}) {
    SaveAndWait(store.get(), step);
    ASSERT_TRUE(WriteFileAtomically(FileOf(step, "tensors.safetensors"), "damaged").ok());
  }
  const auto newest = store->LoadNewest();
  ASSERT_FALSE(newest.ok());
  EXPECT_EQ(newest.error().code(), ErrorCode::kCorrupt);
  EXPECT_THAT(newest.error().ToString(),
              HasSubstr("can be used; move that folder away to begin at step 0: " + directory_ +
                        "/step-00000020"));
}

TEST_F(CheckpointStoreTest, OutcomesAreReportedOnce) {
  const auto store = OpenWriter();
  SaveAndWait(store.get(), 10);
  const std::vector<SaveOutcome> outcomes = store->TakeOutcomes();
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(outcomes[0].step, Step(10));
  EXPECT_TRUE(outcomes[0].status.ok());
  EXPECT_EQ(outcomes[0].bytes,
            static_cast<int64_t>(std::filesystem::file_size(FileOf(10, "tensors.safetensors"))));
  EXPECT_TRUE(store->TakeOutcomes().empty());
}

TEST_F(CheckpointStoreTest, NewerSnapshotReplacesTheWaitingOne) {
  const auto store = OpenWriter();
  {
    // While the directory is locked the writer cannot finish step 1, so the others queue up.
    const Result<DirectoryLock> lock = DirectoryLock::Acquire(directory_, Soon());
    ASSERT_TRUE(lock.ok());
    store->SaveAsync(SnapshotAt(1));
    store->SaveAsync(SnapshotAt(2));
    store->SaveAsync(SnapshotAt(3));
    EXPECT_EQ(store->Flush(Deadline::After(SteadyNow(), Duration::zero())).error().code(),
              ErrorCode::kTimeout);
  }
  ASSERT_TRUE(store->Flush(Soon()).ok());
  // Which ones were replaced depends on when the writer woke up.
  EXPECT_GE(store->replaced_count(), 1);
  int64_t skipped = 0;
  for (const SaveOutcome& outcome : store->TakeOutcomes()) {
    skipped += outcome.skipped;
  }
  EXPECT_EQ(skipped, store->replaced_count());
  EXPECT_EQ(NewestStep(store.get()), 3);
}

TEST_F(CheckpointStoreTest, OlderWriterIsRefused) {
  const auto old_chief = OpenWriter(1);
  SaveAndWait(old_chief.get(), 10);
  const auto new_chief = OpenWriter(2);
  SaveAndWait(new_chief.get(), 20);

  old_chief->SaveAsync(SnapshotAt(30));
  const Status refused = old_chief->Flush(Soon());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kStale);
  EXPECT_THAT(refused.error().ToString(), HasSubstr("epoch 2"));
  EXPECT_THAT(Names(), ElementsAre("fence.json", "step-00000010", "step-00000020"));

  EXPECT_EQ(old_chief->Claim(Epoch(1), Incarnation(0)).error().code(), ErrorCode::kStale);
  EXPECT_TRUE(old_chief->Claim(Epoch(3), Incarnation(0)).ok()) << "it may lead a later epoch";
}

TEST_F(CheckpointStoreTest, LaterAttemptBeatsHigherEpoch) {
  const auto first = OpenWriter(9);
  CheckpointStoreOptions options = Options();
  options.writer.attempt = Attempt(1);
  ASSERT_TRUE(Open(options)->Claim(Epoch(1), Incarnation(0)).ok());
  first->SaveAsync(SnapshotAt(10));
  EXPECT_EQ(first->Flush(Soon()).error().code(), ErrorCode::kStale);
}

// Where the processes of all ranks are lost at once, nobody knows the epoch that they had reached,
// and their successors meet at the one that their pods were born with.
TEST_F(CheckpointStoreTest, SuccessorOfTheChiefBeatsHigherEpoch) {
  const auto lost = OpenWriter(3);
  SaveAndWait(lost.get(), 10);
  const auto successor = Open(Options());
  const Status claimed = successor->Claim(Epoch(0), Incarnation(1));
  ASSERT_TRUE(claimed.ok()) << claimed.error().ToString();
  SaveAndWait(successor.get(), 20);
  lost->SaveAsync(SnapshotAt(30));
  EXPECT_EQ(lost->Flush(Soon()).error().code(), ErrorCode::kStale);
  EXPECT_EQ(lost->Claim(Epoch(4), Incarnation(0)).error().code(), ErrorCode::kStale);
  EXPECT_THAT(Names(), ElementsAre("fence.json", "step-00000010", "step-00000020"));
}

TEST_F(CheckpointStoreTest, OwnLaterClaimDoesNotSpoilASaveUnderWay) {
  const auto store = OpenWriter(1);
  for (int64_t epoch = 2; epoch < 20; ++epoch) {
    store->SaveAsync(SnapshotAt(epoch));
    ASSERT_TRUE(store->Claim(Epoch(epoch), Incarnation(0)).ok());
    const Status flushed = store->Flush(Soon());
    ASSERT_TRUE(flushed.ok()) << flushed.error().ToString();
  }
}

// Of several that save in one name, and of a chief that came later.
TEST_F(CheckpointStoreTest, SavedIsWhatOnesOwnNameOrALaterOneWrote) {
  SaveAndWait(OpenWriter(4).get(), 10);
  const auto store = Open(Options());
  EXPECT_TRUE(store->HasSaved(Step(10), Epoch(4), Incarnation(0)));
  EXPECT_TRUE(store->HasSaved(Step(10), Epoch(3), Incarnation(0)));
  EXPECT_FALSE(store->HasSaved(Step(10), Epoch(3), Incarnation(2)));
  EXPECT_FALSE(store->HasSaved(Step(10), Epoch(4), Incarnation(1)));
  EXPECT_FALSE(store->HasSaved(Step(10), Epoch(5), Incarnation(0)));
  EXPECT_FALSE(store->HasSaved(Step(11), Epoch(4), Incarnation(0)));
  std::filesystem::remove(FileOf(10, "tensors.safetensors"));
  EXPECT_FALSE(store->HasSaved(Step(10), Epoch(4), Incarnation(0)));
}

TEST_F(CheckpointStoreTest, AnotherJobsFolderIsRefused) {
  SaveAndWait(OpenWriter().get(), 10);
  const auto other = Open(Options("uid-2"));
  EXPECT_EQ(NewestStep(other.get()), 0);
  const Status claimed = other->Claim(Epoch(5), Incarnation(0));
  ASSERT_FALSE(claimed.ok());
  EXPECT_EQ(claimed.error().code(), ErrorCode::kAlreadyExists);
  EXPECT_THAT(claimed.error().message(), HasSubstr("uid-1"));
}

TEST_F(CheckpointStoreTest, AnotherJobsFolderCanBeTakenOver) {
  const auto first = OpenWriter(9);
  SaveAndWait(first.get(), 10);
  CheckpointStoreOptions options = Options("uid-2");
  options.other_job = OtherJobPolicy::kTakeOver;
  const auto second = Open(options);
  EXPECT_EQ(NewestStep(second.get()), 10);
  ASSERT_TRUE(second->Claim(Epoch(1), Incarnation(0)).ok());
  SaveAndWait(second.get(), 20);
  first->SaveAsync(SnapshotAt(30));
  const Status refused = first->Flush(Soon());
  EXPECT_EQ(refused.error().code(), ErrorCode::kAlreadyExists);
  EXPECT_THAT(refused.error().ToString(), HasSubstr(directory_ + " was taken over by job uid-2"));
  EXPECT_EQ(NewestStep(second.get()), 20);
}

// Two runs that shared a folder took it from each other in turns, and the later one ended with the
// weights of the other. A successor's higher epoch, or a new attempt, is no right to come back.
TEST_F(CheckpointStoreTest, JobThatLostItsFolderToAnotherNeverGetsItBack) {
  const auto taking_over = [this](const std::string& uid, int64_t attempt) {
    CheckpointStoreOptions options = Options(uid);
    options.writer.attempt = Attempt(attempt);
    options.other_job = OtherJobPolicy::kTakeOver;
    return Open(options);
  };
  const auto first = taking_over("uid-1", 0);
  ASSERT_TRUE(first->Claim(Epoch(1), Incarnation(0)).ok());
  ASSERT_TRUE(taking_over("uid-2", 0)->Claim(Epoch(1), Incarnation(0)).ok());
  EXPECT_EQ(first->Claim(Epoch(2), Incarnation(0)).error().code(), ErrorCode::kAlreadyExists);
  for (const int64_t attempt : {0, 1}) {
    const Status refused = taking_over("uid-1", attempt)->Claim(Epoch(9), Incarnation(3));
    ASSERT_FALSE(refused.ok()) << attempt;
    EXPECT_EQ(refused.error().code(), ErrorCode::kAlreadyExists);
    EXPECT_THAT(refused.error().message(), HasSubstr(directory_ + " was taken over by job uid-2"));
  }
  // A third job may follow, and its successors; the first two stay out.
  ASSERT_TRUE(taking_over("uid-3", 0)->Claim(Epoch(1), Incarnation(0)).ok());
  EXPECT_TRUE(taking_over("uid-3", 1)->Claim(Epoch(1), Incarnation(0)).ok());
  for (const char* uid : {"uid-1", "uid-2"}) {
    EXPECT_FALSE(taking_over(uid, 5)->Claim(Epoch(9), Incarnation(0)).ok()) << uid;
  }
}

// What another job wrote since is not what this one has trained.
TEST_F(CheckpointStoreTest, WhatAnotherJobWroteSinceIsNotLoaded) {
  SaveAndWait(OpenWriter().get(), 10);
  CheckpointStoreOptions options = Options("uid-2");
  options.other_job = OtherJobPolicy::kTakeOver;
  const auto second = Open(options);
  ASSERT_TRUE(second->Claim(Epoch(1), Incarnation(0)).ok());
  EXPECT_EQ(NewestStep(second.get()), 10) << "it may begin from another job's";
  SaveAndWait(second.get(), 20);
  std::filesystem::remove(directory_ + "/fence.json");  // nothing keeps the first job out
  SaveAndWait(OpenWriter(7).get(), 30);
  EXPECT_EQ(NewestStep(second.get()), 20);
  EXPECT_THAT(log_.warnings, ElementsAre(HasSubstr("written by job uid-1, expected uid-2")));
  std::filesystem::resize_file(FileOf(20, "tensors.safetensors"), 0);
  EXPECT_EQ(NewestStep(second.get()), 10) << "what it began from is still there";
}

TEST_F(CheckpointStoreTest, DamagedFenceShutsWritersOutUntilTheNextClaim) {
  const auto store = OpenWriter(1);
  ASSERT_TRUE(WriteFileAtomically(directory_ + "/fence.json", "{").ok());
  store->SaveAsync(SnapshotAt(10));
  EXPECT_EQ(store->Flush(Soon()).error().code(), ErrorCode::kCorrupt);
  ASSERT_TRUE(store->Claim(Epoch(2), Incarnation(0)).ok());
  SaveAndWait(store.get(), 20);
  EXPECT_THAT(log_.warnings, ElementsAre(HasSubstr("fence.json is damaged")));
}

// Whoever tidies up too much loses what was saved, and not what is trained from there on.
TEST_F(CheckpointStoreTest, FolderThatSomebodyRemovesIsMadeAnewByTheNextSaveAndThatIsSaid) {
  const auto store = OpenWriter();
  SaveAndWait(store.get(), 10);
  std::filesystem::remove_all(directory_);
  SaveAndWait(store.get(), 20);
  EXPECT_THAT(Names(), ElementsAre("fence.json", "step-00000020"));
  EXPECT_THAT(log_.warnings, ElementsAre(HasSubstr("it is created again directory=")));
  for (const std::string& name : Names()) {
    std::filesystem::remove_all(directory_ + "/" + name);
  }
  SaveAndWait(store.get(), 30);
  EXPECT_EQ(NewestStep(store.get()), 30);
}

TEST_F(CheckpointStoreTest, ClaimRemovesWhatDeadWritersLeft) {
  ASSERT_TRUE(MakeDirectories(directory_ + "/.tmp-0123-save").ok());
  ASSERT_TRUE(WriteFileAtomically(directory_ + "/.tmp-0123-save/tensors.safetensors", "x").ok());
  OpenWriter();
  EXPECT_THAT(Names(), ElementsAre("fence.json"));
}

TEST_F(CheckpointStoreTest, FolderOfAnotherStepIsSkipped) {
  const auto store = OpenWriter();
  SaveAndWait(store.get(), 10);
  std::filesystem::copy(directory_ + "/step-00000010", directory_ + "/step-00000099");
  EXPECT_EQ(NewestStep(store.get()), 10);
  EXPECT_THAT(log_.warnings, ElementsAre(HasSubstr("manifest: step: 10 found, expected 99")));
}

// Acceptance: a checkpoint cut at every byte of its manifest and of its tensors file.
TEST_F(CheckpointStoreTest, EveryCutFallsBackToTheOneBefore) {
  const auto store = OpenWriter();
  SaveAndWait(store.get(), 10);
  SaveAndWait(store.get(), 20);
  for (const char* name : {"manifest.json", "tensors.safetensors"}) {
    const std::string path = FileOf(20, name);
    const std::string whole = ReadFile(path, kFileMax).value();
    ASSERT_FALSE(whole.empty());
    for (std::size_t length = 0; length < whole.size(); ++length) {
      std::filesystem::resize_file(path, length);
      log_.warnings.clear();
      ASSERT_EQ(NewestStep(store.get()), 10) << name << " cut at " << length;
      ASSERT_THAT(log_.warnings, ElementsAre(HasSubstr("step-00000020")));
      ASSERT_TRUE(WriteFileAtomically(path, whole).ok());
    }
    ASSERT_EQ(NewestStep(store.get()), 20);
  }
}

TEST_F(CheckpointStoreTest, EveryFlippedBitOfTheTensorsIsNoticed) {
  const auto store = OpenWriter();
  SaveAndWait(store.get(), 10);
  SaveAndWait(store.get(), 20);
  const std::string path = FileOf(20, "tensors.safetensors");
  const std::string whole = ReadFile(path, kFileMax).value();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string bad = whole;
    bad[i] ^= static_cast<char>(1U << (i % 8));
    ASSERT_TRUE(WriteFileAtomically(path, bad).ok());
    ASSERT_EQ(NewestStep(store.get()), 10) << "byte " << i;
  }
}

}  // namespace
}  // namespace lockstep::runtime
