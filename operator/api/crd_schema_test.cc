// The CustomResourceDefinition says again what this folder's decoder, defaults and encoder do. Here
// it is read field by field and held to them; rules between fields are held by crds/examples.

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/io/file.h"
#include "common/base/testing/paths.h"
#include "operator/api/decode_job.h"
#include "operator/api/fields/fields.h"
#include "operator/api/job/encode.h"
#include "operator/api/job/job_names.h"
#include "operator/api/job/pod_template.h"
#include "operator/api/job_manifest.h"
#include "operator/api/queue/training_queue.h"
#include "operator/yaml/yaml.h"

namespace lockstep::control {
namespace {

using ::testing::HasSubstr;

Json ReadDocument(const std::string& name) {
  const Result<std::string> text = ReadFile(RepositoryFile("crds/" + name), kManifestBytesMax);
  EXPECT_TRUE(text.ok()) << text.error().ToString();
  const YamlStream stream = ReadYaml(text.ok() ? *text : "");
  EXPECT_TRUE(stream.problems.empty()) << stream.problems.front().message;
  return stream.documents.at(0).value;
}

Json ReadSchema() {
  const Json crd = ReadDocument("lockstep.dev_trainingjobs.yaml");
  return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
}

// One node of the schema. A path is written with "/0" for the elements of a list.
struct SchemaNode {
  std::string path;  // "/spec/roles/0/gpus": a JSON pointer into a manifest
  const Json* schema = nullptr;
  const Json* parent = nullptr;  // the object schema that holds it as a property; else null

  Json::json_pointer pointer() const { return Json::json_pointer(path); }

  std::string name() const { return path.substr(path.rfind('/') + 1); }

  // "spec.roles[0].gpus": the same, as errors have it.
  std::string field() const {
    std::string field;
    for (std::size_t at = 1; at < path.size();) {
      const std::size_t end = std::min(path.find('/', at), path.size());
      const std::string token = path.substr(at, end - at);
      field += token == "0" ? "[0]" : (field.empty() ? "" : ".") + token;
      at = end + 1;
    }
    return field;
  }
};

// Whether what stands inside is handed on unread.
bool IsOpaque(const Json& schema) {
  return schema.contains("x-kubernetes-preserve-unknown-fields");
}

// Visits the node and all that the decoder reads below it.
void Walk(const SchemaNode& node, const std::function<void(const SchemaNode&)>& visit) {
  visit(node);
  const bool takes_none = node.schema->value("maxItems", Json()) == 0;
  if (node.schema->contains("items") && !IsOpaque((*node.schema)["items"]) && !takes_none) {
    Walk({node.path + "/0", &(*node.schema)["items"], nullptr}, visit);
  }
  if (node.schema->contains("properties")) {
    for (const auto& [name, property] : (*node.schema)["properties"].items()) {
      Walk({node.path + "/" + name, &property, node.schema}, visit);
    }
  }
}

bool IsType(const Json& schema, std::string_view type) {
  return schema.contains("type") && schema["type"] == type;
}

// The message of the rule that refuses the field wherever it stands; empty if none does.
std::string RefusalOf(const SchemaNode& node) {
  if (node.parent == nullptr || !node.parent->contains("x-kubernetes-validations")) {
    return "";
  }
  for (const Json& rule : (*node.parent)["x-kubernetes-validations"]) {
    if (rule["rule"] == "!has(self." + node.name() + ")") {
      return rule["message"];
    }
  }
  return "";
}

// Fields that belong to one type of layer or optimizer, and that type.
std::string TypeThatHas(const SchemaNode& node) {
  static const std::map<std::string, std::set<std::string>> kFields = {
      {"Dense", {"units"}},
      {"Conv2D", {"filters", "kernelSize", "strides", "padding", "activation"}},
      {"MaxPooling2D", {"poolSize"}},
      {"Dropout", {"rate"}},
      {"SGD", {"momentum", "nesterov", "learningRate"}},
      {"Adam", {"beta1", "beta2", "epsilon"}},
      {"AdamW", {"weightDecay"}},
  };
  const auto found = std::find_if(kFields.begin(), kFields.end(), [&](const auto& type) {
    return type.second.contains(node.name());
  });
  return found == kFields.end() ? "" : found->first;
}

// What the decoder says of `value` at the node; empty when nothing.
std::string ProblemWith(const SchemaNode& node, const Json& value, const std::string& at = "") {
  Json document = ReadDocument("examples/valid/smallest.yaml");
  const Json::json_pointer pointer = node.pointer();
  document[pointer] = value;
  const std::string type = TypeThatHas(node);
  if (!type.empty()) {
    document[pointer.parent_pointer() / "type"] = type;
  }
  for (const Error& error : DecodeTrainingJob(document).errors) {
    if (error.field() == node.field() + at) {
      return error.message();
    }
  }
  return "";
}

std::string Joined(const std::vector<std::string>& words) {
  return std::accumulate(words.begin(), words.end(), std::string(), [](auto text, auto word) {
    return text.empty() ? word : text + ", " + word;
  });
}

std::string RangeText(const Json& schema) {
  if (!schema.contains("minimum")) {
    return "";
  }
  const std::string minimum = DumpJson(schema["minimum"]);
  return schema.contains("maximum") ? " from " + minimum + " to " + DumpJson(schema["maximum"])
                                    : " of at least " + minimum;
}

// How the decoder would say what the schema asks for.
std::string ExpectedText(const Json& schema) {
  if (schema.contains("enum")) {
    return "one of " + Joined(schema["enum"].get<std::vector<std::string>>());
  }
  if (IsType(schema, "number")) {
    return "a number" + RangeText(schema);
  }
  if (schema.contains("x-kubernetes-int-or-string")) {
    return "a quantity such as 2";
  }
  if (IsType(schema, "integer") || !schema.contains("type")) {
    return "a whole number" + RangeText(schema);
  }
  return IsType(schema, "boolean")  ? "true or false"
         : IsType(schema, "string") ? "a string"
         : IsType(schema, "array")  ? "a list"
                                    : "an object";
}

class CrdSchema : public ::testing::Test {
 protected:
  // Every field of the spec that the decoder reads itself.
  void VisitSpec(const std::function<void(const SchemaNode&)>& visit) {
    Walk({"/spec", &schema_["spec"], nullptr}, visit);
  }

