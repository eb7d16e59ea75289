#include <chrono>

#include <gtest/gtest.h>

#include "operator/controller/testing/scripted_cluster.h"

namespace lockstep::control {
namespace {

using std::chrono::seconds;

TEST_F(ControllerTest, StatusThatOthersWroteIsPutBackThoughNothingIsDecided) {
  cluster_.world.Launch();
  controller_.Notify(kKey, now_);
  Drain();
  controller_.Notify(kKey, now_);
  EXPECT_EQ(Drain().find("write"), std::string::npos);
  cluster_.world.observed.is_status_foreign = true;
  controller_.Notify(kKey, now_);
  EXPECT_EQ(Drain(), "read mnist\nwrite\npublish StatusOverwritten\n");

  controller_.Notify(kKey, now_);  // the other writer insists
  EXPECT_EQ(Drain(), "read mnist\npublish \n");
  EXPECT_EQ(controller_.NextStep(), now_ + seconds(1));
  now_ += seconds(1);
  EXPECT_EQ(Drain(), "read mnist\nwrite\npublish \n") << "it is told of once";
}

}  // namespace
}  // namespace lockstep::control
