#include "trainer-runtime/supervisor/status/trainer_status.h"

#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer-runtime/supervisor/status/tf_config_endpoint.h"

namespace lockstep::runtime {
namespace {

using ::testing::HasSubstr;

WorkerEnvironment Worker() {
  WorkerEnvironment environment;
  environment.job = "tune";
  environment.namespace_name = "team";
  return environment;
}

constexpr const char* kPath =
    "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/tune/status";

// As Hugging Face's Trainer sends it: every value is a text.
constexpr const char* kStepBody =
    R"({"trainerStatus": {"lastUpdatedTime": "2026-11-29T10:00:00.123456+00:00",)"
    R"( "progressPercentage": 37, "estimatedRemainingSeconds": 5, "metrics": [)"
    R"({"name": "current_step", "value": "37"}, {"name": "total_steps", "value": "100"},)"
    R"( {"name": "current_epoch", "value": "1.85"}, {"name": "loss", "value": "0.4375"},)"
    R"( {"name": "learning_rate", "value": "5e-05"}]}})";

TrainerStatus Parsed(const std::string& body) {
  return ParseTrainerStatus(body).value();
}

// What a pod's document shows after these requests.
StatusDocument ShownAfter(const std::vector<std::string>& bodies) {
  TrainerProgress progress;
  for (const std::string& body : bodies) {
    progress.Take(Parsed(body));
  }
  StatusDocument document;
  progress.ShowIn(&document);
  return document;
}

std::string Told(int percentage, const std::vector<std::pair<std::string, std::string>>& metrics) {
  std::string list;
  for (const auto& [name, value] : metrics) {
    list +=
        (list.empty() ? "" : ", ") + (R"({"name": ")" + name) + R"(", "value": ")" + value + "\"}";
  }
  return R"({"trainerStatus": {"progressPercentage": )" + std::to_string(percentage) +
         R"(, "metrics": [)" + list + "]}}";
}

TEST(TrainerStatus, StepOfATrainerIsShown) {
  const TrainerStatus status = Parsed(kStepBody);
  EXPECT_EQ(status.percentage, 37);
  EXPECT_EQ(status.metrics.at("learning_rate"), 5e-05);
  const StatusDocument document = ShownAfter({kStepBody});
  EXPECT_EQ(document.step, Step(37));
  EXPECT_EQ(document.steps_total, 100);
  EXPECT_EQ(document.data_epoch, 1);
  EXPECT_EQ(document.loss, 0.4375);
}

TEST(TrainerStatus, WhatIsNotToldStaysAsItWas) {
  EXPECT_EQ(ShownAfter({Told(0, {{"total_steps", "200"}})}).step, Step(0));
  const StatusDocument document =
      ShownAfter({Told(0, {{"total_steps", "200"}}), Told(40, {{"current_step", "80"}})});
  EXPECT_EQ(document.step, Step(80));
  EXPECT_EQ(document.steps_total, 200);
}

// At its end a trainer tells its epoch and no step, and 100 % also where it has stopped early.
TEST(TrainerStatus, EndOfATrainerIsItsLastStepUnlessItHasStoppedEarly) {
  const std::string step =
      Told(88, {{"current_step", "352"}, {"total_steps", "384"}, {"current_epoch", "11.0"}});
  const StatusDocument whole =
      ShownAfter({step, Told(100, {{"epoch", "12.0"}, {"train_loss", "0.25"}})});
  EXPECT_EQ(whole.step, Step(384));
  EXPECT_EQ(whole.loss, 0.25);
  EXPECT_EQ(ShownAfter({step, Told(100, {{"epoch", "11.1"}})}).step, Step(352));
  EXPECT_EQ(ShownAfter({step, Told(100, {})}).step, Step(352));
}

TEST(TrainerStatus, ProgramWithoutStepsIsAtItsPercent) {
  const StatusDocument document = ShownAfter({Told(12, {}), Told(13, {{"loss", "1"}})});
  EXPECT_EQ(document.step, Step(13));
  EXPECT_EQ(document.steps_total, 100);
}

TEST(TrainerStatus, LossThatIsNoNumberIsNoneToShow) {
  EXPECT_EQ(ShownAfter({Told(1, {{"loss", "0.5"}})}).loss, 0.5);
  EXPECT_EQ(ShownAfter({Told(1, {{"loss", "0.5"}}), Told(2, {{"loss", "nan"}})}).loss,
            std::nullopt);
}

TEST(TrainerStatus, MetricsThatSayNothingAreLeftOut) {
  const std::string body = Told(0,
                                {{"model", "bert"},
                                 {"", "1"},
                                 {"empty", ""},
                                 {"current_step", "-3"},
                                 {std::string(65, 'a'), "1"},
                                 {"total_steps", "1e300"}});
  EXPECT_EQ(Parsed(body).metrics.size(), 2U);
  EXPECT_EQ(ShownAfter({body}).step, Step(0));
}

TEST(TrainerStatus, WhatIsNoStatusIsRefusedWithItsPlace) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "line 1"},
      {"[]", "object"},
      {"{}", "trainerStatus"},
      {R"({"trainerStatus": 3})", "trainerStatus"},
      {R"({"trainerStatus": {"progressPercentage": 101}})", "trainerStatus.progressPercentage"},
      {R"({"trainerStatus": {"metrics": [3]}})", "trainerStatus.metrics[0]"},
      {R"({"trainerStatus": {"metrics": [{"name": "loss", "value": 3}]}})",
       "trainerStatus.metrics[0].value"},
  };
  for (const auto& [body, place] : cases) {
    const auto status = ParseTrainerStatus(body);
    ASSERT_FALSE(status.ok()) << body;
    EXPECT_THAT(status.error().ToString(), HasSubstr(place)) << body;
  }
  std::string many = R"({"trainerStatus": {"metrics": [)";
  for (int i = 0; i <= 256; ++i) {
    many += std::string(i == 0 ? "" : ",") + R"({"name": "a", "value": "1"})";
  }
  EXPECT_THAT(ParseTrainerStatus(many + "]}}").error().ToString(), HasSubstr("257"));
}

