#pragma once

#include <string>

#include "operator/convert/conversion.h"

namespace lockstep::control {

// A job of kubeflow.org called "j", as a flow mapping, with these replicas; `spec` stands in its
// spec.
std::string KubeflowJob(const std::string& kind,
                        const std::string& replicas,
                        const std::string& spec = "runPolicy: {backoffLimit: 1}");

// "TYPE: {MORE}, " whose pods' container is {name: c, image: i, CONTAINER}.
std::string Replica(const std::string& type,
                    const std::string& container,
                    const std::string& more = "replicas: 2");

// What is made of the first document of `text`; others may be runtimes of it. Where nothing stands
// in the way it has to be a good TrainingJob, else the test fails.
Conversion ConvertText(const std::string& text, const ConversionOptions& options = {});

// "FIELD: TEXT\n" of each.
std::string NotesOf(const Conversion& conversion);
std::string ErrorsOf(const Conversion& conversion);

// Expects a note with `text` in its line.
void ExpectNote(const Conversion& conversion, const std::string& text);

// The same of a manifest whose job need not be a good one.
Conversion ConvertAny(const std::string& text, ConversionOptions options = {});

// The job's first role, its container, and the variables of that.
Json FirstRole(const Conversion& conversion);
Json FirstContainer(const Conversion& conversion);
Json FirstEnv(const Conversion& conversion);

}  // namespace lockstep::control
