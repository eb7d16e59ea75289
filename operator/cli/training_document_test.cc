// docs/reference/training.md tells what spec.training takes; these tests hold it to the schema and
// the decoder: every field with its type and default, every layer and optimizer with its own, every
// word, and nothing that is not there.

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/io/file.h"
#include "common/base/testing/paths.h"
#include "common/contract/training/training_names.h"
#include "common/contract/training/training_spec.h"
#include "operator/cli/schema/job_schema.h"

namespace lockstep::control {
namespace {

constexpr const char* kMinimal = R"({
  "model": {"inputShape": [8, 8, 1],
            "layers": [{"type": "MaxPooling2D"}, {"type": "Flatten"}, {"type": "Flatten"},
                       {"type": "Dense", "units": 2, "activation": "softmax"}]},
  "loss": {"type": "CategoricalCrossentropy"},
  "optimizer": {"type": "Adam"},
  "dataset": {"format": "idx", "images": "i", "labels": "l"}})";

// Its fields stand in a section for each type, as those of a layer do.
constexpr std::string_view kByType = "optimizer";

// One row "| `field` | type | default | meaning |" of a table.
struct Row {
  std::string type;
  std::string fallback;
};

std::string Trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  const std::size_t end = text.find_last_not_of(' ');
  return begin == text.npos ? "" : std::string(text.substr(begin, end - begin + 1));
}

