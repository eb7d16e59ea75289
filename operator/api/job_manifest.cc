#include "operator/api/job_manifest.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/name_list.h"
#include "common/base/printable.h"
#include "common/contract/text/problems.h"
#include "operator/api/decode_job.h"
#include "operator/api/fields/fields.h"
#include "operator/api/job/jobs_by_name.h"
#include "operator/api/queue/queue_family.h"
#include "operator/api/queue/training_queue.h"
#include "operator/api/rules/launch_remarks.h"
#include "operator/yaml/yaml.h"

namespace lockstep::control {
namespace {

ManifestProblem MakeProblem(TextPosition at, std::string field, std::string message) {
  Error error = Error(ErrorCode::kInvalidArgument, std::move(message)).WithField(std::move(field));
  return {at.line, at.column, std::move(error)};
}

// Where a problem of `field` is shown.
TextPosition PlaceOf(const YamlDocument& document, const std::string& field) {
  const TextPosition at = document.positions.Find(field);
  return at.line == 0 ? document.start : at;
}

ManifestProblem ProblemOf(const YamlDocument& document,
                          const std::string& field,
                          std::string message) {
  ManifestProblem problem = MakeProblem(PlaceOf(document, field), field, std::move(message));
  problem.item = document.item;
  return problem;
}

// JSON read as JSON, with positions from the YAML reader, of which JSON is a subset but for corners
// (a tab here, an escape there) in which positions are then unknown.
YamlStream ReadJsonText(Json value, std::string_view text) {
  YamlStream stream = ReadYaml(text);
  const bool has_positions = stream.problems.empty() && stream.documents.size() == 1;
  YamlDocument document = has_positions ? std::move(stream.documents.front()) : YamlDocument();
  document.value = std::move(value);
  YamlStream result;
  result.documents.push_back(std::move(document));
  return result;
}

YamlStream ReadStream(std::string_view text, std::string_view file) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool looks_like_json = first != std::string_view::npos && text[first] == '{';
  if (looks_like_json || file.ends_with(".json")) {
    Result<Json> value = ParseJson(text);
    if (value.ok()) {
      return ReadJsonText(std::move(value).value(), text);
    }
    if (file.ends_with(".json")) {
      YamlStream stream;
      stream.problems.push_back({{}, "", value.error().message()});
      return stream;
    }
  }
  return ReadYaml(text);
}

std::string TextAt(const Json& document, const char* key) {
  return document.is_object() && document.contains(key) && document[key].is_string()
             ? document[key].get<std::string>()
             : "";
}

bool IsOurs(const Json& document) {
  constexpr std::string_view kGroup = kApiVersion.substr(0, kApiVersion.find('/') + 1);
  return TextAt(document, "apiVersion").starts_with(kGroup);
}

bool IsQueue(const Json& document) {
  return IsOurs(document) && TextAt(document, "kind") == kTrainingQueueKind;
}

// Whether the document says that it is something else: kind and API group are both foreign.
bool IsForeign(const Json& document) {
  const std::string kind = TextAt(document, "kind");
  return !IsOurs(document) && !TextAt(document, "apiVersion").empty() && !kind.empty() &&
         kind != kTrainingJobKind;
}

SkippedDocument SkippedOf(const YamlDocument& document) {
  const Json& value = document.value;
  return {document.start.line,
          TextAt(value, "kind"),
          value.contains("metadata") ? TextAt(value["metadata"], "name") : ""};
}

// Takes foreign documents out of the stream, unless there is nothing else: then they are taken for
// mistakes.
void SkipForeign(YamlStream* stream, Manifest* manifest) {
  const auto is_foreign = [](const YamlDocument& document) { return IsForeign(document.value); };
  if (manifest->queues.empty() &&
      std::all_of(stream->documents.begin(), stream->documents.end(), is_foreign)) {
    return;
  }
  for (const YamlDocument& document : stream->documents) {
    if (is_foreign(document)) {
      manifest->skipped.push_back(SkippedOf(document));
    }
  }
  std::erase_if(stream->documents, is_foreign);
}

// What the API server would refuse of a queue.
std::vector<Error> QueueErrors(const Json& document) {
  std::vector<Error> errors = DecodeTrainingQueue(document).errors;
  if (TextAt(document, "apiVersion") != kApiVersion) {
    AddError(&errors,
             "apiVersion",
             DescribeJson(document["apiVersion"]) + " found, expected " + std::string(kApiVersion));
  }
  ObjectReader reader(document, "", &errors);
  std::string name;
  if (const Json* const metadata = reader.Require("metadata", "an object with a name")) {
    name = DecodeMetadata(*metadata, &errors).name;
  }
  PassThrough(reader, {"apiVersion", "kind", "spec", "status"});
  reader.Finish();
  if (!document.contains("spec") || document["spec"].is_null()) {
    AddError(&errors, "spec", "missing, expected an object");
  } else if (!name.empty() && TextAt(document["spec"], "parent") == name) {
    AddError(&errors,
             "spec.parent",
             Quoted(name) + " found, expected a different queue: a queue cannot be its own parent");
  }
  return errors;
}

// Takes the queues out of the stream, and notes what is wrong with each and with all together.
// Returns them.
std::vector<TrainingQueue> TakeQueues(YamlStream* stream, Manifest* manifest) {
  std::vector<TrainingQueue> queues;
  std::vector<const YamlDocument*> origins;
  std::map<std::string, int> first_lines;
  for (const YamlDocument& document : stream->documents) {
    if (!IsQueue(document.value)) {
      continue;
    }
    manifest->queues.push_back(SkippedOf(document));
    const std::string& name = manifest->queues.back().name;
    const TextPosition at = PlaceOf(document, "metadata.name");
    const auto [first, is_new] = first_lines.try_emplace(name, at.line);
    if (!is_new && !name.empty()) {
      manifest->problems.push_back(
          ProblemOf(document,
                    "metadata.name",
                    Quoted(name) + " found twice, first on line " + std::to_string(first->second)));
    }
    for (const Error& error : QueueErrors(document.value)) {
      manifest->problems.push_back(ProblemOf(document, error.field(), error.message()));
    }
    if (is_new && !name.empty()) {
      queues.push_back(DecodeTrainingQueue(document.value).queue);
      origins.push_back(&document);
    }
  }
  for (const QueueRemark& remark : RemarksOn(queues)) {
    (remark.is_refused ? manifest->problems : manifest->warnings)
        .push_back(ProblemOf(*origins[remark.queue], remark.field, remark.message));
  }
  std::erase_if(stream->documents,
                [](const YamlDocument& document) { return IsQueue(document.value); });
  return queues;
}

// A job waits for ever in a queue that others are below.
void CheckQueuesOfJobs(const YamlStream& stream,
                       const std::vector<TrainingQueue>& queues,
                       Manifest* manifest) {
  constexpr const char* kField = "spec.scheduling.queue";
  for (std::size_t i = 0; i < manifest->jobs.size(); ++i) {
    const std::string& queue = manifest->jobs[i].spec.scheduling.queue;
    const std::vector<std::string> below = QueuesBelow(queues, queue);
    if (!queue.empty() && !below.empty()) {
      manifest->problems.push_back(ProblemOf(
          stream.documents[i],
          kField,
          Quoted(queue) +
              " found, but this queue has queues below it; name one of them: " + NameList(below)));
    }
  }
}

// C strings, and so paths, arguments and variables, end at a zero byte: what comes behind it would
// be lost in silence. YAML and JSON can write one ("\\0").
void FindZeroBytes(const Json& value, const std::string& path, std::vector<Error>* errors) {
  if (value.is_string() && value.get_ref<const std::string&>().find('\0') != std::string::npos) {
    errors->push_back(Error(ErrorCode::kInvalidArgument,
                            "a zero byte found in this text; remove it, because a path, an "
                            "argument or a variable would end there")
                          .WithField(path));
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      FindZeroBytes(value[i], path + "[" + std::to_string(i) + "]", errors);
    }
  } else if (value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      FindZeroBytes(member, path.empty() ? key : path + "." + key, errors);
    }
  }
}

