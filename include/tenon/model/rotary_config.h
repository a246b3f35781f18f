// The fields of config.json that say how rotary positions turn: rope_theta and rope_scaling, or rope_parameters, which
// holds both in newer files.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>

#include "tenon/checkpoint/config.h"
#include "tenon/model/rotary.h"

namespace tenon {

// A member that nobody reads might change the output.
void refuse_unread(const Fields& fields, std::initializer_list<std::string_view> read);

// rope_type, or `type` as older files call it. "default" where neither is there.
std::string rotary_type(const Fields& scaling);

// `positions`, the longest text: becomes longer where the scaling makes it so.
RotaryConfig rotary_fields(const Fields& fields, int head_dim, int& positions);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/rotary_config-inl.h"
#endif
