// Reads the fields of config.json for rotary positions: rope_theta and rope_scaling, or rope_parameters, which holds
// both in newer files.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>

#include "tenon/checkpoint/config.h"
#include "tenon/model/rotary.h"

namespace tenon {

/// Refuses members that are not in `read`: they might change the output.
void refuse_unread(const Fields& fields, std::initializer_list<std::string_view> read);

/// rope_type, or its older name `type`. "default" if both are missing.
std::string rotary_type(const Fields& scaling);

/// Reads the rotary fields. `positions`, the longest text, is raised if the scaling extends it.
RotaryConfig rotary_fields(const Fields& fields, int head_dim, int& positions);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/rotary_config-inl.h"
#endif
