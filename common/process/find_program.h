#pragma once

#include <map>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace lockstep {

// Where programs are sought when nobody says so.
inline constexpr std::string_view kSearchPathDefault = "/usr/local/bin:/usr/bin:/bin";

// The PATH of these variables, or the default.
std::string SearchPathOf(const std::map<std::string, std::string>& variables);

// The file that `name` means: itself when it holds a slash, else the first executable match in the
// colon-separated `search_path`. What is relative is taken from `folder`; empty: the current one.
// Errors: kNotFound; kInvalidArgument when what was found cannot be executed (a folder, or no
// permission). Neither names the search path, which may be long: the caller has it.
Result<std::string> FindProgram(const std::string& name,
                                std::string_view search_path,
                                const std::string& folder = "");

// Whether it is a file, and this process may execute it.
bool IsExecutableFile(const std::string& path);

}  // namespace lockstep