// Whether the reader, whose problems are the first `count`, has told of that very field of the
// document already, or of something in its list: that it is missing there is no news then.
bool IsTold(const Manifest& manifest,
            std::size_t count,
            const YamlDocument& document,
            const std::string& field) {
  const auto begin = manifest.problems.begin();
  return std::any_of(
      begin, begin + static_cast<std::ptrdiff_t>(count), [&](const ManifestProblem& told) {
        const std::string& inner = told.error.field();
        return !field.empty() && told.line == PlaceOf(document, inner).line &&
               (inner == field || inner.starts_with(field + "["));
      });
}

// What makes the edited document bad and not the one in the file: the edit whose field is the
// problem's, or lies inside it, or has it inside; else all edits together.
std::string OriginOf(const Error& error,
                     const std::vector<std::pair<std::string, std::string>>& changed) {
  std::string origin;
  for (const auto& [field, by] : changed) {
    if (IsWithin(error.field(), field) || IsWithin(field, error.field())) {
      origin = by;
    }
  }
  if (!origin.empty()) {
    return origin;
  }
  for (const auto& [field, by] : changed) {
    const bool is_told = origin.find(by) != std::string::npos;
    origin += is_told ? "" : (origin.empty() ? "" : ", ") + by;
  }
  return origin;
}

