#pragma once

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/contract/training/training_result.h"
#include "common/json/json.h"

namespace lockstep::control {

// `status.result`, and back. Where each rank has trained a model of its own its `models` tell one
// by one, in rank order. Numbers that are not finite are left out. Errors of decoding: wrong types,
// appended to `errors`; what else is there is read.
Json EncodeResult(const TestResult& result);
TestResult DecodeResult(const Json& value, const std::string& path, std::vector<Error>* errors);

}  // namespace lockstep::control
