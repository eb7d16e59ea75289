#include "operator/cli/summary/figures.h"

#include <cstdio>

namespace lockstep::control {

std::string Fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string FormatTest(const std::optional<double>& accuracy, const std::optional<double>& loss) {
  const std::string in_loss = loss ? "loss " + Fixed(*loss, 4) : "";
  if (!accuracy) {
    return in_loss;
  }
  return Fixed(100 * *accuracy, 1) + " %" + (loss ? ", " + in_loss : "");
}

std::string FormatModel(const ModelRecord& model) {
  if (!model.step && !model.result) {
    return "nothing is known about this model";
  }
  std::string text = model.step ? std::to_string(model.step->value()) : "all";
  if (model.step && model.steps_total && model.step->value() <= *model.steps_total) {
    text += " of " + std::to_string(*model.steps_total);
  }
  text += " steps";
  if (!model.result) {
    text += *model.step > Step() ? "; training loss unknown" : "";
    return text + (IsTrained(model) ? "; test results unknown" : "");
  }
  const std::optional<double>& loss = model.result->training_loss;
  text += "; training loss " + (loss ? Fixed(*loss, 4) : "not a finite number");
  const std::string test = FormatTest(model.result->test_accuracy, model.result->test_loss);
  return text + (test.empty() ? "" : "; test " + test);
}

}  // namespace lockstep::control
