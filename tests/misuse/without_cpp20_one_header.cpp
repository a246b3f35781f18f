// expect: tenon: C\+\+20 is needed; compile with -std=c\+\+20
// flags: -std=gnu++14
#include "tenon/engine/any_engine.h"

tenon::RequestId submit(tenon::AnyEngine& engine) { return engine.submit({.prompt = "Once"}); }
