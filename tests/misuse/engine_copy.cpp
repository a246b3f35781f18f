// expect: tenon: an Engine is not copied, as it owns its weights and threads; pass it by reference
#include <tenon/tenon.h>

#include <type_traits>
#include <utility>

using Engine = tenon::Engine<tenon::Gpt2>;
static_assert(!std::is_copy_constructible_v<Engine> && !std::is_copy_assignable_v<Engine>);
static_assert(std::is_move_constructible_v<Engine> && std::is_move_assignable_v<Engine>);

#ifdef TENON_MISUSE
int pending(Engine engine) { return engine.pending(); }
#else
int pending(const Engine& engine) { return engine.pending(); }
#endif

int use(Engine& engine) { return pending(engine); }
