// The drawings of a profile's page.
#pragma once

#include "frontend/driver/profile_data.h"

#include <string>
#include <vector>

namespace stator {

// "kernel", "matmul", "attention" or "other": the classes that the page's style colours.
std::string ColourOf(const std::string& kind);

// Kernels by flops a byte and flops a second, both logarithmic, under the measured ceilings; the
// area of a point is its share of the update.
std::string RooflineSvg(const Profile& profile, const std::vector<ProfileRow>& kernels);

// The steps of one update, side by side in time.
std::string TimelineSvg(const Profile& profile);

}  // namespace stator
