#include "operator/cli/schema/setting.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using ::testing::HasSubstr;

Json Document() {
  return ParseJson(R"({"spec": {"roles": [{"name": "chief"}, {"name": "worker", "replicas": 2}],
                       "training": {"epochs": 3, "optimizer": {"type": "Adam"}}}})")
      .value();
}

Result<std::string> Apply(const std::string& text, Json* document) {
  static const JobSchema schema;
  return ApplySetting(ParseSetting(text).value(), schema, document);
}

// What the document becomes.
std::string DocumentAfter(const std::string& text) {
  Json document = Document();
  const auto field = Apply(text, &document);
  return field.ok() ? DumpJson(document) : field.error().ToString();
}

TEST(ParseSetting, NeedsAPathAndAnEqualsSign) {
  EXPECT_EQ(ParseSetting("a.b=c=d").value(), (Setting{ParseFieldPath("a.b").value(), "c=d"}));
  EXPECT_THAT(ParseSetting("a.b").error().message(), HasSubstr("expected PATH=VALUE"));
  EXPECT_THAT(ParseSetting("=1").error().message(), HasSubstr("not the path of a field"));
}

TEST(ParseSetting, ReadsWhatToTextWrites) {
  for (const char* const text : {"spec.training.seed=7",
                                 "spec.roles[worker].replicas=2",
                                 "metadata.labels.example\\.com/team=a=b"}) {
    EXPECT_EQ(ToText(*ParseSetting(text)), text);
  }
}

TEST(ApplySetting, ValueHasTheTypeOfTheSchema) {
  EXPECT_THAT(DocumentAfter("spec.training.epochs=5"), HasSubstr(R"("epochs":5)"));
  EXPECT_THAT(DocumentAfter("training.dataset.shuffle=false"), HasSubstr(R"("shuffle":false)"));
  EXPECT_THAT(DocumentAfter("training.dataset.images=5"), HasSubstr(R"("images":"5")"));
  EXPECT_THAT(DocumentAfter("training.checkpoint.directory=null-device"),
              HasSubstr(R"("directory":"null-device")"));
  EXPECT_THAT(DocumentAfter("training.model.inputShape=[28, 28, 1]"),
              HasSubstr(R"("inputShape":[28,28,1])"));
  EXPECT_THAT(DocumentAfter("training.optimizer={type: SGD, momentum: 0.9}"),
              HasSubstr(R"("optimizer":{"type":"SGD","momentum":0.9})"));
}

TEST(ApplySetting, MetadataHasWhatKubernetesGivesEveryKind) {
  EXPECT_THAT(DocumentAfter("metadata.labels.example\\.com/team=7"),
              HasSubstr(R"("labels":{"example.com/team":"7"})"));
  EXPECT_THAT(DocumentAfter("metadata.annotations.note=x"),
              HasSubstr(R"("annotations":{"note":"x"})"));
  EXPECT_THAT(DocumentAfter("metadata.namespace=team"), HasSubstr(R"("namespace":"team")"));
}

TEST(ApplySetting, ElementsGoByIndexAndByName) {
  Json document = Document();
  EXPECT_EQ(Apply("roles[worker].gpus=1", &document).value(), "spec.roles[1].gpus");
  EXPECT_EQ(document["spec"]["roles"][1]["gpus"], 1);
  EXPECT_EQ(Apply("roles[2].name=ps", &document).value(), "spec.roles[2].name");
  EXPECT_EQ(document["spec"]["roles"][2]["name"], "ps");
}

TEST(ApplySetting, StatusIsNotForManifests) {
  EXPECT_THAT(DocumentAfter("status.state=x"),
              HasSubstr("status.state: the operator writes the status"));
}

TEST(ApplySetting, NullRemovesTheField) {
  EXPECT_EQ(DocumentAfter("spec.training.epochs=null").find("epochs"), std::string::npos);
  EXPECT_EQ(DocumentAfter("spec.training.checkpoint.keep=null"), DumpJson(Document()));
}

TEST(ApplySetting, MistakesNameThePath) {
  EXPECT_THAT(DocumentAfter("spec.training.epoch=5"),
              HasSubstr("spec.training.epoch: no such field"));
  EXPECT_THAT(DocumentAfter("spec.roles[ps].gpus=1"),
              HasSubstr("spec.roles[ps]: no element of that name; the names are chief, worker"));
  EXPECT_THAT(DocumentAfter("spec.roles[4].gpus=1"),
              HasSubstr("spec.roles[4]: no such element; the list has 2"));
  EXPECT_THAT(DocumentAfter("spec.roles.gpus=1"),
              HasSubstr("spec.roles: a list found, expected an object"));
  EXPECT_THAT(DocumentAfter("spec.training.model.layers=[{type: Dense, units: .nan}]"),
              HasSubstr("layers: in [0].units: .nan found, expected a finite number"));
  EXPECT_THAT(DocumentAfter("spec.training.optimizer.learningRate=.nan"),
              HasSubstr("finite number"));
  EXPECT_THAT(DocumentAfter("spec.training.epochs={"),
              HasSubstr("spec.training.epochs: not valid YAML"));
  EXPECT_THAT(DocumentAfter("spec.training.epochs=[1"),
              HasSubstr("\"[1\" found, expected one value"));
}

TEST(ApplyWorkers, RoleAndScaleOfTheJobAreSet) {
  Json document = Document();
  EXPECT_EQ(ApplyWorkers(5, &document).value(), "spec.roles[1].replicas");
  EXPECT_EQ(document["spec"]["roles"][1]["replicas"], 5);
  EXPECT_FALSE(document["spec"].contains("replicas"));
  document["spec"]["replicas"] = 3;
  ASSERT_TRUE(ApplyWorkers(6, &document).ok());
  EXPECT_EQ(document["spec"]["replicas"], 6);
}

TEST(ApplyWorkers, JobWithoutWorkersIsRefused) {
  Json document = ParseJson(R"({"spec": {"roles": [{"name": "chief"}]}})").value();
  EXPECT_THAT(ApplyWorkers(5, &document).error().ToString(), HasSubstr("no role worker"));
  Json text = "no job";
  EXPECT_FALSE(ApplyWorkers(5, &text).ok());
}

}  // namespace
}  // namespace lockstep::control
