#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace lockstep::control {

// The words of a command line, as a shell takes them: quotes keep blanks together, a backslash
// takes a letter as it is. Nothing is expanded: `$` and `*` are letters. Errors: kInvalidArgument
// (a quote without its end, a backslash at the end). Pure.
Result<std::vector<std::string>> SplitShellWords(std::string_view text);

// `text` as a shell reads it as one word, for a command line that people copy. Pure.
std::string QuoteShellWord(const std::string& text);

}  // namespace lockstep::control
