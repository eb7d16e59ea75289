#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "operator/api/job/jobs_by_name.h"
#include "operator/cli/commands.h"
#include "operator/cli/job_file.h"
#include "operator/cli/summary/summary.h"
#include "operator/convert/conversion.h"
#include "operator/yaml/yaml.h"
#include "operator/yaml/yaml_writer.h"

namespace lockstep::control {
namespace {

// Every document of every file, one after the other.
class Converter {
 public:
  explicit Converter(const ConvertArguments& arguments)
      : options_{arguments.image, arguments.command, {}} {}

  void ConvertFile(const std::string& file) {
    const Result<std::string> text = ReadManifestText(file);
    if (!text.ok()) {
      Tell(file, 0, "", text.error().message());
      exit_code_ = kCliUsage;
      return;
    }
    if (text->size() > kManifestBytesMax) {
      Tell(file,
           0,
           "",
           "the manifest is longer than " + std::to_string(kManifestBytesMax) + " bytes");
      exit_code_ = kCliUsage;
      return;
    }
    YamlStream stream = ReadYaml(*text);
    const std::size_t braces = text->find("{{");
    if (!stream.problems.empty() && braces != std::string::npos) {
      Tell(file,
           static_cast<int>(std::count(text->begin(), text->begin() + braces, '\n')) + 1,
           "",
           "found a template with {{ ... }}, expected a rendered file: run helm template first");
      exit_code_ = kCliUsage;
      return;
    }
    for (const TextProblem& problem : stream.problems) {
      Tell(file, problem.at.line, problem.field, problem.message);
      exit_code_ = kCliUsage;
    }
    if (!stream.problems.empty()) {
      return;
    }
    const int known_before = known_count_;
    const std::vector<YamlDocument> documents = WithoutLists(std::move(stream.documents));
    options_.runtimes.clear();
    for (const YamlDocument& document : documents) {
      if (IsForeignRuntime(document.value)) {
        options_.runtimes.push_back(document.value);
      }
    }
    for (const YamlDocument& document : documents) {
      ConvertDocument({file, document}, document.value);
    }
    if (known_count_ == known_before) {
      Tell(file, 0, "", "nothing to convert, expected a " + ForeignKinds());
      exit_code_ = kCliUsage;
    }
  }

  int exit_code() const { return exit_code_; }

 private:
  static void Tell(const std::string& file,
                   int line,
                   const std::string& field,
                   const std::string& text) {
    std::string where = file == "-" ? "standard input" : file;
    if (line > 0) {
      where += ":" + std::to_string(line);
    }
    if (!field.empty()) {
      where += ": " + field;
    }
    std::fprintf(stderr, "%s: %s\n", where.c_str(), text.c_str());
  }

  // Where an object stands.
  struct Place {
    const std::string& file;
    const YamlDocument& document;

    void TellOf(const std::string& field, const std::string& text) const {
      const int line = field.empty() ? 0 : document.positions.Find(field).line;
      const std::string separator = document.item.empty() || field.empty() ? "" : ".";
      Tell(file, line == 0 ? document.start.line : line, document.item + separator + field, text);
    }
  };

  void ConvertDocument(const Place& place, const Json& document) {
    if (!IsForeignJob(document)) {
      const OtherDocument other = DescribeOther(document);
      place.TellOf("", "not converted: " + other.text);
      exit_code_ = other.is_job ? kCliUsage : exit_code_;
      return;
    }
    ++known_count_;
    ConvertJob(place, document);
  }

  void ConvertJob(const Place& place, const Json& document) {
    const Conversion conversion = ConvertForeignJob(document, options_);
    for (const ConversionNote& note : conversion.notes) {
      place.TellOf(note.field, note.text);
    }
    for (const Error& error : conversion.errors) {
      place.TellOf(error.field(), error.message());
    }
    if (!conversion.errors.empty()) {
      exit_code_ = kCliUsage;
      return;
    }
    const std::string text = WriteYaml(conversion.job);
    std::printf("%s%s", count_++ == 0 ? "" : "---\n", text.c_str());
    const Manifest manifest = ReadManifest(text, "");
    for (const ManifestProblem& problem : manifest.problems) {
      const std::string& field = problem.error.field();
      place.TellOf(ForeignField(conversion, field),
                   problem.error.message() + " (" + (field.empty() ? "" : field + " of ") +
                       "the converted TrainingJob)");
    }
    for (const ManifestProblem& warning : manifest.warnings) {
      place.TellOf(ForeignField(conversion, warning.error.field()), warning.error.message());
    }
    const bool is_new = manifest.jobs.empty() ||
                        !names_.Add(manifest.jobs.front(), conversion.job, count_).has_value();
    if (!is_new) {
      place.TellOf("metadata.name",
                   DescribeJson(conversion.job["metadata"]["name"]) +
                       " found twice, expected a name that no earlier job in the input has");
    }
    if (!manifest.ok() || !is_new) {
      exit_code_ = exit_code_ == kCliSucceeded ? kCliFailed : exit_code_;
    }
  }

  ConversionOptions options_;
  JobsByName names_;
  int count_ = 0;        // of jobs that were made
  int known_count_ = 0;  // of those that could be
  int exit_code_ = kCliSucceeded;
};

}  // namespace

int RunConvert(const ConvertArguments& arguments) {
  Converter converter(arguments);
  for (const std::string& file : arguments.files) {
    converter.ConvertFile(file);
  }
  return converter.exit_code();
}

}  // namespace lockstep::control