bool Holds(const std::vector<Error>& errors, const Error& error) {
  return std::any_of(errors.begin(), errors.end(), [&error](const Error& other) {
    return other.field() == error.field() && other.message() == error.message();
  });
}

void AddDocument(const YamlDocument& document,
                 const std::vector<ManifestEdit>& edits,
                 Manifest* manifest) {
  const std::size_t told_before = manifest->problems.size();
  Json value = document.value;
  std::vector<std::pair<std::string, std::string>> changed;  // field, origin
  for (const ManifestEdit& edit : edits) {
    Result<std::string> field = edit.apply(&value);
    if (field.ok()) {
      changed.emplace_back(*std::move(field), edit.origin);
    } else {
      manifest->problems.push_back({0, 0, std::move(field).error(), edit.origin});
    }
  }
  DecodedJob decoded = DecodeTrainingJob(value);
  decoded.errors.insert(
      decoded.errors.end(), decoded.status_errors.begin(), decoded.status_errors.end());
  FindZeroBytes(value, "", &decoded.errors);
  const bool is_edited = !changed.empty() && !decoded.errors.empty();
  const std::vector<Error> as_written =
      is_edited ? DecodeTrainingJob(document.value).errors : std::vector<Error>();
  for (const Error& error : decoded.errors) {
    if (IsTold(*manifest, told_before, document, error.field())) {
      continue;
    }
    ManifestProblem problem = ProblemOf(document, error.field(), error.message());
    const bool is_in_edit = std::any_of(changed.begin(), changed.end(), [&error](const auto& edit) {
      return IsWithin(error.field(), edit.first);
    });
    if (is_in_edit || (is_edited && !Holds(as_written, error))) {
      problem = {0, 0, problem.error, OriginOf(error, changed), document.item};
    }
    manifest->problems.push_back(std::move(problem));
  }
  manifest->jobs.push_back(std::move(decoded.job));
  manifest->documents.push_back(std::move(value));
}

void CheckJobNames(const YamlStream& stream, Manifest* manifest) {
  JobsByName names;
  for (std::size_t i = 0; i < manifest->jobs.size(); ++i) {
    const TrainingJob& job = manifest->jobs[i];
    const YamlDocument& document = stream.documents[i];
    const int line = PlaceOf(document, "metadata.name").line;
    if (const auto first = names.Add(job, manifest->documents[i], line)) {
      manifest->problems.push_back(ProblemOf(
          document,
          "metadata.name",
          Quoted(job.metadata.name) + " found twice, first on line " + std::to_string(*first)));
    }
  }
}