HttpServerResponse Post(const HttpRoutes& routes,
                        const std::string& authorization,
                        const std::string& body) {
  HttpServerRequest request;
  request.headers["authorization"] = authorization;
  request.body = body;
  return routes.at(kPath).at("POST")(request);
}

TEST(TrainerStatusRoutes, TakeWhatShowsTheWordOfThePod) {
  int told = 0;
  const HttpRoutes routes =
      MakeTrainerStatusRoutes(Worker(), "word", [&told](const TrainerStatus& status) {
        EXPECT_EQ(status.percentage, 37);
        ++told;
      });
  const HttpServerResponse taken = Post(routes, "Bearer word", kStepBody);
  EXPECT_EQ(taken.status, 200);
  EXPECT_EQ(taken.body, kStepBody);
  EXPECT_EQ(told, 1);
  for (const char* wrong : {"", "word", "Bearer wor", "Bearer words", "bearer word"}) {
    EXPECT_EQ(Post(routes, wrong, kStepBody).status, 403) << wrong;
  }
  EXPECT_EQ(Post(routes, "Bearer word", "{}").status, 422);
  EXPECT_EQ(told, 1);
}

TEST(TrainerStatusOffer, NamesPlaceAndWord) {
  EnvironmentMap variables;
  OfferTrainerStatus(Worker(), 4000, "/token", &variables);
  EXPECT_EQ(
      variables,
      (EnvironmentMap{{"KUBEFLOW_TRAINER_SERVER_URL", std::string("http://127.0.0.1:4000") + kPath},
                      {"KUBEFLOW_TRAINER_SERVER_TOKEN", "/token"}}));
}

TEST(TrainerStatusOffer, LeavesThePlaceThatAManifestNames) {
  const EnvironmentMap own = {{"KUBEFLOW_TRAINER_SERVER_URL", "https://elsewhere"},
                              {"http_proxy", "http://proxy"}};
  EnvironmentMap variables = own;
  OfferTrainerStatus(Worker(), 4000, "/token", &variables);
  EXPECT_EQ(variables, own);
}

TEST(TrainerStatusOffer, AsksNoProxyForThisMachine) {
  EnvironmentMap variables = {{"HTTP_PROXY", "http://proxy"}, {"no_proxy", ".example"}};
  OfferTrainerStatus(Worker(), 4000, "/token", &variables);
  EXPECT_EQ(variables.at("no_proxy"), ".example,127.0.0.1");
  EXPECT_EQ(variables.at("NO_PROXY"), "127.0.0.1");
}

TEST(TrainerToken, IsReadWhereItsPathSays) {
  const TrainerToken token = TrainerToken::Make().value();
  EXPECT_EQ(token.word().size(), 64U);
  for (int i = 0; i < 2; ++i) {
    std::ifstream file(token.path());
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), token.word());
  }
}

}  // namespace
}  // namespace lockstep::runtime