std::string ValueText(const Json& value) {
  if (value.is_string()) {
    return value.get<std::string>();
  }
  std::string text;
  for (const char letter : DumpJson(value)) {
    text += letter == ',' ? ", " : std::string(1, letter);
  }
  // 30.0 is written 30.
  return value.is_number_float() && text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

// What the row of a field says of its values.
std::string TypeCell(const Json& schema) {
  if (schema.contains("enum")) {
    std::string words;
    for (const Json& word : schema["enum"]) {
      words += (words.empty() ? "`" : ", `") + word.get<std::string>() + "`";
    }
    return words;
  }
  std::string text = SchemaTypeText(schema);
  if (schema.contains("minimum")) {
    const bool is_open = schema.value("exclusiveMaximum", false);
    text += schema.contains("maximum")
                ? ", " + ValueText(schema["minimum"]) + (is_open ? " to below " : " to ") +
                      ValueText(schema["maximum"])
                : ", at least " + ValueText(schema["minimum"]);
  }
  return text;
}

class TrainingDocument : public ::testing::Test {
 protected:
  using Rows = std::map<std::string, Row>;

  void SetUp() override {
    const auto text = ReadFile(RepositoryFile("docs/reference/training.md"), 1 << 20);
    ASSERT_TRUE(text.ok()) << text.error().ToString();
    text_ = *text;
    FieldPath path = ParseFieldPath("spec.training").value();
    training_ = *schema_.Find(&path).value();
  }

  // The rows of the tables below a heading, until the next one.
  Rows RowsBelow(const std::string& heading) const {
    const std::size_t begin = text_.find("\n" + heading + "\n");
    EXPECT_NE(begin, text_.npos) << "no heading " << heading;
    return begin == text_.npos ? Rows() : RowsIn(text_.substr(begin + 1, EndOf(begin + 1) - begin));
  }

  std::size_t EndOf(std::size_t begin) const {
    const std::size_t end = text_.find("\n#", begin);
    return end == text_.npos ? text_.size() : end;
  }

  static Rows RowsIn(const std::string& text) {
    Rows rows;
    for (std::size_t at = text.find("\n| `"); at != text.npos; at = text.find("\n| `", at + 1)) {
      const std::string line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
      std::vector<std::string> cells;
      for (std::size_t bar = 0; bar != line.npos; bar = line.find('|', bar + 1)) {
        const std::size_t next = std::min(line.find('|', bar + 1), line.size());
        cells.push_back(Trimmed(line.substr(bar + 1, next - bar - 1)));
      }
      if (cells.size() >= 4) {
        rows[cells[0].substr(1, cells[0].size() - 2)] = {cells[1], cells[2]};
      }
    }
    return rows;
  }

  // Every field below spec.training that holds a value, but for those told by type.
  void Visit(const Json& object,
             const std::string& path,
             const std::function<void(const std::string&, const Json&, bool is_required)>& visit) {
    for (const auto& [name, property] : object["properties"].items()) {
      const std::string here = path.empty() ? name : path + "." + name;
      bool is_required = false;
      for (const Json& required : object.value("required", Json::array())) {
        is_required = is_required || required == name;
      }
      if (!property.contains("properties")) {
        visit(here, property, is_required);
      } else if (here != kByType) {
        Visit(property, here, visit);
      }
    }
  }

  // What the decoder makes of the minimal section with `value` at `pointer`.
  static std::vector<Error> Problems(const std::string& pointer, const Json& value, Json* encoded) {
    Json document = ParseJson(kMinimal).value();
    document[Json::json_pointer(pointer)] = value;
    std::vector<Error> errors;
    const TrainingSpec spec = DecodeTrainingSpec(document, "", &errors);
    if (encoded != nullptr && errors.empty()) {
      *encoded = EncodeTrainingSection(spec);
    }
    return errors;
  }

  // Holds one type's section to the fields that the decoder knows for it.
  void CheckType(const std::string& heading,
                 const std::string& pointer,
                 const Json& smallest,
                 const Json& properties) {
    const Rows rows = RowsBelow(heading);
    Json encoded;
    const std::vector<Error> errors = Problems(pointer, smallest, &encoded);
    ASSERT_TRUE(errors.empty()) << heading << ": " << errors.front().ToString();
    const Json written = encoded[Json::json_pointer(pointer)];
    std::set<std::string> known;
    for (const auto& [name, property] : properties.items()) {
      Json probe = smallest;
      probe[name] = Json::object();
      bool is_unknown = name == "type";
      for (const Error& error : Problems(pointer, probe, nullptr)) {
        is_unknown = is_unknown || error.message().find("unknown field") != std::string::npos;
      }
      if (is_unknown) {
        continue;
      }
      known.insert(name);
      ASSERT_TRUE(rows.contains(name)) << heading << " lacks " << name;
      EXPECT_EQ(rows.at(name).type, TypeCell(property)) << heading << " " << name;
      if (heading == "### MaxPooling2D" && name == "strides") {
        EXPECT_EQ(rows.at(name).fallback, "poolSize");
        continue;
      }
      EXPECT_EQ(rows.at(name).fallback,
                smallest.contains(name) ? "required" : ValueText(written[name]))
          << heading << " " << name;
    }
    for (const auto& [name, row] : rows) {
      EXPECT_TRUE(known.contains(name)) << heading << " tells of " << name;
    }
  }

  JobSchema schema_;
  Json training_;
  std::string text_;
};

TEST_F(TrainingDocument, TellsEveryFieldWithItsTypeAndDefault) {
  const Rows rows = RowsIn(text_);
  Json encoded;
  ASSERT_TRUE(Problems("/seed", 0, &encoded).empty());
  Visit(training_, "", [&](const std::string& path, const Json& schema, bool is_required) {
    ASSERT_TRUE(rows.contains(path))
        << "no row of " << path << ": | `" << path << "` | " << TypeCell(schema) << " |";
    EXPECT_EQ(rows.at(path).type, TypeCell(schema)) << path;
    std::string pointer = "/" + path;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    const Json::json_pointer at(pointer);
    const bool has_default = encoded.contains(at) && !encoded[at].is_null();
    EXPECT_EQ(rows.at(path).fallback,
              is_required              ? "required"
              : has_default            ? ValueText(encoded[at])
              : path == "maxStaleness" ? "4 with `ParameterServer`"
                                       : "none")
        << path;
  });
}

TEST_F(TrainingDocument, EveryLayerHasItsFields) {
  const Json& properties =
      training_["properties"]["model"]["properties"]["layers"]["items"]["properties"];
  const std::map<std::string, Json> smallest = {
      {"Dense", {{"type", "Dense"}, {"units", 2}}},
      {"Conv2D", {{"type", "Conv2D"}, {"filters", 2}, {"kernelSize", 1}}},
      {"MaxPooling2D", {{"type", "MaxPooling2D"}}},
      {"Flatten", {{"type", "Flatten"}}},
      {"Dropout", {{"type", "Dropout"}, {"rate", 0.5}}},
  };
  for (const auto& [type, name] : kLayerTypeNames) {
    const std::string word(name);
    ASSERT_TRUE(smallest.contains(word)) << "no smallest layer of type " << word << " here";
    const bool reads_images = type == LayerType::kConv2D || type == LayerType::kMaxPooling2D;
    CheckType("### " + word,
              reads_images ? "/model/layers/0" : "/model/layers/2",
              smallest.at(word),
              properties);
  }
}

TEST_F(TrainingDocument, EveryOptimizerHasItsFields) {
  const Json& properties = training_["properties"]["optimizer"]["properties"];
  for (const auto& [type, name] : kOptimizerTypeNames) {
    CheckType("### " + std::string(name), "/optimizer", {{"type", name}}, properties);
  }
}

TEST_F(TrainingDocument, TellsEveryWord) {
  std::vector<std::string_view> words = WordsOf(kActivationNames);
  for (const auto& more : {WordsOf(kPaddingNames),
                           WordsOf(kLossTypeNames),
                           WordsOf(kDatasetFormatNames),
                           WordsOf(kAllReduceBackendNames),
                           WordsOf(kPrecisionNames),
                           WordsOf(kRemainderRuleNames)}) {
    words.insert(words.end(), more.begin(), more.end());
  }
  for (const std::string_view word : words) {
    EXPECT_NE(text_.find("`" + std::string(word) + "`"), text_.npos) << word;
  }
}

}  // namespace
}  // namespace lockstep::control
