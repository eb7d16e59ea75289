// What waiting jobs say of their positions, and how often they are told.

#include "operator/controller/queue/queue_line.h"

#include <gtest/gtest.h>

#include "operator/controller/testing/round_bench.h"

namespace lockstep::control {
namespace {

using std::chrono::seconds;

class QueueLineTest : public RoundBench {
 protected:
  // The job's turn: what its status says from then on.
  void Turn(const std::string& name) {
    TrainingJob job = Stored(name);
    job.status.queue = QueuePosition{"default", line_.Tell(KeyOf(name), now_), std::nullopt};
    Store(job);
  }

  static LinePosition At(const std::string& name, int64_t position) {
    return {GangNameOf(KeyOf(name)), position};
  }

  QueueLine line_{&view_};
};

TEST_F(QueueLineTest, JobIsToldOfItsMovesNowAndThenAndTheFartherBackTheLess) {
  for (const char* const name : {"first", "next", "third"}) {
    AddJob(name, 1);
  }
  line_.Set({At("first", 1), At("next", 2), At("third", 30)}, now_);
  EXPECT_TRUE(line_.TakeDue(now_).empty()) << "each has a turn of its own";
  Turn("next");
  Turn("third");
  EXPECT_EQ(line_.Tell(KeyOf("elsewhere"), now_), std::nullopt);

  line_.Set({At("next", 1), At("third", 21)}, now_);
  EXPECT_EQ(line_.NextDue(), now_ + seconds(10));
  EXPECT_TRUE(line_.TakeDue(now_ + seconds(9)).empty());
  EXPECT_EQ(line_.TakeDue(now_ + seconds(10)), std::vector<JobId>{KeyOf("next")});
  EXPECT_TRUE(line_.TakeDue(now_ + seconds(10)).empty());
  EXPECT_EQ(line_.TakeDue(now_ + seconds(11)), std::vector<JobId>{KeyOf("third")});
}

TEST_F(QueueLineTest, ClockThatIsSetBackHoldsUpNobody) {
  AddJob("next", 1);
  line_.Set({At("next", 2)}, now_);
  Turn("next");
  now_ -= seconds(900);
  line_.Set({At("next", 1)}, now_);
  EXPECT_EQ(line_.NextDue(), now_ + seconds(10));
}

TEST_F(QueueLineTest, WhoseStatusSaysSoAlreadyIsNotToldAgain) {
  AddJob("next", 1);
  line_.Set({At("next", 2)}, now_);
  Turn("next");
  line_.Set({At("next", 1)}, now_);
  line_.Set({At("next", 2)}, now_);
  EXPECT_FALSE(line_.NextDue().has_value()) << "it is where it was";

  line_.Set({At("next", 1)}, now_);
  now_ += seconds(5);
  Turn("next");  // for something else
  EXPECT_FALSE(line_.NextDue().has_value());
  EXPECT_EQ(Stored("next").status.queue->position, 1);
}

// The seed 1892 of the simulation: it went back to the first place while its status still said so.
TEST_F(QueueLineTest, WhoMovesWhileItsStatusIsBeingWrittenIsToldAfterwards) {
  AddJob("next", 1);
  line_.Set({At("next", 1)}, now_);
  Turn("next");
  line_.Set({At("next", 2)}, now_);
  TrainingJob written = Stored("next");
  written.status.queue = QueuePosition{"default", line_.Tell(KeyOf("next"), now_), std::nullopt};
  line_.Set({At("next", 1)}, now_);
  Store(written);
  EXPECT_EQ(line_.TakeDue(now_ + seconds(10)), std::vector<JobId>{KeyOf("next")});
  Turn("next");
  EXPECT_EQ(Stored("next").status.queue->position, 1);
}

TEST_F(QueueLineTest, WhoIsNotInLineAnyMoreIsForgotten) {
  AddJob("next", 1);
  line_.Set({At("next", 2)}, now_);
  line_.Set({}, now_);
  EXPECT_FALSE(line_.NextDue().has_value());
  EXPECT_FALSE(line_.Tell(KeyOf("next"), now_).has_value());
}

// A thousand jobs wait in so many queues, and one starts every second in one of them.
TEST_F(QueueLineTest, LongLinesThatMoveAllTheTimeAreToldBitByBit) {
  constexpr int kJobs = 1000;
  for (int i = 0; i < kJobs; ++i) {
    AddJob("job-" + std::to_string(i), 1);
  }
  for (const int queues : {1, 50}) {
    line_.Clear();
    std::size_t told = 0;
    for (int second = 0; second < 100; ++second) {
      std::vector<LinePosition> line;
      for (int i = 0; i < kJobs; ++i) {  // who has started is followed by a new one at the end
        const int length = kJobs / queues;
        const int started = (second + i % queues) / queues;
        line.push_back(
            At("job-" + std::to_string(i), 1 + (i / queues + length - started % length) % length));
      }
      line_.Set(line, now_);
      for (int i = 0; second == 0 && i < kJobs; ++i) {
        Turn("job-" + std::to_string(i));
      }
      for (const JobId& key : line_.TakeDue(now_)) {
        Turn(key.name);
        ++told;
      }
      now_ += seconds(1);
    }
    EXPECT_GT(told, 50U) << queues;
    EXPECT_LT(told, 500U) << queues;
  }
}

TEST_F(QueueLineTest, RoundNumbersThoseThatWaitAndMovesAreNewsWhenTheyAreDue) {
  AddNode("node-a", 1);
  for (const char* const name : {"first", "next", "third"}) {
    AddJob(name, 1);
  }
  EXPECT_EQ(Ask("first"), "node-a");
  const TrainingJobStatus placed = Take("first", "node-a");
  view_.NoteStatus(KeyOf("first"), placed, NextVersion(), &news_);
  view_.EndReservation(KeyOf("first"), &news_);
  const auto tell = [this](const std::string& name) {
    [[maybe_unused]] const std::string answer = Ask(name);
    TrainingJob job = Stored(name);
    job.status.queue = QueuePosition{"default", rounds_.PositionOf(KeyOf(name)), {}};
    Store(job);
    return job.status.queue->position;
  };
  EXPECT_EQ(tell("next"), 1);
  EXPECT_EQ(tell("third"), 2);
  EXPECT_FALSE(rounds_.PositionOf(KeyOf("first")).has_value());

  view_.LearnJobIsGone(KeyOf("next"), "uid-next", &news_);
  news_ = News();
  rounds_.Plan(now_, &news_);
  EXPECT_EQ(news_.urgent.count(KeyOf("third")), 0U) << "it was told a moment ago";
  ASSERT_EQ(rounds_.look_again_at(), now_ + seconds(10));

  now_ += seconds(10);
  rounds_.Plan(now_, &news_);
  EXPECT_EQ(news_.urgent.count(KeyOf("third")), 1U);
  EXPECT_EQ(tell("third"), 1);
}

}  // namespace
}  // namespace lockstep::control
