#pragma once

#include <string>

#include "common/json/json.h"

namespace lockstep::control {

// The value as one YAML document in block style, keys in their order, texts of several lines as
// they are. ReadYaml gives the same value back.
std::string WriteYaml(const Json& value);

}  // namespace lockstep::control
