#include <cstdio>
#include <string>

#include "operator/cli/commands.h"
#include "operator/cli/schema/explain.h"
#include "operator/cli/summary/summary.h"
#include "operator/cli/terminal/console.h"

namespace lockstep::control {

int RunExplain(const ExplainArguments& arguments) {
  const auto text = ExplainField(arguments.field, JobSchema(KindOfField(arguments.field)));
  if (!text.ok()) {
    return Complain(kCliUsage, text.error().ToString());
  }
  std::fputs(text->c_str(), stdout);
  return kCliSucceeded;
}

}  // namespace lockstep::control
