#include "operator/cli/schema/explain.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string Explain(std::string_view field) {
  static const JobSchema schema;
  const auto text = ExplainField(field, schema);
  return text.ok() ? *text : text.error().ToString();
}

TEST(ExplainField, FieldHasTypeRangeDefaultAndMeaning) {
  EXPECT_EQ(Explain("spec.training.checkpoint.keep"),
            "TrainingJob (lockstep.dev/v1)\n"
            "FIELD:    spec.training.checkpoint.keep <integer>\n"
            "RANGE:    1 to 1000\n"
            "DEFAULT:  3\n"
            "\n"
            "DESCRIPTION:\n"
            "  Number of newest checkpoints to keep; older ones are removed. Default: 3.\n");
}

TEST(ExplainField, WordsAreListed) {
  EXPECT_THAT(Explain("training.remainder"), HasSubstr("VALUES:   Keep, Drop\nDEFAULT:  Keep\n"));
}

TEST(ExplainField, OpenRangeIsSaid) {
  EXPECT_THAT(Explain("training.optimizer.momentum"),
              HasSubstr("RANGE:    0 to 1, the upper limit excluded\n"));
}

TEST(ExplainField, ObjectListsItsFieldsWithTypesAndWhichAreRequired) {
  const std::string text = Explain("spec.training.model.layers");
  EXPECT_THAT(text, HasSubstr("<[]object>\nITEMS:    1 to 256\n"));
  EXPECT_THAT(text, HasSubstr("\nFIELDS:\n  type <string> required\n    Dense: fully connected"));
  EXPECT_THAT(text, HasSubstr("  units <integer>\n"));
}

TEST(ExplainField, NothingGivenExplainsTheJob) {
  EXPECT_THAT(Explain(""), StartsWith("TrainingJob (lockstep.dev/v1)\n\nDESCRIPTION:\n"));
  EXPECT_EQ(Explain("trainingjob"), Explain(""));
  EXPECT_EQ(Explain("tj.spec.roles"), Explain("spec.roles"));
}

TEST(ExplainField, PathMayBeginWithTheQueue) {
  EXPECT_EQ(KindOfField("spec.nominal"), "TrainingJob");
  EXPECT_EQ(KindOfField("tqs.spec"), "TrainingJob");
  EXPECT_EQ(KindOfField("trainingqueue"), "TrainingQueue");
  const JobSchema schema(KindOfField("tq.spec"));
  EXPECT_THAT(
      ExplainField("tq.spec.namespaces", schema).value(),
      StartsWith("TrainingQueue (lockstep.dev/v1)\nFIELD:    spec.namespaces <[]string>\n"));
  EXPECT_THAT(ExplainField("TrainingQueue", schema).value(), HasSubstr("share of the cluster"));
  EXPECT_THAT(ExplainField("tq.nominal", schema).value(), HasSubstr("spec.nominal <map of "));
  EXPECT_THAT(ExplainField("tq.nominel", schema).error().ToString(), HasSubstr("spec.nominal"));
}

TEST(ExplainField, LinesFitEightyColumns) {
  for (const char* field :
       {"", "spec", "spec.roles", "spec.training", "spec.roles.template.spec"}) {
    const std::string text = Explain(field);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      EXPECT_LE(end - at, 80U) << text.substr(at, end - at);
      at = end + 1;
    }
  }
}

TEST(ExplainField, MistakesAreTold) {
  EXPECT_THAT(Explain("spec.trainin"), HasSubstr("did you mean spec.training?"));
  EXPECT_THAT(Explain("spec..training"), HasSubstr("the name of a field is missing"));
}

}  // namespace
}  // namespace lockstep::control
