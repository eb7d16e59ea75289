#pragma once

#include <string>

#include "operator/convert/conversion.h"

namespace lockstep::control {

// What is made of the first document of `text`; others may be runtimes of it. Where nothing stands
// in the way it has to be a good TrainingJob, else the test fails.
Conversion ConvertText(const std::string& text);

// "FIELD: TEXT\n" of each.
std::string NotesOf(const Conversion& conversion);
std::string ErrorsOf(const Conversion& conversion);

// Expects a note with `text` in its line.
void ExpectNote(const Conversion& conversion, const std::string& text);

// The job's first role, its container, and the variables of that.
Json FirstRole(const Conversion& conversion);
Json FirstContainer(const Conversion& conversion);
Json FirstEnv(const Conversion& conversion);

}  // namespace lockstep::control
