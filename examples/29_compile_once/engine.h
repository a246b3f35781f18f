// What the other units see of the engine.
#pragma once
#include <memory>
#include <string>

#include "tenon/engine/any_engine.h"

// [declaration]
// Reads a model's folder. Throws tenon::Error.
std::unique_ptr<tenon::AnyEngine> make_engine(const std::string& folder);
// [/declaration]
