#include "operator/view/pods/pod_reports.h"

#include <utility>

#include "operator/view/pods/poll_plan.h"

namespace lockstep::control {
namespace {

ReportNews Compare(const StatusDocument* before, const StatusDocument& after) {
  if (Accuses(after) || before == nullptr || before->phase != after.phase ||
      before->epoch != after.epoch || before->relaunches != after.relaunches ||
      before->held.has_value() != after.held.has_value() ||
      before->hang_evidence != after.hang_evidence) {
    return ReportNews::kUrgent;
  }
  const bool is_same = before->step == after.step && before->devices == after.devices;
  return is_same ? ReportNews::kNone : ReportNews::kCalm;
}

}  // namespace

ReportNews PodReports::Accept(const JobId& job, PodReport report) {
  Entry& entry = entries_[job][report.pod.name];
  const ReportNews news =
      Compare(entry.report.has_value() ? &entry.report->document : nullptr, report.document);
  entry.closed_at.reset();
  entry.refusal.reset();
  entry.report = std::move(report);
  return news;
}

ReportNews PodReports::NoteClosed(const JobId& job, const std::string& pod, TimePoint when) {
  Entry& entry = entries_[job][pod];
  const bool is_news = !std::exchange(entry.closed_at, when).has_value();
  if (!is_news) {
    return ReportNews::kNone;
  }
  // Before the first report that is how a pod comes up.
  return entry.report.has_value() ? ReportNews::kUrgent : ReportNews::kCalm;
}

ReportNews PodReports::NoteRefused(const JobId& job, const std::string& pod, TokenVerdict why) {
  const bool is_news = std::exchange(entries_[job][pod].refusal, why) != why;
  return is_news ? ReportNews::kCalm : ReportNews::kNone;
}

const PodReports::Entry* PodReports::Find(const JobId& job, const std::string& pod) const {
  const auto pods = entries_.find(job);
  if (pods == entries_.end()) {
    return nullptr;
  }
  const auto entry = pods->second.find(pod);
  return entry == pods->second.end() ? nullptr : &entry->second;
}

void PodReports::KeepOnly(const JobId& job, const std::set<std::string>& pods) {
  if (const auto known = entries_.find(job); known != entries_.end()) {
    std::erase_if(known->second, [&](const auto& entry) { return pods.count(entry.first) == 0; });
  }
}

}  // namespace lockstep::control
