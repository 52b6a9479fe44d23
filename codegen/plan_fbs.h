// Between a Plan and the tables of codegen/plan.fbs.
#pragma once

#include "codegen/plan.h"
#include "codegen/plan_generated.h"

namespace stator {

inline constexpr int kPlanVersion = 3;

fbs::PlanT ToFileForm(const Plan& plan);
// Throws `Error` (kParse) for what no plan can hold. VerifyPlan checks the rest.
Plan FromFileForm(const fbs::PlanT& file);

}  // namespace stator