// By line, and at most kManifestProblemsMax of them.
void SortAndCut(std::vector<ManifestProblem>* problems) {
  std::stable_sort(problems->begin(), problems->end(), [](const auto& a, const auto& b) {
    return a.line < b.line;
  });
  if (problems->size() <= kManifestProblemsMax) {
    return;
  }
  const std::size_t left_out = problems->size() - kManifestProblemsMax;
  problems->erase(problems->begin() + static_cast<std::ptrdiff_t>(kManifestProblemsMax),
                  problems->end());
  problems->push_back(
      MakeProblem({}, "", std::to_string(left_out) + " more problems are not shown"));
}

}  // namespace

Manifest ReadManifest(std::string_view text,
                      std::string_view file,
                      const std::vector<ManifestEdit>& edits) {
  Manifest manifest;
  manifest.file = std::string(file);
  if (text.size() > kManifestBytesMax) {
    manifest.problems.push_back(MakeProblem({},
                                            "",
                                            std::to_string(text.size()) +
                                                " bytes found, expected at most " +
                                                std::to_string(kManifestBytesMax)));
    return manifest;
  }
  YamlStream stream = ReadStream(text, file);
  for (const TextProblem& problem : stream.problems) {
    manifest.problems.push_back(MakeProblem(problem.at, problem.field, problem.message));
  }
  stream.documents = WithoutLists(std::move(stream.documents));
  if (stream.documents.size() > kManifestDocumentsMax) {
    manifest.problems.push_back(MakeProblem({},
                                            "",
                                            std::to_string(stream.documents.size()) +
                                                " documents found, expected at most " +
                                                std::to_string(kManifestDocumentsMax)));
    return manifest;
  }
  if (stream.documents.empty() && stream.problems.empty()) {
    manifest.problems.push_back(MakeProblem({}, "", "empty, expected a TrainingJob"));
  }
  const std::vector<TrainingQueue> queues = TakeQueues(&stream, &manifest);
  SkipForeign(&stream, &manifest);
  for (const YamlDocument& document : stream.documents) {
    AddDocument(document, edits, &manifest);
  }
  CheckJobNames(stream, &manifest);
  CheckQueuesOfJobs(stream, queues, &manifest);
  for (std::size_t i = 0; i < manifest.jobs.size(); ++i) {
    for (const LaunchRemark& remark : RemarksOn(manifest.jobs[i])) {
      manifest.warnings.push_back(ProblemOf(stream.documents[i], remark.field, remark.message));
    }
  }
  SortAndCut(&manifest.problems);
  SortAndCut(&manifest.warnings);
  return manifest;
}

namespace {

std::string FormatLines(const std::string& file,
                        const std::vector<ManifestProblem>& problems,
                        const std::string& kind) {
  std::string text;
  for (const ManifestProblem& problem : problems) {
    text += (problem.origin.empty() ? file : problem.origin) + ":";
    if (problem.line > 0) {
      text += std::to_string(problem.line) + ":";
    }
    if (problem.error.field().empty() && problem.column > 0) {
      text += std::to_string(problem.column) + ":";
    }
    const std::string separator = problem.error.field().empty() ? ": " : ".";
    const std::string item = problem.item.empty() ? "" : problem.item + separator;
    text += " " + kind + item + Printable(problem.error.ToString()) + "\n";
  }
  return text;
}

}  // namespace

std::string FormatProblems(const Manifest& manifest) {
  return FormatLines(manifest.file, manifest.problems, "");
}

std::string FormatWarnings(const Manifest& manifest) {
  return FormatLines(manifest.file, manifest.warnings, "warning: ");
}

}  // namespace lockstep::control
