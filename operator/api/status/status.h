#pragma once

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/json/json.h"
#include "operator/api/job/training_job.h"

namespace lockstep::control {

// Reads what EncodeStatus (encode.h) wrote, but what it had derived. Lenient: another version of
// the operator may have written it. What is not known is kept, and written back. A known field that
// cannot be read is an error, and makes the whole status `unreadable`.
TrainingJobStatus DecodeStatus(const Json& value,
                               const std::string& path,
                               std::vector<Error>* errors);

// Whether a stored status says something else in the fields that are derived and never read back
// than follows from `job`, which was read from it: somebody else wrote them, or the manifest has
// changed since. Fields that are not there say nothing.
bool SaysOtherThanDerived(const Json& status, const TrainingJob& job);

}  // namespace lockstep::control
