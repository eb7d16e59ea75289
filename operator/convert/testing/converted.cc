#include "operator/convert/testing/converted.h"

#include <gtest/gtest.h>

#include "operator/api/job_manifest.h"
#include "operator/yaml/yaml.h"
#include "operator/yaml/yaml_writer.h"

namespace lockstep::control {

std::string KubeflowJob(const std::string& kind,
                        const std::string& replicas,
                        const std::string& spec) {
  const bool is_of_mpi = kind == "MPIJob";
  const std::string key = is_of_mpi ? "mpi" : kind == "TFJob" ? "tf" : "pytorch";
  return "{apiVersion: kubeflow.org/" + std::string(is_of_mpi ? "v2beta1" : "v1") +
         ", kind: " + kind + ", metadata: {name: j}, spec: {" + spec + ", " + key +
         "ReplicaSpecs: {" + replicas + "}}}\n";
}

std::string Replica(const std::string& type,
                    const std::string& container,
                    const std::string& more) {
  return type + ": {template: {spec: {containers: [{name: c, image: i, " + container + "}]}}, " +
         more + "}, ";
}

Conversion ConvertAny(const std::string& text, ConversionOptions options) {
  const YamlStream stream = ReadYaml(text);
  EXPECT_TRUE(stream.problems.empty()) << text;
  for (const YamlDocument& document : stream.documents) {
    options.runtimes.push_back(document.value);
  }
  return ConvertForeignJob(stream.documents.at(0).value, options);
}

Conversion ConvertText(const std::string& text, const ConversionOptions& options) {
  Conversion conversion = ConvertAny(text, options);
  if (conversion.errors.empty()) {
    EXPECT_EQ(FormatProblems(ReadManifest(WriteYaml(conversion.job), "converted")), "") << text;
  }
  return conversion;
}

std::string NotesOf(const Conversion& conversion) {
  std::string notes;
  for (const ConversionNote& note : conversion.notes) {
    notes += note.field + ": " + note.text + "\n";
  }
  return notes;
}

std::string ErrorsOf(const Conversion& conversion) {
  std::string errors;
  for (const Error& error : conversion.errors) {
    errors += error.field() + ": " + error.message() + "\n";
  }
  return errors;
}

void ExpectNote(const Conversion& conversion, const std::string& text) {
  const std::string notes = NotesOf(conversion);
  EXPECT_NE(notes.find(text), std::string::npos) << notes;
}

Json FirstRole(const Conversion& conversion) {
  return conversion.job["spec"]["roles"][0];
}

Json FirstContainer(const Conversion& conversion) {
  return FirstRole(conversion)["template"]["spec"]["containers"][0];
}

Json FirstEnv(const Conversion& conversion) {
  return FirstContainer(conversion).value("env", Json::array());
}

}  // namespace lockstep::control
