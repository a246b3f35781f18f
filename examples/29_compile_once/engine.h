// The engine's declaration for other units.
#pragma once
#include <memory>
#include <string>

#include "tenon/engine/any_engine.h"

// [declaration]
// Reads a model folder. Throws tenon::Error.
std::unique_ptr<tenon::AnyEngine> make_engine(const std::string& folder);
// [/declaration]
