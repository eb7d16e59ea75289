#pragma once

#include <string>

#include "common/json/json.h"
#include "operator/api/job/training_job.h"
#include "operator/reconcile/observed.h"
#include "operator/resources/resource_vector.h"

namespace lockstep::control {

// {"cpu": "2", ...}: what pods ask for, without what nobody but us counts.
Json RequestsAsText(const ResourceVector& requests);

// The spec of a pod of the role as other programs are told of it: one container that asks for
// `requests`, and of the template what decides on which nodes it may stand.
Json PodShapeOf(const RoleSpec& role, const ResourceVector& requests);

// The image that such a pod names: nobody runs it, and the API server wants one.
std::string ImageOfShape(const RoleSpec& role, const PodSettings& settings);

// PodShapeOf, on nodes of the flavors that Kueue has given to the job.
Json AdmittedShapeOf(const TrainingJob& job, const RoleSpec& role, const ResourceVector& requests);

}  // namespace lockstep::control
