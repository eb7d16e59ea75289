#include "operator/api/manifest.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/contract/problems.h"
#include "operator/api/decode.h"
#include "operator/api/fields.h"
#include "operator/yaml/yaml.h"

namespace lockstep::control {
namespace {

ManifestProblem MakeProblem(TextPosition at, std::string field, std::string message) {
  Error error = Error(ErrorCode::kInvalidArgument, std::move(message)).WithField(std::move(field));
  return {at.line, at.column, std::move(error)};
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

YamlStream ReadText(std::string_view text, std::string_view file) {
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

void AddDocument(const YamlDocument& document, Manifest* manifest) {
  DecodedJob decoded = DecodeTrainingJob(document.value);
  decoded.errors.insert(
      decoded.errors.end(), decoded.status_errors.begin(), decoded.status_errors.end());
  for (const Error& error : decoded.errors) {
    TextPosition at = document.positions.Find(error.field());
    if (at.line == 0) {
      at = document.start;
    }
    manifest->problems.push_back(MakeProblem(at, error.field(), error.message()));
  }
  manifest->jobs.push_back(std::move(decoded.job));
}

// Two jobs of one name in one namespace would overwrite each other.
void CheckJobNames(const YamlStream& stream, Manifest* manifest) {
  std::map<std::pair<std::string, std::string>, int> first_lines;
  for (std::size_t i = 0; i < manifest->jobs.size(); ++i) {
    const Metadata& metadata = manifest->jobs[i].metadata;
    const TextPosition at = stream.documents[i].positions.Find("metadata.name");
    const auto [first, is_new] =
        first_lines.emplace(std::pair(metadata.namespace_name, metadata.name), at.line);
    const bool is_generated = at.line == 0;
    if (!is_new && !metadata.name.empty() && !is_generated) {
      manifest->problems.push_back(MakeProblem(
          at,
          "metadata.name",
          Quoted(metadata.name) + " found twice, first on line " + std::to_string(first->second)));
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
  problems->push_back(MakeProblem({}, "", std::to_string(left_out) + " more problems left out"));
}

}  // namespace

Manifest ReadManifest(std::string_view text, std::string_view file) {
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
  const YamlStream stream = ReadText(text, file);
  for (const TextProblem& problem : stream.problems) {
    manifest.problems.push_back(MakeProblem(problem.at, problem.field, problem.message));
  }
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
  for (const YamlDocument& document : stream.documents) {
    AddDocument(document, &manifest);
  }
  CheckJobNames(stream, &manifest);
  SortAndCut(&manifest.problems);
  return manifest;
}

std::string FormatProblems(const Manifest& manifest) {
  std::string text;
  for (const ManifestProblem& problem : manifest.problems) {
    text += manifest.file + ":";
    if (problem.line > 0) {
      text += std::to_string(problem.line) + ":";
    }
    if (problem.error.field().empty() && problem.column > 0) {
      text += std::to_string(problem.column) + ":";
    }
    text += " " + problem.error.ToString() + "\n";
  }
  return text;
}

}  // namespace lockstep::control
