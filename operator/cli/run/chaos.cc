#include "operator/cli/run/chaos.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "operator/cli/terminal/duration.h"

namespace lockstep::control {
namespace {

constexpr std::size_t kActionsMax = 64;

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(at + 1);
  }
}

template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return number;
}

Error WrongAction(std::string_view action, const std::string& what) {
  return Error(ErrorCode::kInvalidArgument, "--chaos \"" + std::string(action) + "\": " + what);
}

std::string Quoted(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

// "worker-1"
std::optional<TaskId> ParseTask(std::string_view text) {
  const std::size_t dash = text.rfind('-');
  if (dash == std::string_view::npos) {
    return std::nullopt;
  }
  const auto role = ParseRole(text.substr(0, dash));
  const auto index = ParseNumber<int>(text.substr(dash + 1));
  if (!role || !index || *index < 0) {
    return std::nullopt;
  }
  return TaskId{*role, *index};
}

std::optional<Phase> ParsePhase(std::string_view name) {
  for (const Phase phase : kPhases) {
    if (PhaseName(phase) == name) {
      return phase;
    }
  }
  return std::nullopt;
}

// "kill", "stop", "exit"; what follows '=' before the targets is taken off `rest`.
Status ParseKind(std::string_view action, std::string_view* rest, ChaosAction* parsed) {
  const std::size_t equals = rest->find('=');
  const std::string_view verb = rest->substr(0, equals);
  if (verb != "kill" && verb != "stop" && verb != "exit") {
    return WrongAction(
        action,
        "expected \"kill=\", \"stop=\" or \"exit=CODE:\" at the start, found " + Quoted(verb));
  }
  if (equals == std::string_view::npos) {
    return WrongAction(action, "expected \"=\" and a pod after " + Quoted(verb));
  }
  rest->remove_prefix(equals + 1);
  parsed->kind = verb == "kill"   ? ChaosKind::kKill
                 : verb == "stop" ? ChaosKind::kStop
                                  : ChaosKind::kExit;
  if (parsed->kind != ChaosKind::kExit) {
    return OkStatus();
  }
  const std::size_t end = std::min(rest->find_first_of(":@"), rest->size());
  const auto code = ParseNumber<int>(rest->substr(0, end));
  if (!code || *code < 0 || *code > 255) {
    return WrongAction(action,
                       "expected an exit code from 0 to 255 as in exit=3:worker-1@step=60, found " +
                           Quoted(rest->substr(0, end)));
  }
  parsed->exit_code = *code;
  rest->remove_prefix(std::min(end + 1, rest->size()));
  return OkStatus();
}

Status ParseTargets(std::string_view action, std::string_view text, ChaosAction* parsed) {
  for (const std::string_view name : Split(text, '+')) {
    const auto task = ParseTask(name);
    if (!task) {
      return WrongAction(action, "expected a pod such as worker-1, found " + Quoted(name));
    }
    if (std::find(parsed->targets.begin(), parsed->targets.end(), *task) != parsed->targets.end()) {
      return WrongAction(action, Quoted(name) + " is named twice");
    }
    parsed->targets.push_back(*task);
  }
  return OkStatus();
}

Status ParseTrigger(std::string_view action, std::string_view text, ChaosAction* parsed) {
  if (text.starts_with("step=")) {
    const auto step = ParseNumber<int64_t>(text.substr(5));
    if (step && *step >= 0) {
      parsed->trigger = ChaosAtStep{*step};
      return OkStatus();
    }
  } else if (text.starts_with("time=")) {
    if (const auto after = ParseDuration(text.substr(5)); after.ok()) {
      parsed->trigger = ChaosAtTime{*after};
      return OkStatus();
    }
  } else if (text.starts_with("phase=")) {
    if (const auto phase = ParsePhase(text.substr(6))) {
      parsed->trigger = ChaosAtPhase{*phase};
      return OkStatus();
    }
  }
  return WrongAction(action,
                     "expected @step=N, @time=DURATION or @phase=NAME at the end, found " +
                         Quoted("@" + std::string(text)));
}

Result<ChaosAction> ParseAction(std::string_view action) {
  ChaosAction parsed;
  parsed.text = action;
  std::string_view rest = action;
  LOCKSTEP_RETURN_IF_ERROR(ParseKind(action, &rest, &parsed));
  const std::size_t at = rest.find('@');
  if (at == std::string_view::npos) {
    return WrongAction(action, "expected @step=N, @time=DURATION or @phase=NAME at the end");
  }
  LOCKSTEP_RETURN_IF_ERROR(ParseTargets(action, rest.substr(0, at), &parsed));
  LOCKSTEP_RETURN_IF_ERROR(ParseTrigger(action, rest.substr(at + 1), &parsed));
  return parsed;
}

bool IsDue(const ChaosAction& action, const ChaosView& view) {
  for (const TaskId& target : action.targets) {
    if (!view.running_tasks.contains(target)) {
      return false;
    }
  }
  if (const auto* at_step = std::get_if<ChaosAtStep>(&action.trigger)) {
    return view.step >= at_step->step;
  }
  if (const auto* at_time = std::get_if<ChaosAtTime>(&action.trigger)) {
    return view.running >= at_time->after;
  }
  const auto phase = view.phases.find(action.targets.front());
  return phase != view.phases.end() &&
         phase->second == std::get<ChaosAtPhase>(action.trigger).phase;
}

}  // namespace

Result<std::vector<ChaosAction>> ParseChaos(std::string_view text) {
  std::vector<ChaosAction> actions;
  for (const std::string_view part : Split(text, ',')) {
    LOCKSTEP_ASSIGN_OR_RETURN(ChaosAction action, ParseAction(part));
    actions.push_back(std::move(action));
  }
  if (actions.size() > kActionsMax) {
    return Error(ErrorCode::kInvalidArgument,
                 "--chaos: at most " + std::to_string(kActionsMax) + " actions, found " +
                     std::to_string(actions.size()));
  }
  return actions;
}

Status CheckChaosTargets(const std::vector<ChaosAction>& actions, const std::set<TaskId>& tasks) {
  for (const ChaosAction& action : actions) {
    for (const TaskId& target : action.targets) {
      if (tasks.contains(target)) {
        continue;
      }
      std::string names;
      for (const TaskId& task : tasks) {
        names += (names.empty() ? "" : ", ") + TaskName(task);
      }
      return WrongAction(action.text,
                         "the job has no pod " + TaskName(target) + ", its pods are " + names);
    }
  }
  return OkStatus();
}

Status CheckChaosTriggers(const std::vector<ChaosAction>& actions, bool has_steps) {
  for (const ChaosAction& action : actions) {
    if (!has_steps && std::holds_alternative<ChaosAtStep>(action.trigger)) {
      return Error(ErrorCode::kInvalidArgument,
                   "--chaos " + action.text +
                       ": the job runs a command, which may not report steps; use @time=DURATION "
                       "or @phase=NAME");
    }
  }
  return OkStatus();
}

std::vector<ChaosAction> ChaosSchedule::TakeDue(const ChaosView& view) {
  std::vector<ChaosAction> due;
  for (auto at = pending_.begin(); at != pending_.end();) {
    if (IsDue(*at, view)) {
      due.push_back(std::move(*at));
      at = pending_.erase(at);
    } else {
      ++at;
    }
  }
  return due;
}

}  // namespace lockstep::control
