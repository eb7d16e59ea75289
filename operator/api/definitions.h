#pragma once

#include <string_view>

namespace lockstep::control {

// The CustomResourceDefinitions as crds/ has them, compiled in: YAML.
std::string_view JobDefinitionText();
std::string_view QueueDefinitionText();

}  // namespace lockstep::control
