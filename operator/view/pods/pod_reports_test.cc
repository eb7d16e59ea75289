#include "operator/view/pods/pod_reports.h"

#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

const JobId kJob{"default", "mnist"};

PodReport Report(int64_t step, int64_t epoch = 1) {
  PodReport report;
  report.pod = {"default", "mnist-worker-0"};
  report.document.step = Step(step);
  report.document.epoch = Epoch(epoch);
  return report;
}

TEST(PodReports, ProgressIsCalmNewsAndAnotherEpochUrgent) {
  PodReports reports;
  EXPECT_EQ(reports.Accept(kJob, Report(1)), ReportNews::kUrgent) << "the first";
  EXPECT_EQ(reports.Accept(kJob, Report(1)), ReportNews::kNone);
  EXPECT_EQ(reports.Accept(kJob, Report(2)), ReportNews::kCalm);
  EXPECT_EQ(reports.Accept(kJob, Report(2, 2)), ReportNews::kUrgent);
}

TEST(PodReports, EvidenceOfAHangIsUrgentNewsOnce) {
  PodReports reports;
  reports.Accept(kJob, Report(1));
  PodReport hangs = Report(1);
  hangs.document.hang_evidence.emplace_back();
  EXPECT_EQ(reports.Accept(kJob, hangs), ReportNews::kUrgent);
  EXPECT_EQ(reports.Accept(kJob, hangs), ReportNews::kNone);
}

TEST(PodReports, ClosedPortIsNewsOnceAndUrgentAfterAReport) {
  const std::string pod = Report(1).pod.name;
  PodReports reports;
  EXPECT_EQ(reports.NoteClosed(kJob, pod, TimePoint{}), ReportNews::kCalm) << "it comes up";
  EXPECT_EQ(reports.NoteClosed(kJob, pod, TimePoint{}), ReportNews::kNone);

  reports.Accept(kJob, Report(1));
  EXPECT_FALSE(reports.Find(kJob, pod)->closed_at.has_value());

  EXPECT_EQ(reports.NoteClosed(kJob, pod, TimePoint{}), ReportNews::kUrgent);
  EXPECT_TRUE(reports.Find(kJob, pod)->closed_at.has_value());
  EXPECT_TRUE(reports.Find(kJob, pod)->report.has_value()) << "what it said is still known";
}

TEST(PodReports, PodsThatAreGoneAreForgotten) {
  PodReports reports;
  reports.Accept(kJob, Report(1));
  reports.NoteClosed(kJob, "mnist-worker-1", TimePoint{});

  reports.KeepOnly(kJob, {"mnist-worker-1"});

  EXPECT_EQ(reports.Find(kJob, "mnist-worker-0"), nullptr);
  EXPECT_NE(reports.Find(kJob, "mnist-worker-1"), nullptr);
  EXPECT_EQ(reports.Find({"other", "mnist"}, "mnist-worker-1"), nullptr);
}

}  // namespace
}  // namespace lockstep::control
