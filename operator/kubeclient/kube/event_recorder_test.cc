#include "operator/kubeclient/kube/event_recorder.h"

#include <string>

#include <gtest/gtest.h>

#include "common/json/json.h"

namespace lockstep::control::kube {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Outgoing = EventRecorder::Outgoing;

constexpr TimePoint kSteadyNow{std::chrono::hours(1)};
constexpr WallTime kWallNow{std::chrono::milliseconds(1'700'000'000'123)};
const EventSubject kJob{"lockstep.dev/v1", "TrainingJob", "team", "mnist", "u-1"};

EventText Text(const std::string& message) {
  return {true, "RankLost", "ReplacePod", message};
}

EventRecorder Recorder() {
  EventRecorderOptions options;
  options.reporting_instance = "operator-0";
  return EventRecorder(options);
}

TEST(EventRecorder, TellsAnEventAsKubernetesDoes) {
  EventRecorder recorder = Recorder();
  const std::optional<Outgoing> outgoing =
      recorder.Record(kJob, Text("rank 3"), kSteadyNow, kWallNow);
  ASSERT_TRUE(outgoing.has_value());
  EXPECT_EQ(outgoing->request.method, "POST");
  EXPECT_EQ(outgoing->request.target, "/api/v1/namespaces/team/events?fieldValidation=Strict");
  EXPECT_EQ(outgoing->request.body,
            R"({"apiVersion":"v1","kind":"Event","metadata":{"name":)"
            R"("mnist.ba9a8c927e8909b8","namespace":"team"},"eventTime":)"
            R"("2023-11-14T22:13:20.123000Z","firstTimestamp":"2023-11-14T22:13:20Z",)"
            R"("lastTimestamp":"2023-11-14T22:13:20Z","count":1,"source":{"component":)"
            R"("lockstep.dev/operator"},"reportingComponent":"lockstep.dev/operator",)"
            R"("reportingInstance":"operator-0","action":"ReplacePod","reason":"RankLost",)"
            R"("involvedObject":{"apiVersion":"lockstep.dev/v1","kind":"TrainingJob","namespace":)"
            R"("team","name":"mnist","uid":"u-1"},"message":"rank 3","type":"Warning"})");
}

TEST(EventRecorder, TheSameAgainBecomesASeries) {
  EventRecorder recorder = Recorder();
  const Outgoing first = *recorder.Record(kJob, Text("x"), kSteadyNow, kWallNow);
  const std::string name = ParseJson(first.request.body).value()["metadata"]["name"];
  const std::optional<Outgoing> second =
      recorder.Record(kJob, Text("x"), kSteadyNow + seconds(1), kWallNow + seconds(1));
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->request.method, "PATCH");
  EXPECT_EQ(second->request.target, "/api/v1/namespaces/team/events/" + name);
  EXPECT_EQ(second->request.body, R"({"count":2,"lastTimestamp":"2023-11-14T22:13:21Z"})");
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(recorder.Record(kJob, Text("x"), kSteadyNow + seconds(2), kWallNow).has_value());
  }
  EXPECT_EQ(recorder.counts().merged, 5);
  EXPECT_EQ(recorder.NextFlush(), kSteadyNow + minutes(6)) << "as of the first";
  EXPECT_TRUE(recorder.Flush(kSteadyNow + minutes(6)).empty());
  EXPECT_EQ(recorder.NextFlush(), kSteadyNow + seconds(2) + minutes(6));
  const std::vector<Outgoing> end = recorder.Flush(kSteadyNow + seconds(2) + minutes(6));
  ASSERT_EQ(end.size(), 1U);
  EXPECT_EQ(ParseJson(end.front().request.body).value()["count"], 7);
  EXPECT_EQ(recorder.NextFlush(), std::nullopt);
  EXPECT_EQ(recorder.Record(kJob, Text("x"), kSteadyNow + minutes(10), kWallNow)->request.method,
            "POST")
      << "after a silence it is news again";
}

TEST(EventRecorder, ALongSeriesIsToldFromTimeToTime) {
  EventRecorder recorder = Recorder();
  int patches = 0;
  for (int minute = 0; minute <= 90; ++minute) {
    const TimePoint now = kSteadyNow + minutes(minute);
    const std::optional<Outgoing> outgoing = recorder.Record(kJob, Text("x"), now, kWallNow);
    EXPECT_EQ(outgoing.has_value(), minute < 2) << minute;
    patches += static_cast<int>(recorder.Flush(now).size());
  }
  EXPECT_EQ(patches, 2) << "at 31 and at 61 minutes";
}