  const Json schema_ = ReadSchema();
};

TEST_F(CrdSchema, EveryFieldHasTheTypeRangeAndWordsThatTheDecoderAsksFor) {
  int checked = 0;
  VisitSpec([&](const SchemaNode& node) {
    if (node.field().ends_with("inputShape[0]")) {
      return;  // told of the list as a whole
    }
    // A value of the wrong type for any field.
    const Json wrong = IsType(*node.schema, "object") ? Json::array() : Json({{"zzz", 1}});
    const std::string refusal = RefusalOf(node);
    EXPECT_THAT(
        ProblemWith(node, wrong),
        HasSubstr(refusal.empty() ? " found, expected " + ExpectedText(*node.schema) : refusal))
        << node.field();
    ++checked;
    if (node.schema->contains("items") && refusal.empty()) {
      const std::string problem =
          ProblemWith(node, {true}) + ProblemWith({node.path + "/0", nullptr, nullptr}, true);
      EXPECT_NE(problem, "") << node.field() << " takes elements of any type";
    }
  });
  EXPECT_GT(checked, 150);
}

TEST_F(CrdSchema, EveryObjectHasTheFieldsThatTheDecoderKnows) {
  int checked = 0;
  VisitSpec([&](const SchemaNode& node) {
    const bool has_types = node.name() == "optimizer" || node.field().ends_with("layers[0]");
    if (!node.schema->contains("properties") || has_types) {
      return;
    }
    std::set<std::string> names;
    for (const auto& [name, unused] : (*node.schema)["properties"].items()) {
      names.insert(name);
    }
    EXPECT_EQ(ProblemWith(node, {{"zzz", 1}}, ".zzz"),
              "unknown field, expected one of " +
                  Joined(std::vector<std::string>(names.begin(), names.end())))
        << node.field();
    ++checked;
  });
  EXPECT_GT(checked, 15);
}

TEST_F(CrdSchema, RequiredFieldsAreRequiredByTheDecoder) {
  int checked = 0;
  VisitSpec([&](const SchemaNode& node) {
    if (!node.schema->contains("required")) {
      return;
    }
    for (const Json& name : (*node.schema)["required"]) {
      EXPECT_THAT(ProblemWith(node, Json::object(), "." + name.get<std::string>()),
                  HasSubstr("missing, expected "))
          << node.field() << " " << name;
      ++checked;
    }
  });
  EXPECT_GE(checked, 19);
}

TEST_F(CrdSchema, DefaultsAreThoseOfTheDecoder) {
  const Json training = EncodeTrainingJob(
      DecodeTrainingJob(ReadDocument("examples/valid/smallest-training.yaml")).job);
  int checked = 0;
  VisitSpec([&](const SchemaNode& node) {
    const bool is_raw = node.path.find("/template/") != std::string::npos;
    if (!node.schema->contains("default") || (*node.schema)["default"] == Json::object() ||
        is_raw || node.field() == "spec.replicas") {  // 0 says nothing: it is not kept
      return;
    }
    const Json encoded = training.value(node.pointer(), Json());
    const Json& expected = (*node.schema)["default"];
    EXPECT_TRUE(encoded == expected) << node.field() << " " << DumpJson(encoded);
    ++checked;
  });
  EXPECT_GE(checked, 20);
}

TEST_F(CrdSchema, TolerationsCompareByDefaultAsTheDecoderSays) {
  int checked = 0;
  VisitSpec([&](const SchemaNode& node) {
    if (node.field().ends_with("tolerations[0].operator")) {
      EXPECT_EQ((*node.schema)["default"], Toleration().is_exists ? "Exists" : "Equal");
      ++checked;
    }
  });
  EXPECT_EQ(checked, 1);
}

TEST_F(CrdSchema, VariablesThatTheOperatorSetsAreRefused) {
  VisitSpec([&](const SchemaNode& node) {
    if (!node.field().ends_with("env[0]")) {
      return;
    }
    const std::string rule = (*node.schema)["x-kubernetes-validations"][0]["rule"];
    EXPECT_THAT(rule, HasSubstr(std::string("startsWith('") + kReservedPrefix.data() + "')"));
    for (const std::string_view name : kReservedEnvironment) {
      EXPECT_THAT(rule, HasSubstr("'" + std::string(name) + "'"));
    }
    EXPECT_THAT(rule, HasSubstr("self.name == '" + std::string(kLibraryVariable) + "'"));
    const auto quotes = std::count(rule.begin(), rule.end(), '\'');
    EXPECT_EQ(quotes, 2 * (2 + std::ssize(kReservedEnvironment))) << "names that are not reserved";
  });
}

TEST_F(CrdSchema, ListsHaveTheLengthsThatTheDecoderAllows) {
  int checked = 0;
  VisitSpec([&](const SchemaNode& node) {
    if (!node.schema->contains("maxItems") || !node.schema->contains("type") ||
        node.name() == "matchFields") {  // told of, whatever their number
      return;
    }
    // Roles one by one are told as duplicates up to twice their number.
    const std::size_t limit = (*node.schema)["maxItems"];
    const auto items = [&](std::size_t count) {
      const Json& schema = (*node.schema)["items"];
      const Json item = IsType(schema, "integer") ? Json(1) : Json::object();
      std::vector<Json> list(count, item);
      for (std::size_t i = 0; IsType(schema, "string") && i < count; ++i) {
        list[i] = std::to_string(i);  // a set of words
      }
      return list;
    };
    EXPECT_EQ(ProblemWith(node, items(limit)), "") << node.field();
    const std::size_t too_many = node.name() == "roles" ? limit * 2 + 1 : limit + 1;
    EXPECT_NE(ProblemWith(node, items(too_many)), "") << node.field();
    ++checked;
  });
  EXPECT_GE(checked, 6);
}

// Texts of every length around a bound, and some that patterns tell apart.
std::vector<std::string> TextsFor(const Json& schema) {
  std::istringstream words(
      "a A 9 - a- .a a.b a..b a_b a/b a/b/c /b \u00fc GPU-a MIG- 01 999 1000 A.b 1.5Gi 1e+09 1e-3 "
      "1E 1Gim .5 . +1 -1 1e100 9223372036854775806 1.00000000000000000000000000001");
  std::vector<std::string> texts(std::istream_iterator<std::string>(words), {});
  const std::size_t most = schema.value("maxLength", 0U);
  texts.insert(texts.end(), {"", "a b", "GPU- ", std::string(most, 'a'), std::string(most, '0')});
  texts.insert(texts.end(), {std::string(most + 1, 'a'), std::string(most + 1, '0')});
  return texts;
}

TEST_F(CrdSchema, TextsHaveTheLengthsAndPatternsThatTheDecoderAllows) {
  int checked = 0;
  const auto check = [&](const SchemaNode& node) {
    const Json& schema = *node.schema;
    const bool has_pattern = schema.contains("pattern") && !schema.contains("multipleOf");
    if ((!has_pattern && !schema.contains("maxLength") && !schema.contains("minLength")) ||
        node.field().ends_with("env[0].value")) {  // bounded together with its name
      return;
    }
    const std::regex pattern(schema.value("pattern", ""));
    for (const std::string& text : TextsFor(schema)) {
      const bool is_taken = CharacterCount(text) <= schema.value("maxLength", SIZE_MAX) &&
                            CharacterCount(text) >= schema.value("minLength", 0U) &&
                            (!has_pattern || std::regex_search(text, pattern));
      const std::string problem = ProblemWith(node, text);
      const bool has_rules =
          schema.contains("x-kubernetes-validations") || node.name() == "key";  // of a toleration
      EXPECT_TRUE(is_taken ? problem.empty() || has_rules : !problem.empty())
          << node.field() << " " << text.substr(0, 80) << " " << problem;
      ++checked;
    }
  };
  VisitSpec([&](const SchemaNode& node) {
    check(node);
    if (node.schema->contains("additionalProperties")) {
      const Json& inner = (*node.schema)["additionalProperties"];
      check({node.path + (IsType(inner, "string") ? "/a" : "/memory"), &inner, nullptr});
    }
  });
  EXPECT_GT(checked, 1000);
}

// `kubectl explain` shows descriptions, but no defaults.
TEST_F(CrdSchema, EveryFieldIsExplainedWithItsDefault) {
  const auto check = [](const SchemaNode& node) {
    const bool is_element = node.path.ends_with("/0") && !IsType(*node.schema, "object");
    const std::string description = node.schema->value("description", "");
    EXPECT_TRUE(is_element || !description.empty()) << node.field();
    const Json fallback = node.schema->value("default", Json());
    if (fallback.is_primitive() && !fallback.is_null()) {
      const std::string text =
          fallback.is_string() ? fallback.get<std::string>() : DumpJson(fallback);
      EXPECT_THAT(description, HasSubstr("Default: " + text + ".")) << node.field();
    }
  };
  VisitSpec(check);
  Walk({"/status", &schema_["status"], nullptr}, check);
}

// A job with something in every field of its status.
TrainingJob JobWithFullStatus() {
  TrainingJob job;
  job.metadata.name = "job";
  job.spec.roles.resize(1);
  TrainingJobStatus& status = job.status;
  status.conditions = {{ConditionType::kRunning, true, "R", "m", WallTime{}}};
  status.placement = {
      {Role::kWorker, 0, "node", Incarnation(1), WallTime{}, "uid", true, true, {"GPU-1"}}};
  status.placement[0].trouble_since = WallTime{};
  status.placement[0].disruption = "EvictionByEvictionAPI";
  status.placement[0].has_moved = true;
  status.suspect_nodes = {{"node", "PodRefused", 1, WallTime{}}};
  status.claim = RoomClaim{WallTime{}, {{"a/b", "uid", Attempt(1)}}, {{"worker-0", "node"}}};
  status.queue = QueuePosition{"vision", 1, WallTime{}};
  const Toleration toleration{"key", false, "value", "NoExecute", std::chrono::seconds(1)};
  const std::map<std::string, std::string> map = {{"a", "b"}};
  status.kueue = {"uid", "gpus", {{Role::kWorker, map, {toleration}, map, map}}};
  status.provisioning = {
      1,
      OpenAsk{ProvisioningClass::kCheckCapacity, "revision", {}, true, WallTime{}},
      1,
      WallTime{},
      "none"};
  status.relaunch = {1, WallTime{}, WallTime{}, true};
  status.preemptions = 1;
  status.origin = {
      1, "0123", "image", "vision", "urgent", GrantedPriority{1, false}, std::chrono::seconds(60)};
  status.admitted = status.origin.requests = {{Role::kWorker, "memory", 1}};
  status.pod_group = "group";
  status.roles = {{Role::kWorker, 0, 1, 0, 0}};
  status.restarts = {{"crash", 1}};
  status.incidents = {{WallTime{}, "crash", "node-a", 7, /*is_free=*/true, 1}};
  status.last_failure = LastFailure{"mnist-worker-0", WallTime{}, "exit code 1", "Traceback"};
  status.progress = JobProgress();
  status.progress->checkpoint_at = WallTime{};
  status.progress->models = {{0, 7, {}}};
  status.result = TestResult{0.5, 0.9, {{0.4, 0.5, 0.9}}};
  status.start_time = status.completion_time = status.retry_at = status.waiting_since =
      status.preempted_at = WallTime{};
  status.ran_before = std::chrono::seconds(1);
  return job;
}

void ExpectFits(const Json& value, const SchemaNode& node) {
  const Json& schema = *node.schema;
  if (schema.contains("additionalProperties")) {
    ASSERT_EQ(value.size(), 1U) << node.field();
    ExpectFits(value.front(), {node.path + "/any", &schema["additionalProperties"], &schema});
  } else if (IsType(schema, "object")) {
    ASSERT_TRUE(value.is_object()) << node.field();
    std::set<std::string> names;
    for (const auto& [name, unused] : value.items()) {
      names.insert(name);
    }
    std::set<std::string> properties;
    for (const auto& [name, property] : schema["properties"].items()) {
      properties.insert(name);
      if (value.contains(name)) {
        ExpectFits(value[name], {node.path + "/" + name, &property, &schema});
      }
    }
    EXPECT_EQ(names, properties) << node.field();
  } else if (IsType(schema, "array")) {
    ASSERT_EQ(value.size(), 1U) << node.field();
    ExpectFits(value[0], {node.path + "/0", &schema["items"], nullptr});
  } else {
    const bool fits = IsType(schema, "integer")   ? value.is_number_integer()
                      : IsType(schema, "number")  ? value.is_number()
                      : IsType(schema, "boolean") ? value.is_boolean()
                                                  : value.is_string();
    EXPECT_TRUE(fits) << node.field() << " " << DumpJson(value);
  }
}

TEST_F(CrdSchema, StatusHasTheFieldsThatTheEncoderWrites) {
  ExpectFits(EncodeStatus(JobWithFullStatus()), {"/status", &schema_["status"], nullptr});
}

TEST(Crd, ColumnsAndScaleReadFieldsThatExist) {
  const Json crd = ReadDocument("lockstep.dev_trainingjobs.yaml");
  const Json& version = crd["spec"]["versions"][0];
  std::vector<std::string> paths = {version["subresources"]["scale"]["specReplicasPath"],
                                    version["subresources"]["scale"]["statusReplicasPath"],
                                    version["subresources"]["scale"]["labelSelectorPath"]};
  for (const Json& column : version["additionalPrinterColumns"]) {
    paths.push_back(column["jsonPath"]);
  }
  for (const std::string& path : paths) {
    const Json* schema = &version["schema"]["openAPIV3Schema"];
    for (std::size_t at = 1; at < path.size() && !path.starts_with(".metadata");) {
      const std::size_t end = std::min(path.find('.', at), path.size());
      const std::string name = path.substr(at, end - at);
      ASSERT_TRUE((*schema)["properties"].contains(name)) << path;
      schema = &(*schema)["properties"][name];
      at = end + 1;
    }
  }
}

// Nothing in it is of the type that the document has there.
TEST(QueueSchema, ReaderKnowsEveryFieldAndItsRange) {
  const Json crd = ReadDocument("lockstep.dev_trainingqueues.yaml");
  const Json schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
  for (const auto& [name, property] : schema["properties"].items()) {
    const auto problem = [&field = name](const Json& value) {
      const DecodedQueue decoded =
          DecodeTrainingQueue({{"metadata", {{"name", "q"}}}, {"spec", {{field, value}}}});
      return decoded.errors.empty() ? "" : decoded.errors.front().ToString();
    };
    EXPECT_THAT(problem(true), ::testing::StartsWith("spec." + name)) << name;
    EXPECT_THAT(problem(true), ::testing::Not(HasSubstr("unknown"))) << name;
    if (property.contains("minimum")) {
      EXPECT_EQ(problem(property["minimum"]), "") << name;
      EXPECT_NE(problem(property["minimum"].get<int64_t>() - 1), "") << name;
      EXPECT_EQ(problem(property["maximum"]), "") << name;
      EXPECT_NE(problem(property["maximum"].get<int64_t>() + 1), "") << name;
    }
  }
}

}  // namespace
}  // namespace lockstep::control
