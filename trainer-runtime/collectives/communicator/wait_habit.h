#pragma once

namespace lockstep::runtime {

// A way of waiting that is kept up while it pays, and otherwise tried again only now and then.
//
// Spinning saves a wake-up (5 to 50 us) when the peer runs on a core of its own, and is pure loss
// when the peer needs this core or another program has taken the peer's. Yielding the core is the
// quickest change of turns between ranks that share one, and costs a whole time slice when it goes
// to another program. Nothing tells beforehand which case holds, and it changes; so after
// `losses_max` losses in a row the habit rests for 16 waits, then is tried once; if that loses too
// it rests for 32, and so on up to 512. Pure; thread: one.
class WaitHabit {
 public:
  explicit WaitHabit(int losses_max) : losses_max_(losses_max) {}

  // Whether the wait that begins now should use it. Counts the wait.
  bool ShouldTry();

  // How a wait that used it ended.
  void Record(bool has_paid);

 private:
  static constexpr int kRestMin = 16;
  static constexpr int kRestMax = 512;

  int losses_max_;
  int losses_ = 0;  // in a row
  int rest_ = kRestMin;
  int waits_left_ = 0;  // of the current rest
};

}  // namespace lockstep::runtime