TEST(EventRecorder, ManyOfAKindBecomeOne) {
  EventRecorder recorder = Recorder();
  std::vector<std::string> methods;
  std::string combined;
  for (int i = 0; i < 20; ++i) {
    const std::optional<Outgoing> outgoing =
        recorder.Record(kJob, Text("rank " + std::to_string(i)), kSteadyNow, kWallNow);
    if (outgoing.has_value()) {
      methods.push_back(outgoing->request.method);
      const Json body = ParseJson(outgoing->request.body).value();
      combined = body.contains("message") ? body["message"].get<std::string>() : combined;
    }
  }
  ASSERT_EQ(methods.size(), 12U) << "ten, the combined one, and its series";
  EXPECT_EQ(methods.back(), "PATCH");
  EXPECT_EQ(combined, "(combined from similar events): rank 10");
  EXPECT_EQ(recorder.Record(kJob, Text("rank 3"), kSteadyNow, kWallNow)->request.method, "PATCH")
      << "what was told by itself goes on by itself";
  EXPECT_EQ(
      recorder.Record(kJob, Text("rank 99"), kSteadyNow + minutes(11), kWallNow)->request.method,
      "POST")
      << "a new window";
}

// Checklist: event storm -> aggregated.
TEST(EventRecorder, AnObjectThatCausesTooManyFallsSilent) {
  EventRecorder recorder = Recorder();
  int sent = 0;
  for (int i = 0; i < 1000; ++i) {
    EventText text = Text("x");
    text.reason = "Reason" + std::to_string(i);
    sent += recorder.Record(kJob, text, kSteadyNow, kWallNow).has_value() ? 1 : 0;
  }
  EXPECT_EQ(sent, 25);
  EXPECT_EQ(recorder.counts().dropped, 975);
  EventSubject other = kJob;
  other.uid = "u-2";
  EXPECT_TRUE(recorder.Record(other, Text("x"), kSteadyNow, kWallNow).has_value());
  EXPECT_FALSE(recorder.Record(kJob, Text("y"), kSteadyNow + seconds(299), kWallNow).has_value());
  EXPECT_TRUE(recorder.Record(kJob, Text("y"), kSteadyNow + seconds(301), kWallNow).has_value());
}

CallResult Refusal(int status, const std::string& reason) {
  return Reply{status, R"({"kind":"Status","reason":")" + reason + "\"}", {}};
}

TEST(EventRecorder, AnswersLeadToWhatHelps) {
  EventRecorder recorder = Recorder();
  const Outgoing create = *recorder.Record(kJob, Text("x"), kSteadyNow, kWallNow);
  EXPECT_FALSE(recorder.OnResult(create, Reply{201, "{}", {}}).has_value());
  const std::optional<Outgoing> patch = recorder.OnResult(create, Refusal(409, "AlreadyExists"));
  ASSERT_TRUE(patch.has_value()) << "an earlier process told it";
  EXPECT_EQ(patch->request.method, "PATCH");
  const std::optional<Outgoing> again = recorder.OnResult(*patch, Refusal(404, "NotFound"));
  ASSERT_TRUE(again.has_value()) << "the server has forgotten it";
  EXPECT_EQ(again->request.method, "POST");
  EXPECT_EQ(ParseJson(again->request.body).value()["count"], 2);
  EXPECT_FALSE(recorder.OnResult(*again, Refusal(404, "NotFound")).has_value())
      << "the namespace is gone";
  EXPECT_EQ(recorder.Record(kJob, Text("x"), kSteadyNow, kWallNow)->request.method, "POST");
  const Outgoing other = *recorder.Record(kJob, Text("y"), kSteadyNow, kWallNow);
  EXPECT_FALSE(recorder.OnResult(other, Fault{}).has_value()) << "best effort";
}

TEST(EventRecorder, StaysWithinTheServersLimits) {
  EventRecorder recorder = Recorder();
  EventSubject subject = kJob;
  subject.name = std::string(253, 'n');
  std::string message = std::string(1023, 'x') + "€€";
  const Json body =
      ParseJson(recorder.Record(subject, Text(message), kSteadyNow, kWallNow)->request.body)
          .value();
  EXPECT_EQ(body["metadata"]["name"].get<std::string>().size(), 253U);
  EXPECT_EQ(body["message"].get<std::string>(), std::string(1023, 'x')) << "no half character";
}

TEST(EventRecorder, RemembersABoundedNumber) {
  EventRecorderOptions options;
  options.remembered_max = 3;
  EventRecorder recorder(options);
  for (int i = 0; i < 5; ++i) {
    EventSubject subject = kJob;
    subject.uid = std::to_string(i);
    recorder.Record(subject, Text("x"), kSteadyNow + seconds(i), kWallNow);
  }
  EventSubject subject = kJob;
  subject.uid = "0";
  EXPECT_EQ(recorder.Record(subject, Text("x"), kSteadyNow + seconds(9), kWallNow)->request.method,
            "POST")
      << "forgotten";
  subject.uid = "4";
  EXPECT_EQ(recorder.Record(subject, Text("x"), kSteadyNow + seconds(9), kWallNow)->request.method,
            "PATCH");
}

}  // namespace
}  // namespace lockstep::control::kube
