#include "trainer-runtime/supervisor/program_starter.h"

#include <chrono>
#include <utility>

#include "common/base/time.h"
#include "common/contract/command/python_command.h"
#include "common/process/find_program.h"
#include "trainer-runtime/supervisor/process/supervised_signals.h"
#include "trainer-runtime/supervisor/process_names.h"

namespace lockstep::runtime {
namespace {

// For modules to be imported first. Choice: the largest take a minute from a cold network disk.
constexpr std::chrono::seconds kImportPatience{120};

}  // namespace

ProgramStarter::ProgramStarter(const SuperviseOptions& options)
    : options_(options), search_path_(SearchPathOf(options.processes.front().environment)) {}

Status ProgramStarter::Prepare() {
  LOCKSTEP_ASSIGN_OR_RETURN(program_, FindProgram(options_.command.front(), search_path_));
  if (options_.warm.empty()) {
    return OkStatus();
  }
  const PythonCommand command = ParsePythonCommand(options_.command).value();
  warm_.emplace(NamesOf(options_.processes), options_.logger);
  for (const SupervisedProcess& process : options_.processes) {
    warm_->Add({program_, command, options_.warm, process.environment, options_.error_fd});
  }
  warm_->AwaitReady(Deadline::After(SteadyNow(), kImportPatience), WatchForStop().get());
  return OkStatus();
}

Result<ChildProcess> ProgramStarter::Start(std::size_t local_rank, const ProcessStart& start) {
  if (warm_.has_value()) {
    std::optional<ChildProcess> forked =
        warm_->Fork(static_cast<int>(local_rank),
                    {start.environment, start.input.get(), start.kept.get(), start.kept_variable});
    if (forked.has_value()) {
      return std::move(*forked);
    }
  }
  ChildOptions options{
      program_, options_.command, start.environment, start.input.get(), start.kept.get()};
  const EnvironmentMap& shared = options_.processes[local_rank].environment;
  options.environment.insert(shared.begin(), shared.end());
  options.command.insert(options.command.end(), start.arguments.begin(), start.arguments.end());
  return SpawnChild(options);
}

std::vector<pid_t> ProgramStarter::helpers() const {
  return warm_.has_value() ? warm_->pids() : std::vector<pid_t>();
}

void ProgramStarter::NoteEnded(pid_t helper) {
  if (warm_.has_value()) {
    warm_->NoteEnded(helper);
  }
}

}  // namespace lockstep::runtime
